"""The log's table of answers that servers share, in PostgreSQL alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rejoinder.stores.log.database import Connection, LogDatabase

# One statement for any number of answers, which PostgreSQL need not read anew each time.
_ADD = """INSERT INTO answer (id, time, content)
  SELECT id, ?, content FROM json_to_recordset(CAST(? AS json)) AS row (id text, content text)
  ON CONFLICT (id) DO NOTHING"""


def insert(connection: Connection, answers: Mapping[str, Any], time: float) -> None:
    """Write answers by their ids, all or none; one whose id is there is left as it is."""
    rows = [
        {"id": name, "content": msgspec.json.encode(answer).decode()}
        for name, answer in answers.items()
    ]
    connection.execute(_ADD, (time, msgspec.json.encode(rows).decode()))


def find(log: LogDatabase, name: str, expired: float) -> Any:
    """Return an answer by its id, of since `expired`, as JSON types; None: there is none."""
    query = "SELECT content FROM answer WHERE id = ? AND time >= ?"
    rows = log.rows(query, (name, expired))
    return msgspec.json.decode(rows[0][0]) if rows else None


def delete_old(connection: Connection, expired: float, most: int) -> None:
    """Delete the answers of before `expired`, and the oldest of more than `most`."""
    connection.execute(
        "DELETE FROM answer WHERE time < ? OR number <= (SELECT max(number) FROM answer) - ?",
        (expired, most),
    )


def delete_all(connection: Connection) -> None:
    """Delete all answers."""
    connection.execute("DELETE FROM answer")
