"""The log's table of settings, and of other values that it keeps by a name."""

from __future__ import annotations

from rejoinder.stores.log.database import Connection, LogDatabase


def write(connection: Connection, name: str, value: str) -> None:
    """Write a value, in place of an earlier one."""
    connection.execute(
        "INSERT INTO setting (name, value) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def read_settings(connection: Connection) -> list[tuple[str, str]]:
    """Return names and JSON values of the settings of feedback that were ever written."""
    query = "SELECT name, value FROM setting WHERE name IN ('redact', 'days', 'learn')"
    return connection.execute(query).fetchall()


def read_clocks(connection: Connection) -> dict[str, str]:
    """Return the values whose names begin with "clock"."""
    return dict(connection.execute("SELECT name, value FROM setting WHERE name LIKE 'clock%'"))


def find_forgotten(log: LogDatabase) -> int:
    """Return the value "forgotten"; 0: there is none."""
    rows = log.rows("SELECT value FROM setting WHERE name = 'forgotten'")
    return int(rows[0][0]) if rows else 0
