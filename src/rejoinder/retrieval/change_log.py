"""The log of changes of an index's replies, in the same file as the log of its use."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from rejoinder.corpora.example import Candidate, text_key
from rejoinder.errors import InputError
from rejoinder.retrieval.feedback import FeedbackLog

Kind: TypeAlias = Literal["add", "edit", "retire", "merge", "move", "undo"]
State: TypeAlias = dict[int, Candidate | None]  # replies by position; None: there is none
SHOWN = 50


@dataclass(frozen=True, slots=True)
class Change:
    """A change of some replies."""

    id: int
    time: float  # seconds since 1970
    kind: Kind
    before: State
    after: State
    undone: bool


def log_changes(
    log: FeedbackLog, rows: Sequence[tuple[Kind, State, State]], undone: int = 0
) -> list[Change]:
    """Write changes, all or none, and that the change of a number was `undone` by them."""
    now = time.time()
    made = []
    with log.writing() as connection:
        for kind, before, after in rows:
            cursor = connection.execute(
                "INSERT INTO change (time, kind, before, after) VALUES (?, ?, ?, ?)",
                (now, kind, _write(before), _write(after)),
            )
            assert cursor.lastrowid is not None
            made.append(Change(cursor.lastrowid, now, kind, before, after, undone=False))
        connection.execute("UPDATE change SET undone = 1 WHERE id = ?", (undone,))
    return made


def changes(log: FeedbackLog, limit: int = SHOWN) -> list[Change]:
    """Return the latest changes, newest first."""
    if not log.path.exists():
        return []
    with log.connected() as connection:
        rows = connection.execute(
            "SELECT id, time, kind, before, after, undone FROM change ORDER BY id DESC LIMIT ?",
            (limit,),
        ).fetchall()
    return [
        Change(at, when, kind, _read(before), _read(after), undone=bool(undone))
        for at, when, kind, before, after, undone in rows
    ]


def find_change(log: FeedbackLog, number: int) -> Change:
    """Return a change by its number."""
    found = next((each for each in changes(log, -1) if each.id == number), None)
    if found is None:
        raise InputError(f"there is no change {number} in the log; changes are kept for a while")
    return found


def renamed(log: FeedbackLog) -> dict[str, str]:
    """Return keys of texts that replies had, with those that they have now (`text_key`)."""
    keys: dict[str, str] = {}
    for change in changes(log, -1):  # newest first
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


def _write(state: State) -> str:
    return msgspec.json.encode(list(state.items())).decode()


def _read(text: str) -> State:
    pairs: list[tuple[int, Candidate | None]] = msgspec.json.decode(
        text, type=list[tuple[int, Candidate | None]]
    )
    return dict(pairs)
