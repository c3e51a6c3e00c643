"""Changes and requests of a log that have a token: those of a change that may not be made yet."""

from __future__ import annotations

from rejoinder.stores.log.database import Connection


def has_any(connection: Connection) -> bool:
    """Return whether changes or requests have a token."""
    row = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM change WHERE token != '')"
        " OR EXISTS (SELECT 1 FROM request WHERE token != '')"
    ).fetchone()
    return bool(row[0])


def confirm(connection: Connection, token: str) -> None:
    """Let changes and requests of a token count for all."""
    connection.execute("UPDATE change SET token = '' WHERE token = ?", (token,))
    connection.execute("UPDATE request SET token = '' WHERE token = ?", (token,))


def withdraw(connection: Connection, token: str) -> None:
    """Delete changes and requests of a token."""
    connection.execute("DELETE FROM change WHERE token = ?", (token,))
    connection.execute("DELETE FROM request WHERE token = ?", (token,))


def withdraw_all(connection: Connection) -> None:
    """Delete changes and requests that have a token."""
    connection.execute("DELETE FROM change WHERE token != ''")
    connection.execute("DELETE FROM request WHERE token != ''")
