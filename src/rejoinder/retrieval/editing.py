"""Changes of single replies: added, edited, retired, merged.

Each is in the log and can be undone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from rejoinder.corpora.example import Candidate
from rejoinder.errors import InputError
from rejoinder.retrieval.feedback import Change, Kind, State, changes
from rejoinder.retrieval.index import Index


class Editor:
    """Changes an index, and writes each change to its log.

    A change is in the log once its method has returned.
    """

    def __init__(self, index: Index) -> None:
        self.index = index

    def add(self, lists: Sequence[Sequence[Candidate]]) -> list[Change]:
        """Add replies, at once; each of the lists is a change."""
        positions = iter(self.index.add([reply for part in lists for reply in part]))
        states = [{next(positions): reply for reply in part} for part in lists]
        return self._log([("add", dict.fromkeys(state), dict(state)) for state in states])

    def retire(self, positions: Sequence[int]) -> list[Change]:
        """Delete replies, at once; each is a change."""
        before = {position: self.index.reply(position) for position in positions}
        self.index.delete(positions)
        return self._log([("retire", {at: reply}, {at: None}) for at, reply in before.items()])

    def edit(self, position: int, **fields: Any) -> Change:
        """Change text, title, payload or examples of a reply; see `Candidate`.

        `examples` are all that it is to have; those that were learned stay so.
        """
        old = self.index.reply(position)
        if "examples" in fields:
            wanted = dict.fromkeys(fields["examples"])
            learned = tuple(each for each in old.learned if each in wanted)
            own = tuple(each for each in wanted if each not in learned)
            fields = {**fields, "examples": own, "learned": learned}
        new = replace(old, **fields)
        if not new.text.strip():
            raise InputError("a reply needs a text; retire it instead")
        return self._change("edit", {position: new})

    def add_examples(self, examples: Mapping[int, Iterable[tuple[str, ...]]]) -> list[Change]:
        """Add conversations that replies answer; those that a reply has already are left out."""
        made = []
        for position, contexts in examples.items():
            old = self.index.reply(position)
            known = {*old.examples, *old.learned}
            new = [each for each in dict.fromkeys(contexts) if each not in known]
            if new:
                wanted = (*old.examples, *old.learned, *new)
                made.append(self.edit(position, examples=wanted))
        return made

    def merge(self, position: int, other: int) -> Change:
        """Let a reply answer what another one answers too, which is retired.

        Feedback on the other reply counts for it from now on.
        """
        if position == other:
            raise InputError(f"reply {position} cannot be merged with itself; name two replies")
        kept = self.index.reply(position)
        gone = self.index.reply(other)
        known = {*kept.examples, *kept.learned}
        examples = [each for each in gone.examples if each not in known]
        if gone.title and gone.title != kept.title and (gone.title,) not in known:
            examples.append((gone.title,))
        learned = [each for each in gone.learned if each not in {*known, *examples}]
        merged = replace(
            kept, examples=(*kept.examples, *examples), learned=(*kept.learned, *learned)
        )
        return self._change("merge", {position: merged, other: None})

    def move(self, example: Sequence[str], position: int, to: int) -> Change:
        """Let an example of a reply be one of another reply."""
        own = tuple(example)
        source = self.index.reply(position)
        target = self.index.reply(to)
        if position == to or own not in (*source.examples, *source.learned):
            raise InputError(
                f"reply {position} has no such example to move to reply {to}; "
                "`GET /v1/candidates` shows them"
            )
        without = replace(
            source,
            examples=tuple(each for each in source.examples if each != own),
            learned=tuple(each for each in source.learned if each != own),
        )
        if own not in (*target.examples, *target.learned):
            target = replace(target, examples=(*target.examples, own))
        return self._change("move", {position: without, to: target})

    def undo(self, number: int) -> Change:
        """Undo a change; the undoing is a change too.

        Raises:
            InputError: there is no such change, it was undone, or one of its replies has changed
                since.
        """
        change = next((each for each in changes(self.index.log, -1) if each.id == number), None)
        if change is None:
            raise InputError(
                f"there is no change {number} in the log; changes are kept for a while"
            )
        if change.undone:
            raise InputError(f"change {number} was undone already; undo the undoing to get it back")
        for position, reply in change.after.items():
            if _current(self.index, position) != reply:
                raise InputError(
                    f"reply {position} has changed since change {number}; undo later changes first"
                )
        return self._change("undo", change.before, undone=number)

    def _change(self, kind: Kind, after: State, *, undone: int = 0) -> Change:
        before: State = {position: _current(self.index, position) for position in after}
        kept = {at: reply for at, reply in after.items() if reply is not None}
        self.index.edit(
            {at: reply for at, reply in kept.items() if before[at] is not None},
            [at for at, reply in after.items() if reply is None],
            {at: reply for at, reply in kept.items() if before[at] is None},
        )
        return self._log([(kind, before, after)], undone)[0]

    def _log(self, rows: Sequence[tuple[Kind, State, State]], undone: int = 0) -> list[Change]:
        """Write changes, all or none, and that the change of a number was `undone` by them."""
        now = time.time()
        made = []
        with self.index.log.writing() as connection:
            for kind, before, after in rows:
                cursor = connection.execute(
                    "INSERT INTO change (time, kind, before, after) VALUES (?, ?, ?, ?)",
                    (now, kind, _json(before), _json(after)),
                )
                assert cursor.lastrowid is not None
                made.append(Change(cursor.lastrowid, now, kind, before, after, undone=False))
            connection.execute("UPDATE change SET undone = 1 WHERE id = ?", (undone,))
        return made


def _current(index: Index, position: int) -> Candidate | None:
    try:
        return index.reply(position)
    except InputError:
        return None


def _json(state: State) -> str:
    return msgspec.json.encode(list(state.items())).decode()
