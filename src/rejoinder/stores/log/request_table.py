"""The log's table of requests, and what they have led to, by their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rejoinder.stores.log.database import Connection, LogDatabase


def insert(
    connection: Connection,
    key: str,
    digest: str,
    result: Mapping[str, Any],
    token: str,
    time: float,
    expired: float,
) -> bool:
    """Write a request; return whether there was none of this key since `expired`.

    With a token it counts for who has a manifest of this token.
    """
    encoded = msgspec.json.encode(result).decode()
    written = connection.execute(
        "INSERT INTO request (key, time, digest, result, token) VALUES (?, ?, ?, ?, ?) ON CONFLICT "
        "(key) DO UPDATE SET time = excluded.time, digest = excluded.digest, "
        "result = excluded.result, token = excluded.token WHERE request.time < ?",
        (key, time, digest, encoded, token, expired),
    )
    return bool(written.rowcount)


def find(
    log: LogDatabase, key: str, expired: float, token: str
) -> tuple[str, dict[str, Any]] | None:
    """Return digest and result of a request since `expired`; None: there is none."""
    rows = log.rows(
        "SELECT digest, result FROM request WHERE key = ? AND time >= ? AND token IN ('', ?)",
        (key, expired, token),
    )
    if not rows:
        return None
    [(digest, result)] = rows
    return digest, msgspec.json.decode(result)


def delete(connection: Connection, key: str) -> None:
    """Delete the request of a key."""
    connection.execute("DELETE FROM request WHERE key = ?", (key,))


def delete_before(connection: Connection, time: float) -> int:
    """Delete the requests of before a time; return how many."""
    return connection.execute("DELETE FROM request WHERE time < ?", (time,)).rowcount
