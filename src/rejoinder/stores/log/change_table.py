"""The log's table of changes: replies before and after, by their positions.

A change with a token counts for who has a manifest of this token; one without counts for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from rejoinder.corpora.schema import Candidate
from rejoinder.stores.log.database import Connection, LogDatabase

ChangeKind: TypeAlias = Literal["add", "edit", "retire", "merge", "move", "undo"]
State: TypeAlias = dict[int, Candidate | None]  # replies by position; None: there is none
StatePair: TypeAlias = tuple[State, State]  # before and after
_MADE = "FROM change WHERE token IN ('', :token)"


class StoredChange(NamedTuple):
    """A change that was read."""

    id: int
    time: float  # seconds since 1970
    kind: ChangeKind
    states: StatePair | None  # None: they cannot be read


def insert(
    connection: Connection,
    time: float,
    kind: ChangeKind,
    states: StatePair,
    undoes: int,
    token: str,
) -> int:
    """Write a change, which may undo one of that number; return its number."""
    before, after = map(_json, states)
    cursor = connection.execute(
        "INSERT INTO change (time, kind, before, after, undoes, token)"
        " VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
        (time, kind, before, after, undoes, token),
    )
    [number] = cursor.fetchone()
    return int(number)


def latest(log: LogDatabase, limit: int | None, token: str) -> list[StoredChange]:
    """Return the latest changes, newest first, at most `limit`; None: all."""
    most = "" if limit is None else " LIMIT :limit"
    query = f"SELECT id, time, kind, before, after {_MADE} ORDER BY id DESC{most}"
    return list(map(_stored, log.rows(query, {"token": token, "limit": limit})))


def find(log: LogDatabase, number: int, token: str) -> StoredChange | None:
    """Return a change by its number; None: there is none."""
    query = f"SELECT id, time, kind, before, after {_MADE} AND id = :id"
    rows = log.rows(query, {"token": token, "id": number})
    return _stored(rows[0]) if rows else None


def undoings(log: LogDatabase, first: int, token: str) -> list[tuple[int, int, int]]:
    """Return of all changes from a number on, newest first, which one they undo.

    Each is its number, the number of the change that it undoes or 0, and 1 if a version that did
    not write such numbers has undone it.
    """
    query = f"SELECT id, undoes, undone {_MADE} AND id >= :first ORDER BY id DESC"
    return log.rows(query, {"token": token, "first": first})


def read_states(connection: Connection) -> list[tuple[int, StatePair | None]]:
    """Return number and replies of all changes; None: they cannot be read."""
    rows = connection.execute("SELECT id, before, after FROM change").fetchall()
    return [(number, _states(before, after)) for number, before, after in rows]


def write_states(connection: Connection, number: int, states: StatePair) -> None:
    """Write the replies of a change in place of those that it has."""
    before, after = map(_json, states)
    connection.execute(
        "UPDATE change SET before = ?, after = ? WHERE id = ?", (before, after, number)
    )


def delete_before(connection: Connection, time: float) -> int:
    """Delete the changes of before a time; return how many."""
    return connection.execute("DELETE FROM change WHERE time < ?", (time,)).rowcount


def _stored(row: Sequence[Any]) -> StoredChange:
    at, time, kind, before, after = row
    return StoredChange(at, time, kind, _states(before, after))


def _json(state: State) -> str:
    return msgspec.json.encode(list(state.items())).decode()


def _states(before: object, after: object) -> StatePair | None:
    try:
        return _state(before), _state(after)
    except msgspec.ValidationError:
        return None


def _state(text: object) -> State:
    pairs: list[tuple[int, Candidate | None]] = msgspec.json.decode(
        str(text), type=list[tuple[int, Candidate | None]]
    )
    return dict(pairs)
