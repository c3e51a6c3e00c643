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
from rejoinder.stores.log import (
    answer_table,
    change_table,
    entry_table,
    request_table,
    setting_table,
)
from rejoinder.stores.log.database import Connection
from rejoinder.stores.log.entry_table import Conditions, EntryRow
from rejoinder.stores.store import Store

MOST_ENTRIES = 1_000_000  # the oldest are deleted
Taken: TypeAlias = Literal["first", "offered", "unoffered", "text", "none"]
_TIDIED_EVERY = 1000  # entries between two deletions of old ones
_TIDIED_AFTER = 3600.0  # seconds between two deletions of old ones
_DAY = 86_400.0
_LEAP = 0.25  # share of `days` by which the clock may have gone on since it was last looked at
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
    """Counts of what was deleted from a log."""

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
            self.latest_settings = _settings_of(setting_table.read_settings(connection))
            if self.latest_settings.redact != is_redacted:
                return None
            ids = []
            named = itertools.zip_longest(entries, tickets, chosen)
            for entry, ticket, position in named:
                own = None if ticket is None or ticket.digest else f"{ticket.key}:{position}"
                ids.append(entry_table.insert(connection, self._row(entry), own))
                if ticket is not None and ticket.digest:
                    remember(connection, ticket, {"id": ids[-1], "chosen": position})
        return ids

    def find_entry(self, ticket: Ticket) -> dict[str, Any] | None:
        """Return number and chosen position of a late entry of a ticket without a digest."""
        row = entry_table.find_ticket(self.database, ticket.key)
        if row is None:
            return None
        at, own = row
        position = own.partition(":")[2]
        return {"id": at, "chosen": None if position == "None" else int(position)}

    def set(self, **values: Any) -> FeedbackSettings:
        """Change settings; return all of them. Entries that are too old by them are deleted."""
        settings = validate(FeedbackSettings, {**asdict(self.settings()), **values}, "feedback")
        with self.database.writing() as connection:
            for name, value in asdict(settings).items():
                setting_table.write(connection, name, msgspec.json.encode(value).decode())
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
        with self.database.writing(create=False) as connection:
            is_right = _is_clock_right(connection, settings.days)
            deleted = entry_table.delete_all_but(connection, MOST_ENTRIES)
            if is_right:
                oldest = time.time() - settings.days * _DAY
                deleted += entry_table.delete_before(connection, oldest)
                deleted += change_table.delete_before(connection, oldest)
                deleted += request_table.delete_before(connection, time.time() - KEPT)
            if deleted:
                entry_table.drop_unused_replies(connection)
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
            conditions = self._conditions(ids, before, source)
            contexts = _only_in(connection, conditions)
            count = entry_table.delete(connection, conditions)
            if self.database.is_shared:  # an answer does not say whose it was
                answer_table.delete_all(connection)
            changes = rewrite_states(connection, lambda reply: unlearn(reply, contexts))
            entry_table.drop_unused_replies(connection)
        self.database.overwrite_deleted()
        return Deleted(count, changes)

    def forget(self) -> None:
        """Let no entry that is there now become an example by itself; see `forgotten`.

        Learned examples go from the log of changes, and their bytes are overwritten.
        """
        if self.database.exists():
            with self.database.writing() as connection:
                last = entry_table.last_id(connection)
                setting_table.write(connection, "forgotten", str(last))
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
        return setting_table.find_forgotten(self.database)

    def settings(self) -> FeedbackSettings:
        """Return the settings, which other processes may change."""
        if not self.database.exists():
            return FeedbackSettings()
        with self.database.connected() as connection:
            return _settings_of(setting_table.read_settings(connection))

    def __len__(self) -> int:
        return entry_table.count(self.database)

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
                rows, texts = entry_table.read(connection, after, _READ)
            for row in rows:
                try:
                    entry = Entry(id=row[0], **entry_table.decode(row, texts)._asdict())
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
    ) -> Conditions:
        return Conditions(ids, before, None if source is None else self._digest(source))

    def _row(self, entry: Entry) -> EntryRow:
        source = self._digest(entry.source)
        when = entry.time or time.time()
        return EntryRow(entry.context, entry.offered, entry.chosen, entry.text, source, when)

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


def _only_in(connection: Connection, conditions: Conditions) -> frozenset[str]:
    """Return the keys of what was learned from entries to which all conditions apply.

    Those of other entries with the same words are left out. Others are not cleaned, which would
    take seconds of a long log: rather an example too many goes.
    """
    keys: set[str] = set()
    others: set[str] = set()
    for context, applies in entry_table.contexts(connection, conditions):
        if applies:
            keys |= _learned_keys(context)
        else:
            others.add(context_key(context))
    return frozenset(keys - others)


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
    clocks = setting_table.read_clocks(connection)
    seen = float(clocks.get("clock", now))
    leapt = float(clocks.get("clock leapt", 0.0))  # when it was found to have gone on by much
    if leapt and now >= seen:
        is_right = now - leapt > _DAY
    else:
        is_right = now - seen <= max(_DAY, _LEAP * days * _DAY)
        leapt = now
    setting_table.write(connection, "clock", repr(now))
    setting_table.write(connection, "clock leapt", "0" if is_right else repr(leapt))
    return is_right
