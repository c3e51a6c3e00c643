"""The log's table of entries, and that of the replies in them, which are kept by their texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rejoinder.stores.log.database import Connection, LogDatabase

_WHERE = (
    "((:ids IS NULL OR id IN (SELECT value FROM json_each(:ids))) AND (:before IS NULL "
    "OR time < :before) AND (:source IS NULL OR source = :source))"
)
_DELETE = f"DELETE FROM entry WHERE {_WHERE}"  # noqa: S608 (a constant)
_CONTEXTS = f"SELECT context, {_WHERE} FROM entry"  # noqa: S608 (a constant)
_LATE = 10_000  # entries among which a ticket is looked for


class EntryRow(NamedTuple):
    """The values of an entry."""

    context: tuple[str, ...]
    offered: tuple[str, ...]  # texts of replies
    chosen: str | None  # likewise
    text: str | None
    source: str
    time: float  # seconds since 1970


class Conditions(NamedTuple):
    """Conditions on entries, of which all have to apply; None: there is no such condition."""

    ids: Sequence[int] | None
    before: float | None  # seconds since 1970
    source: str | None

    def values(self) -> dict[str, Any]:
        """Return the values of `_WHERE`."""
        ids = None if self.ids is None else msgspec.json.encode(list(self.ids)).decode()
        return {"ids": ids, "before": self.before, "source": self.source}


def insert(connection: Connection, row: EntryRow, ticket: str | None) -> int:
    """Write an entry; return its number.

    A ticket is "KEY:..."; `find_ticket` finds it by the key.
    """
    values = (
        row.time,
        msgspec.json.encode(row.context).decode(),
        msgspec.json.encode([_reply_id(connection, text) for text in row.offered]).decode(),
        None if row.chosen is None else _reply_id(connection, row.chosen),
        row.text,
        row.source,
        ticket,
    )
    made = connection.execute(
        "INSERT INTO entry (time, context, offered, chosen, text, source, ticket) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
        values,
    )
    return int(made.fetchone()[0])


def _reply_id(connection: Connection, text: str) -> int:
    row = connection.execute("SELECT id FROM reply WHERE text = ?", (text,)).fetchone()
    if row is None:
        made = connection.execute("INSERT INTO reply (text) VALUES (?) RETURNING id", (text,))
        row = made.fetchone()
    return int(row[0])


def find_ticket(log: LogDatabase, key: str) -> tuple[int, str] | None:
    """Return number and ticket of the late entry whose ticket has a key; None: there is none."""
    rows = log.rows(
        "SELECT id, ticket FROM entry WHERE id > (SELECT max(id) FROM entry) - ? "
        "AND ticket LIKE ? || ':%'",
        (_LATE, key),
    )
    if not rows:
        return None
    [(at, ticket)] = rows
    return at, ticket


def count(log: LogDatabase) -> int:
    """Return the number of entries."""
    rows = log.rows("SELECT count(*) FROM entry")
    return int(rows[0][0]) if rows else 0


def last_id(connection: Connection) -> int:
    """Return the number of the last entry; 0: there is none."""
    [last] = connection.execute("SELECT coalesce(max(id), 0) FROM entry").fetchone()
    return int(last)


def read(
    connection: Connection, after: int, most: int
) -> tuple[list[Sequence[Any]], dict[int, str]]:
    """Return the next entries after a number, at most so many, and the texts of all replies.

    The number stands first in each; `decode` reads the rest.
    """
    rows = connection.execute(
        "SELECT id, time, context, offered, chosen, text, source FROM entry "
        "WHERE id > ? ORDER BY id LIMIT ?",
        (after, most),
    ).fetchall()
    texts = dict(connection.execute("SELECT id, text FROM reply")) if rows else {}
    return rows, texts


def decode(row: Sequence[Any], texts: Mapping[int, str]) -> EntryRow:
    """Return the values of an entry that was read.

    Raises:
        ValueError, TypeError, LookupError: it is not as it was written.
    """
    decoded = msgspec.json.decode
    return EntryRow(
        context=tuple(decoded(row[2], type=list[str])),
        offered=tuple(texts[reply] for reply in decoded(row[3], type=list[int])),
        chosen=None if row[4] is None else texts[row[4]],
        text=None if row[5] is None else str(row[5]),
        source=str(row[6]),
        time=float(row[1]),
    )


def contexts(
    connection: Connection, conditions: Conditions
) -> Iterator[tuple[Sequence[str], bool]]:
    """Yield the conversations of all entries, and whether the conditions apply to the entry.

    A conversation that is not as it was written is left out.
    """
    for text, applies in connection.execute(_CONTEXTS, conditions.values()):
        try:
            context = msgspec.json.decode(text, type=list[str])
        except (ValueError, TypeError):
            continue
        yield context, bool(applies)


def delete(connection: Connection, conditions: Conditions) -> int:
    """Delete the entries to which the conditions apply; return how many."""
    return connection.execute(_DELETE, conditions.values()).rowcount


def delete_all_but(connection: Connection, most: int) -> int:
    """Delete all but so many of the newest entries, at least one; return how many."""
    oldest = "SELECT id FROM entry ORDER BY id DESC LIMIT 1 OFFSET ?"
    query = f"DELETE FROM entry WHERE id < ({oldest})"  # noqa: S608 (a constant)
    return connection.execute(query, (most - 1,)).rowcount


def delete_before(connection: Connection, time: float) -> int:
    """Delete the entries of before a time; return how many."""
    return connection.execute("DELETE FROM entry WHERE time < ?", (time,)).rowcount


def drop_unused_replies(connection: Connection) -> None:
    """Delete the texts of replies that no entry has."""
    connection.execute(
        "DELETE FROM reply WHERE id NOT IN (SELECT value FROM entry, json_each(entry.offered)) "
        "AND id NOT IN (SELECT chosen FROM entry WHERE chosen IS NOT NULL)"
    )
