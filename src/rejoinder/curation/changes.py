"""Changes of replies in an index's log: announced before the index changes, confirmed afterwards.

A change is made at the instant in which the index's manifest is replaced. Before, the log is told
of it under a token that the new manifest has too: a log that cannot be written leaves the index as
it is, and after a kill the manifest says whether the change was made.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rejoinder.corpora.keys import text_key
from rejoinder.corpora.schema import Candidate
from rejoinder.curation.tickets import Ticket, remember
from rejoinder.errors import InputError
from rejoinder.stores.log import announced, change_table
from rejoinder.stores.log.change_table import ChangeKind, State, StoredChange
from rejoinder.stores.log.database import Connection, LogDatabase

SHOWN = 50  # changes


@dataclass(frozen=True, slots=True)
class Change:
    """A change of some replies; one whose replies cannot be read has none."""

    id: int
    time: float  # seconds since 1970
    kind: ChangeKind
    before: State
    after: State
    undone: bool

    @property
    def new_examples(self) -> int:
        """The number of examples that the replies have now and had not before."""
        old = sum(len((*r.examples, *r.learned)) for r in self.before.values() if r is not None)
        new = sum(len((*r.examples, *r.learned)) for r in self.after.values() if r is not None)
        return new - old


class ChangeRow(NamedTuple):
    """A change that is about to be made."""

    kind: ChangeKind
    before: State
    after: State
    undoes: int = 0  # the number of the change that it undoes
    ticket: Ticket | None = None  # of the request that it is made for


class Journal:
    """Changes that an index is about to make together.

    Args:
        log: where they are written.
        rows: returns them, just before the index changes.
    """

    def __init__(self, log: LogDatabase, rows: Callable[[], Sequence[ChangeRow]]) -> None:
        self.log = log
        self.made: list[Change] = []
        self._rows = rows

    def settle(self, token: str) -> None:
        """Confirm what was announced under the token of the manifest; withdraw all the rest.

        No other process may change the index meanwhile.

        Raises:
            InputError: the log cannot be written, so nothing may change.
            OSError: likewise.
        """
        with self.log.writing() as connection:
            if announced.has_any(connection):
                if token:
                    announced.confirm(connection, token)
                announced.withdraw_all(connection)

    def announce(self, token: str) -> None:
        """Write the changes to the log as such that the manifest of this token has."""
        now = time.time()
        made = []
        with self.log.writing() as connection:
            for row in self._rows():
                states = (row.before, row.after)
                number = change_table.insert(connection, now, row.kind, states, row.undoes, token)
                change = Change(number, now, row.kind, row.before, row.after, undone=False)
                if row.ticket is not None:
                    result = {
                        "change": change.id,
                        "positions": list(change.after),
                        "added": change.new_examples,
                    }
                    remember(connection, row.ticket, result, token)
                made.append(change)
        self.made = made

    def confirm(self, token: str) -> None:
        """Say that the changes are made; if the log cannot be written, `settle` does so later."""
        with contextlib.suppress(InputError, OSError), self.log.writing() as connection:
            announced.confirm(connection, token)

    def withdraw(self, token: str) -> None:
        """Take the changes back, since the index has not changed; or let `settle` do so later."""
        self.made = []
        with contextlib.suppress(InputError, OSError), self.log.writing() as connection:
            announced.withdraw(connection, token)


def changes(log: LogDatabase, limit: int | None = SHOWN, *, token: str = "") -> list[Change]:
    """Return the latest changes, newest first; `token` is that of the index's manifest.

    None as the limit: all changes.
    """
    rows = change_table.latest(log, limit, token)
    undone = _undone(log, rows[-1].id, token) if rows else ()
    return [_change(row, undone) for row in rows]


def find_change(log: LogDatabase, number: int, *, token: str = "") -> Change | None:
    """Return a change by its number; None: there is none."""
    row = change_table.find(log, number, token)
    return None if row is None else _change(row, _undone(log, number, token))


def _undone(log: LogDatabase, first: int, token: str) -> set[int]:
    """Return which changes from a number on are undone: of each some undoing is not undone.

    Undoings have higher numbers than the changes that they undo. Earlier versions did not write
    which change an undoing undoes; they set the flag `undone` of that change instead.
    """
    is_undone: dict[int, bool] = {}
    for number, undoes, flag in change_table.undoings(log, first, token):
        is_undone.setdefault(number, bool(flag))
        is_undone[undoes] = is_undone.get(undoes, False) or not is_undone[number]
    return {number for number, undone in is_undone.items() if undone}


def _change(row: StoredChange, undone: Collection[int]) -> Change:
    states = row.states or ({}, {})
    return Change(row.id, row.time, row.kind, *states, undone=row.id in undone)


def renamed(log: LogDatabase) -> dict[str, str]:
    """Return keys of texts that replies had, with those that they have now (`text_key`)."""
    keys: dict[str, str] = {}
    for change in changes(log, None):  # newest first
        if change.undone or change.kind == "undo":
            continue
        for old, new in _renamings(change):
            keys.setdefault(old, keys.get(new, new))
    return keys


def _renamings(change: Change) -> Iterable[tuple[str, str]]:
    kept = next((reply for reply in change.after.values() if reply is not None), None)
    for position, old in change.before.items():
        new = change.after.get(position)
        if change.kind == "merge" and new is None:
            new = kept
        if old is not None and new is not None and text_key(old.text) != text_key(new.text):
            yield text_key(old.text), text_key(new.text)


def rewrite_states(connection: Connection, rewrite: Callable[[Candidate], Candidate]) -> int:
    """Rewrite the replies of all changes; return how many changes are others now.

    A change whose replies cannot be read loses them: they may have what is to go.
    """
    count = 0
    for number, states in change_table.read_states(connection):
        before, after = states or ({}, {})
        new = (_rewritten(before, rewrite), _rewritten(after, rewrite))
        if new != states:
            count += 1
            change_table.write_states(connection, number, new)
    return count


def _rewritten(state: State, rewrite: Callable[[Candidate], Candidate]) -> State:
    return {at: None if reply is None else rewrite(reply) for at, reply in state.items()}
