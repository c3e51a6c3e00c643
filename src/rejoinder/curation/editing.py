"""Changes of single replies: added, edited, retired and merged, each in the log, to be undone."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rejoinder.checks import check_list
from rejoinder.conversations import CONVERSATIONS, Conversation
from rejoinder.corpora.schema import Candidate
from rejoinder.curation.changes import Change, ChangeRow, Journal, find_change
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.tickets import Ticket
from rejoinder.errors import InputError, NotFoundError
from rejoinder.retrieval.encoding.batches import as_candidate, as_candidates, as_examples
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.turns import clean_context
from rejoinder.stores.log.change_table import ChangeKind, State
from rejoinder.stores.writing import to_line

EDITED = ("text", "payload", "title", "examples")
"""Fields of a reply that `Editor.edit` takes."""


class Editor:
    """Changes an index, and writes each change to its log.

    A change is in the index and in the log once its method has returned, and in neither if it has
    raised an error; see `changes`. A reply is read before it is changed, so one thread at a time
    edits, merges, moves or undoes.

    Args:
        index: what is changed.
        log: where its changes are written.
        tickets: of the requests for which the next changes are made, one each; none: of none.
    """

    def __init__(
        self, index: Index, log: FeedbackLog, tickets: Sequence[Ticket | None] = ()
    ) -> None:
        self.index = index
        self._log = log
        self._tickets = tickets

    def add(self, lists: Sequence[Sequence[Candidate]]) -> list[Change]:
        """Add replies, at once; each of the lists is a change."""

        def rows() -> list[ChangeRow]:
            positions = itertools.count(self.index.manifest.end)
            states = [{next(positions): reply for reply in part} for part in lists]
            return [ChangeRow("add", dict.fromkeys(state), dict(state)) for state in states]

        lists = [list(as_candidates(part)) for part in lists]
        replies = [reply for part in lists for reply in part]
        return self._made(rows, lambda journal: self.index.add(replies, journal=journal))

    def retire(self, positions: Sequence[int]) -> list[Change]:
        """Delete replies, at once; each is a change."""
        before = {position: self.index.candidate(position) for position in positions}
        rows = [ChangeRow("retire", {at: reply}, {at: None}) for at, reply in before.items()]
        return self._made(
            lambda: rows, lambda journal: self.index.delete(positions, journal=journal)
        )

    def edit(self, position: int, **fields: Any) -> Change:
        """Change text, title, payload or examples of a reply; see `Candidate`.

        `examples` are all that it is to have; those that were learned stay so. An edit that changes
        nothing is not made: it has the number 0 and no replies.

        Raises:
            InputError: there is no such reply or field, or a value is of another type.
        """
        for name in fields:
            if name not in EDITED:
                raise InputError(f"a reply has no field {name!r}; give some of {', '.join(EDITED)}")
        old = self.index.candidate(position)
        if "examples" in fields:
            wanted = as_examples(old.text, fields["examples"])
            learned = tuple(example for example in old.learned if example in wanted)
            own = tuple(example for example in wanted if example not in learned)
            fields = {**fields, "examples": own, "learned": learned}
        if "title" in fields and "payload" not in fields and old.payload.get("title") == old.title:
            fields["payload"] = {**old.payload, "title": fields["title"]}  # a column of its table
        edited = replace(old, **fields)
        if isinstance(edited.text, str) and not edited.text.strip():
            raise InputError("a reply needs a text; retire it instead")
        new = as_candidate(edited)
        if to_line(new, position) == to_line(old, position):
            return Change(0, time.time(), "edit", {}, {}, undone=False)
        return self._change("edit", {position: new})

    def add_examples(self, examples: Mapping[int, Sequence[Conversation]]) -> list[Change]:
        """Add conversations that replies answer; those that a reply has already are left out."""
        made = []
        for position, conversations in examples.items():
            old = self.index.candidate(position)
            known = {*old.examples, *old.learned}
            check_list(conversations, CONVERSATIONS)
            contexts = dict.fromkeys(map(clean_context, conversations))
            new = [context for context in contexts if context not in known]
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
        kept = self.index.candidate(position)
        gone = self.index.candidate(other)
        known = {*kept.examples, *kept.learned}
        examples = [example for example in gone.examples if example not in known]
        if gone.title and gone.title != kept.title and (gone.title,) not in known:
            examples.append((gone.title,))
        learned = [example for example in gone.learned if example not in {*known, *examples}]
        merged = replace(
            kept, examples=(*kept.examples, *examples), learned=(*kept.learned, *learned)
        )
        return self._change("merge", {position: merged, other: None})

    def move(self, example: Sequence[str], position: int, to: int) -> Change:
        """Let an example of a reply be one of another reply."""
        if position == to:
            raise InputError(f"an example of reply {position} cannot move to it; name two replies")
        own = tuple(example)
        source = self.index.candidate(position)
        target = self.index.candidate(to)
        if own not in (*source.examples, *source.learned):
            raise NotFoundError(
                f"reply {position} has no such example to move to reply {to}; give one that it "
                "has, exactly as it is written"
            )
        without = replace(
            source,
            examples=tuple(other for other in source.examples if other != own),
            learned=tuple(other for other in source.learned if other != own),
        )
        if own in (*target.examples, *target.learned):
            pass
        elif own in source.learned:  # it stays one that was learned
            target = replace(target, learned=(*target.learned, own))
        else:
            target = replace(target, examples=(*target.examples, own))
        return self._change("move", {position: without, to: target})

    def undo(self, number: int) -> Change:
        """Undo a change; the undoing is a change too.

        Raises:
            InputError: there is no such change, its replies cannot be read, it was undone, or
                one of them has changed since.
        """
        change = find_change(self._log.database, number, token=self.index.manifest.change)
        if change is None:
            raise NotFoundError(
                f"there is no change {number} in the log; changes are kept for a while"
            )
        if not change.after:
            raise InputError(
                f"the replies of change {number} cannot be read in the log; edit them instead"
            )
        if change.undone:
            raise InputError(f"change {number} was undone already; undo the undoing to get it back")
        current = {position: _current(self.index, position) for position in change.after}
        for position, reply in change.after.items():
            if _as_written(current[position]) != _as_written(reply):
                raise InputError(
                    f"reply {position} has changed since change {number}; undo later changes first"
                )
        return self._change("undo", _with_later_learned(change, current), undone=number)

    def _change(self, kind: ChangeKind, after: State, *, undone: int = 0) -> Change:
        before: State = {position: _current(self.index, position) for position in after}
        kept = {at: reply for at, reply in after.items() if reply is not None}

        def work(journal: Journal) -> None:
            self.index.edit(
                {at: reply for at, reply in kept.items() if before[at] is not None},
                [at for at, reply in after.items() if reply is None],
                {at: reply for at, reply in kept.items() if before[at] is None},
                journal=journal,
            )

        return self._made(lambda: [ChangeRow(kind, before, after, undone)], work)[0]

    def _made(
        self, rows: Callable[[], list[ChangeRow]], work: Callable[[Journal], object]
    ) -> list[Change]:
        """Change the index by `work`, whose changes are `rows`; return them as they are logged."""

        def for_requests() -> list[ChangeRow]:
            tickets = itertools.chain(self._tickets, itertools.repeat(None))
            return [row._replace(ticket=ticket) for row, ticket in zip(rows(), tickets)]  # noqa: B905 (endless)

        journal = Journal(self._log.database, for_requests)
        work(journal)
        return journal.made


def _as_written(reply: Candidate | None) -> Candidate | None:
    """Return a reply without what it has learned, which no change has to undo."""
    return None if reply is None else replace(reply, learned=())


def _with_later_learned(change: Change, current: State) -> State:
    """Return the replies before a change, with what they have learned since and without the rest.

    `current` are the replies as they are now.
    """
    then = {at: () if reply is None else reply.learned for at, reply in change.after.items()}
    now = {at: () if reply is None else reply.learned for at, reply in current.items()}
    forgotten = {*itertools.chain(*then.values())}.difference(*now.values())
    restored: State = {}
    for at, reply in change.before.items():
        if reply is None:
            restored[at] = None
            continue
        kept = [example for example in reply.learned if example not in forgotten]
        known = {*reply.examples, *kept, *then[at]}
        new = [example for example in now[at] if example not in known]
        restored[at] = replace(reply, learned=(*kept, *new))
    return restored


def _current(index: Index, position: int) -> Candidate | None:
    try:
        return index.candidate(position)
    except InputError:
        return None
