"""The log of an index: which replies were offered, which one was taken, and which were changed.

Of an index in a folder it is an SQLite file beside it (`INDEX.feedback.db`), of one in PostgreSQL
it is in tables of the same schema; either way it outlives an index that is built again. Replies
stand in it by their texts, since positions of another index mean other replies. An entry is on the
disk once `append` has returned, whatever ends the process then; a power cut may cost the entries of
the last moments.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from rejoinder.corpora.keys import context_key
from rejoinder.corpora.redaction import redact
from rejoinder.corpora.schema import Candidate
from rejoinder.curation.changes import rewrite_states
from rejoinder.curation.tickets import KEPT, Ticket, remember
from rejoinder.errors import BusyError, RejoinderError
from rejoinder.retrieval.turns import clean_context
from rejoinder.settings import Count, quick_section, validate
from rejoinder.stores.address import store_of
from rejoinder.stores.log_database import Connection
from rejoinder.stores.store import Store

MOST_ENTRIES = 1_000_000  # the oldest are deleted
Taken: TypeAlias = Literal["first", "offered", "unoffered", "text", "none"]
_TIDIED_EVERY = 1000  # entries between two deletions of old ones
_TIDIED_AFTER = 3600.0  # seconds between two deletions of old ones
_DAY = 86_400.0
_LEAP = 0.25  # share of `days` by which the clock may have gone on since it was last looked at
_SETTINGS = "SELECT name, value FROM setting WHERE name IN ('redact', 'days', 'learn')"
_WHERE = (
    "((:ids IS NULL OR id IN (SELECT value FROM json_each(:ids))) AND (:before IS NULL "
    "OR time < :before) AND (:source IS NULL OR source = :source))"
)
_SET = (
    "INSERT INTO setting (name, value) VALUES (?, ?) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_DELETE = f"DELETE FROM entry WHERE {_WHERE}"  # noqa: S608 (a constant)
_CONTEXTS = f"SELECT context, {_WHERE} FROM entry"  # noqa: S608 (a constant)
_LATE = 10_000  # entries among which a ticket is looked for
_READ = 10_000  # entries that are read at once
_logger = logging.getLogger(__name__)


@quick_section
class FeedbackSettings:
    """Settings of a log; `rejoinder feedback INDEX --set KEY=VALUE` changes them."""

    redact: bool = True
    """Replace e-mail addresses, card, account and phone numbers before an entry is written."""
    days: Count = 365
    """Age at which entries are deleted."""
    learn: Literal["later", "at-once"] = "later"
    """When a choice becomes an example: at the next `rejoinder learn`, or soon, by the server."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the log. Replies are texts, as they were when they were offered."""

    context: tuple[str, ...]  # the newest messages, oldest first
    offered: tuple[str, ...]
    chosen: str | None
    text: str | None  # what was sent, if that was not a reply of the index
    source: str = ""  # a digest, in the log; empty where none was named
    time: float = 0.0  # seconds since 1970
    id: int = 0

    @property
    def taken(self) -> Taken:
        """Return what was taken: the first reply, another (if only unoffered), a text, or none."""
        if self.chosen is None:
            return "none" if self.text is None else "text"
        if self.chosen not in self.offered:
            return "unoffered"
        return "first" if self.offered[0] == self.chosen else "offered"


@dataclass(frozen=True, slots=True)
class Deleted:
    """What was deleted from a log."""

    entries: int
    changes: int  # in which examples of these entries stood


class FeedbackLog:
    """The log of an index, which begins with the first entry or setting. Threads may share it."""

    def __init__(self, index: str | Path | Store) -> None:
        self.database = store_of(index).log()
        self._until_tidied = 0
        self._tidied_at = 0.0
        self.latest_settings = FeedbackSettings()  # at the last `append`

    def append(
        self,
        entries: Sequence[Entry],
        tickets: Sequence[Ticket | None] = (),
        chosen: Sequence[int | None] = (),
    ) -> list[int]:
        """Write entries, all or none; return their numbers.

        Each is for the request of its ticket, if there is one, which is remembered with the
        position of the reply that was `chosen`.
        """
        ids = self._append(entries, tickets, chosen)
        while ids is None:  # another process has changed whether entries are redacted
            ids = self._append(entries, tickets, chosen)
        self._until_tidied -= len(entries)
        if self._until_tidied <= 0 or time.monotonic() > self._tidied_at + _TIDIED_AFTER:
            self._try_to_tidy()
        return ids

    def _try_to_tidy(self) -> None:
        """Delete what is too old; a failure is logged, since the new entries are written."""
        try:
            self.tidy()
        except BusyError:
            pass
        except (RejoinderError, OSError) as error:
            _logger.warning("%s: old entries were not deleted: %s", self.database.shown, error)

    def _append(
        self,
        entries: Sequence[Entry],
        tickets: Sequence[Ticket | None],
        chosen: Sequence[int | None],
    ) -> list[int] | None:
        """Write entries as the latest settings say; None: these have changed, nothing is written.

        Texts are redacted before the transaction, so that no other process waits for that.
        """
        is_redacted = self.latest_settings.redact
        if is_redacted:
            entries = [_redacted(entry) for entry in entries]
        with self.database.writing() as connection:
            self.latest_settings = _settings_of(connection.execute(_SETTINGS))
            if self.latest_settings.redact != is_redacted:
                return None
            ids = []
            named = itertools.zip_longest(entries, tickets, chosen)
            for entry, ticket, position in named:
                own = None if ticket is None or ticket.digest else f"{ticket.key}:{position}"
                ids.append(self._insert(connection, entry, own))
                if ticket is not None and ticket.digest:
                    remember(connection, ticket, {"id": ids[-1], "chosen": position})
        return ids

    def find_entry(self, ticket: Ticket) -> dict[str, Any] | None:
        """Return number and chosen position of a late entry of a ticket without a digest."""
        rows = self.database.rows(
            "SELECT id, ticket FROM entry WHERE id > (SELECT max(id) FROM entry) - ? "
            "AND ticket LIKE ? || ':%'",
            (_LATE, ticket.key),
        )
        if not rows:
            return None
        [(at, own)] = rows
        position = own.partition(":")[2]
        return {"id": at, "chosen": None if position == "None" else int(position)}

    def set(self, **values: Any) -> FeedbackSettings:
        """Change settings; return all of them. Entries that are too old by them are deleted."""
        settings = validate(FeedbackSettings, {**asdict(self.settings()), **values}, "feedback")
        with self.database.writing() as connection:
            rows = [
                (name, msgspec.json.encode(value).decode())
                for name, value in asdict(settings).items()
            ]
            for row in rows:
                connection.execute(_SET, row)
        self.tidy()
        return settings

    def take_settings(self, other: FeedbackLog) -> bool:
        """Take the settings of another log, unless this one has begun; return whether it did."""
        takes = other.database.exists() and not self.database.exists()
        if takes:
            self.set(**asdict(other.settings()))
        return takes

    def tidy(self) -> None:
        """Delete what is too old, and the oldest of too many; their bytes are overwritten.

        After a leap of the clock nothing is deleted for a day: it may be wrong.
        """
        self._until_tidied = _TIDIED_EVERY
        self._tidied_at = time.monotonic()
        if not self.database.exists():
            return
        settings = self.settings()
        with self.database.writing() as connection:
            is_right = _is_clock_right(connection, settings.days)
            first = "DELETE FROM entry WHERE id <= (SELECT max(id) FROM entry) - ?"
            deleted = connection.execute(first, (MOST_ENTRIES,)).rowcount
            if is_right:
                oldest = time.time() - settings.days * _DAY
                for table, before in (
                    ("entry", oldest),
                    ("change", oldest),
                    ("request", time.time() - KEPT),
                ):
                    query = f"DELETE FROM {table} WHERE time < ?"  # noqa: S608 (names of ours)
                    deleted += connection.execute(query, (before,)).rowcount
            if deleted:
                _drop_unused_replies(connection)
        if deleted:
            self.database.settle_deleted()

    def delete(
        self,
        *,
        ids: Sequence[int] | None = None,
        before: float | None = None,
        source: str | None = None,
    ) -> Deleted:
        """Delete the entries to which all of what is given applies.

        Examples that were learned from them go from the log of changes too, and all answers that
        servers share. Without any condition all entries go. Their bytes are overwritten. `before`
        is in seconds since 1970. `erasure.erase` takes them from the index, too.
        """
        if not self.database.exists():
            return Deleted(0, 0)
        with self.database.writing() as connection:
            values = self._conditions(ids, before, source)
            contexts = _only_in(connection, values)
            count = connection.execute(_DELETE, values).rowcount
            if self.database.is_shared:  # an answer does not say whose it was
                connection.execute("DELETE FROM answer")
            changes = rewrite_states(connection, lambda reply: unlearn(reply, contexts))
            _drop_unused_replies(connection)
        self.database.overwrite_deleted()
        return Deleted(count, changes)

    def forget(self) -> None:
        """Let no entry that is there now become an example by itself; see `forgotten`.

        Learned examples go from the log of changes, and their bytes are overwritten.
        """
        if self.database.exists():
            with self.database.writing() as connection:
                [last] = connection.execute("SELECT coalesce(max(id), 0) FROM entry").fetchone()
                connection.execute(_SET, ("forgotten", str(last)))
                rewrite_states(connection, lambda reply: replace(reply, learned=()))
            self.database.overwrite_deleted()

    def contexts_of(
        self,
        *,
        ids: Sequence[int] | None = None,
        before: float | None = None,
        source: str | None = None,
    ) -> frozenset[str]:
        """Return the keys of what was learned only from entries to which all of this applies."""
        if not self.database.exists():
            return frozenset()
        with self.database.reading() as connection:
            return _only_in(connection, self._conditions(ids, before, source))

    @property
    def forgotten(self) -> int:
        """The number of the last entry when examples were last taken away."""
        rows = self.database.rows("SELECT value FROM setting WHERE name = 'forgotten'")
        return int(rows[0][0]) if rows else 0

    def settings(self) -> FeedbackSettings:
        """Return the settings, which other processes may change."""
        return _settings_of(self.database.rows(_SETTINGS))

    def __len__(self) -> int:
        rows = self.database.rows("SELECT count(*) FROM entry")
        return int(rows[0][0]) if rows else 0

    def __iter__(self) -> Iterator[Entry]:
        return self.entries()

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Yield entries, from behind a number on, in the order in which they were written.

        One that is not as it was written is left out, and counted in a warning.
        """
        if not self.database.exists():
            return
        unreadable = 0
        while True:
            with self.database.reading() as connection:
                rows = connection.execute(
                    "SELECT id, time, context, offered, chosen, text, source FROM entry "
                    "WHERE id > ? ORDER BY id LIMIT ?",
                    (after, _READ),
                ).fetchall()
                texts = dict(connection.execute("SELECT id, text FROM reply")) if rows else {}
            for row in rows:
                try:
                    entry = _entry(row, texts)
                except (ValueError, TypeError, LookupError):
                    unreadable += 1
                    continue
                yield entry
            if not rows:
                break
            after = rows[-1][0]
        if unreadable:
            _logger.warning(
                "%s: %d entries are not as they were written, and are left out",
                self.database.shown,
                unreadable,
            )

    def _conditions(
        self, ids: Sequence[int] | None, before: float | None, source: str | None
    ) -> dict[str, Any]:
        """Return the values of `_WHERE`."""
        return {
            "ids": None if ids is None else msgspec.json.encode(list(ids)).decode(),
            "before": before,
            "source": None if source is None else self._digest(source),
        }

    def _insert(self, connection: Connection, entry: Entry, ticket: str | None) -> int:
        values = (
            entry.time or time.time(),
            msgspec.json.encode(entry.context).decode(),
            msgspec.json.encode([_reply_id(connection, text) for text in entry.offered]).decode(),
            None if entry.chosen is None else _reply_id(connection, entry.chosen),
            entry.text,
            self._digest(entry.source),
            ticket,
        )
        made = connection.execute(
            "INSERT INTO entry (time, context, offered, chosen, text, source, ticket) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
            values,
        )
        return int(made.fetchone()[0])

    def _digest(self, source: str) -> str:
        """Return what is kept of a source: equal ones stay equal, and none can be read."""
        if not source:
            return ""
        return hashlib.blake2b(
            source.encode(errors="replace"), key=self.database.salt, digest_size=8
        ).hexdigest()


def _learned_keys(context: Sequence[str]) -> set[str]:
    """Return the keys of what a conversation is learned as: cleaned, and as it was written.

    Earlier versions learned some as they were written.
    """
    keys = {context_key(context)}
    if has_words(context):
        keys.add(context_key(clean_context(context)))
    return keys


def has_words(context: Iterable[str]) -> bool:
    """Return whether a conversation says anything."""
    return any(map(str.strip, context))


def unlearn(reply: Candidate, contexts: Collection[str]) -> Candidate:
    """Return a reply without the learned examples of these keys."""
    kept = tuple(example for example in reply.learned if context_key(example) not in contexts)
    return reply if len(kept) == len(reply.learned) else replace(reply, learned=kept)


def _redacted(entry: Entry) -> Entry:
    context = tuple(redact(message) for message in entry.context)
    return replace(entry, context=context, text=None if entry.text is None else redact(entry.text))


def _entry(row: Sequence[Any], texts: dict[int, str]) -> Entry:
    decode = msgspec.json.decode
    return Entry(
        context=tuple(decode(row[2], type=list[str])),
        offered=tuple(texts[reply] for reply in decode(row[3], type=list[int])),
        chosen=None if row[4] is None else texts[row[4]],
        text=None if row[5] is None else str(row[5]),
        source=str(row[6]),
        time=float(row[1]),
        id=row[0],
    )


def _only_in(connection: Connection, values: dict[str, Any]) -> frozenset[str]:
    """Return the keys of what was learned from entries to which `_WHERE` applies.

    Those of other entries with the same words are left out. Others are not cleaned, which would
    take seconds of a long log: rather an example too many goes.
    """
    keys: set[str] = set()
    others: set[str] = set()
    for text, applies in connection.execute(_CONTEXTS, values):
        try:
            context = msgspec.json.decode(text, type=list[str])
        except (ValueError, TypeError):  # it is not as it was written: nothing was learned of it
            continue
        if applies:
            keys |= _learned_keys(context)
        else:
            others.add(context_key(context))
    return frozenset(keys - others)


def _reply_id(connection: Connection, text: str) -> int:
    row = connection.execute("SELECT id FROM reply WHERE text = ?", (text,)).fetchone()
    if row is None:
        made = connection.execute("INSERT INTO reply (text) VALUES (?) RETURNING id", (text,))
        row = made.fetchone()
    return int(row[0])


def _settings_of(rows: Iterable[tuple[str, str]]) -> FeedbackSettings:
    return _parsed_settings(tuple(rows))


@functools.lru_cache(8)
def _parsed_settings(rows: tuple[tuple[str, str], ...]) -> FeedbackSettings:
    values = {name: msgspec.json.decode(value) for name, value in rows}
    return validate(FeedbackSettings, values, "feedback") if values else FeedbackSettings()


def _is_clock_right(connection: Connection, days: int) -> bool:
    """Return whether entries may be deleted by the clock of now; remember the clock.

    If it has gone on by much since it was last looked at, it is believed a day later, unless it has
    gone back by then.
    """
    now = time.time()
    clocks = dict(connection.execute("SELECT name, value FROM setting WHERE name LIKE 'clock%'"))
    seen = float(clocks.get("clock", now))
    leapt = float(clocks.get("clock leapt", 0.0))  # when it was found to have gone on by much
    if leapt and now >= seen:
        is_right = now - leapt > _DAY
    else:
        is_right = now - seen <= max(_DAY, _LEAP * days * _DAY)
        leapt = now
    values = [("clock", repr(now)), ("clock leapt", "0" if is_right else repr(leapt))]
    for row in values:
        connection.execute(_SET, row)
    return is_right


def _drop_unused_replies(connection: Connection) -> None:
    connection.execute(
        "DELETE FROM reply WHERE id NOT IN (SELECT value FROM entry, json_each(entry.offered)) "
        "AND id NOT IN (SELECT chosen FROM entry WHERE chosen IS NOT NULL)"
    )
