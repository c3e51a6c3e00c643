"""Care for the replies of an index: what it gets wrong, and changes of single replies.

Replies are added, edited, retired and merged; each change is in the log and can be undone. Errors
are those on held-out conversations, and among the examples of its own replies.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rejoinder import files
from rejoinder.corpora import Candidate, Example, text_key
from rejoinder.documents import Block, Document, Table, Text
from rejoinder.errors import InputError
from rejoinder.progress import Advance, silent
from rejoinder.retrieval import scoring
from rejoinder.retrieval.background import encode_background
from rejoinder.retrieval.changes import Change, Journal, Kind, Row, State, find_change
from rejoinder.retrieval.head import encode_replies
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.queries import ANY_SCORE
from rejoinder.retrieval.scan import Scores
from rejoinder.retrieval.tickets import Ticket
from rejoinder.retrieval.usage import WIDTH, reply_name
from rejoinder.retrieval.writing import read_as


class Editor:
    """Changes an index, and writes each change to its log.

    A change is in the index and in the log once its method has returned, and in neither if it has
    raised an error; see `changes`.

    Args:
        index: what is changed.
        tickets: of the requests for which the next changes are made, one each; none: of none.
    """

    def __init__(self, index: Index, tickets: Sequence[Ticket | None] = ()) -> None:
        self.index = index
        self._tickets = tickets

    def add(self, lists: Sequence[Sequence[Candidate]]) -> list[Change]:
        """Add replies, at once; each of the lists is a change."""

        def rows() -> list[Row]:
            positions = itertools.count(self.index.manifest.end)
            states = [{next(positions): reply for reply in part} for part in lists]
            return [Row("add", dict.fromkeys(state), dict(state)) for state in states]

        replies = [reply for part in lists for reply in part]
        return self._made(rows, lambda: self.index.add(replies))

    def retire(self, positions: Sequence[int]) -> list[Change]:
        """Delete replies, at once; each is a change."""
        before = {position: self.index.candidate(position) for position in positions}
        rows = [Row("retire", {at: reply}, {at: None}) for at, reply in before.items()]
        return self._made(lambda: rows, lambda: self.index.delete(positions))

    def edit(self, position: int, **fields: Any) -> Change:
        """Change text, title, payload or examples of a reply; see `Candidate`.

        `examples` are all that it is to have; those that were learned stay so.
        """
        old = self.index.candidate(position)
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
            old = self.index.candidate(position)
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
        kept = self.index.candidate(position)
        gone = self.index.candidate(other)
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
        source = self.index.candidate(position)
        target = self.index.candidate(to)
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
            InputError: there is no such change, it was undone, or one of its replies has changed
                since.
        """
        change = find_change(self.index.log, number, token=self.index.manifest.change)
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

        def work() -> None:
            self.index.edit(
                {at: reply for at, reply in kept.items() if before[at] is not None},
                [at for at, reply in after.items() if reply is None],
                {at: reply for at, reply in kept.items() if before[at] is None},
            )

        return self._made(lambda: [Row(kind, before, after, undone)], work)[0]

    def _made(self, rows: Callable[[], list[Row]], work: Callable[[], object]) -> list[Change]:
        """Change the index by `work`, whose changes are `rows`; return them as they are logged."""

        def for_requests() -> list[Row]:
            tickets = itertools.chain(self._tickets, itertools.repeat(None))
            return [row._replace(ticket=ticket) for row, ticket in zip(rows(), tickets)]  # noqa: B905 (endless)

        journal = Journal(self.index.log, for_requests)
        with self.index.journaled(journal):
            work()
        return journal.made


def _current(index: Index, position: int) -> Candidate | None:
    try:
        return index.candidate(position)
    except InputError:
        return None


PRECISION = 0.9
SHOWN = 10  # rows of each list
_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Mistake:
    """A message whose reply was not found, with the positions of that and of the one found."""

    message: str
    right: int
    found: int
    score: float


@dataclass(frozen=True, slots=True)
class Need:
    """A reply that is often not found, and how many examples it has."""

    position: int
    asked: int
    right: int
    examples: int


@dataclass(frozen=True, slots=True)
class Review:
    """Held-out messages of an index's replies."""

    asked: int
    right: int
    answered: float | None
    """Share that is answered above the lowest score from which 90 % are right; None: there is
    none."""
    from_score: float | None
    refused: int  # messages below the index's own minimum
    mistakes: tuple[Mistake, ...]  # the surest ones
    pairs: tuple[tuple[int, int, int], ...]  # right, found, how often; the most frequent ones
    needs: tuple[Need, ...]  # the replies with the most messages that did not find them
    elsewhere: tuple[Mistake, ...]  # examples of the index that, left out, find another reply


def review(index: Index, examples: Sequence[Example], progress: Advance = silent) -> Review:
    """Return what an index does with conversations whose response it has.

    `progress` counts examples.

    Raises:
        InputError: no response of the examples is a reply of the index.

    """
    replies = dict(index)
    by_key: dict[str, int] = {}
    for position, reply in replies.items():
        by_key.setdefault(text_key(reply.text), position)
    known = [each for each in examples if text_key(each.response) in by_key]
    if not known:
        raise InputError(f"no response of the conversations is a reply of {index.folder}")
    rights = [by_key[text_key(each.response)] for each in known]
    found = []
    for start in range(0, len(known), _AT_ONCE):
        part = [each.context for each in known[start : start + _AT_ONCE]]
        found += [own[0] for own in index.search(part, 1, ANY_SCORE)]
        progress(len(part))
    keys = [text_key(each.response) for each in known]
    is_right = np.array([key == text_key(own.text) for key, own in zip(keys, found, strict=True)])
    scores = np.array([reply.score for reply in found])
    mistakes = [
        Mistake(each.context[-1], right, reply.position, reply.score)
        for each, right, reply in zip(known, rights, found, strict=True)
        if text_key(replies[right].text) != text_key(reply.text)
    ]
    answered, from_score = _coverage(scores, is_right)
    head = index.manifest.head
    minimum = None if head is None else head.minimum_score
    return Review(
        asked=len(known),
        right=int(is_right.sum()),
        answered=answered,
        from_score=from_score,
        refused=0 if minimum is None else int((scores < minimum).sum()),
        mistakes=tuple(sorted(mistakes, key=lambda each: -each.score)[:SHOWN]),
        pairs=_pairs(mistakes),
        needs=_needs(index, rights, is_right),
        elsewhere=misplaced(index),
    )


def _coverage(scores: Scores, is_right: np.ndarray) -> tuple[float | None, float | None]:
    """Return the largest share that is answered with `PRECISION`, and from which score on."""
    order = np.argsort(-scores, kind="stable")
    precise = np.cumsum(is_right[order]) / np.arange(1, len(order) + 1) >= PRECISION
    if not precise.any():
        return None, None
    last = int(np.flatnonzero(precise)[-1])
    return (last + 1) / len(order), float(scores[order[last]])


def _pairs(mistakes: Sequence[Mistake]) -> tuple[tuple[int, int, int], ...]:
    counts = Counter((each.right, each.found) for each in mistakes)
    return tuple((right, found, count) for (right, found), count in counts.most_common(SHOWN))


def _needs(index: Index, rights: Sequence[int], is_right: np.ndarray) -> tuple[Need, ...]:
    counts: defaultdict[int, list[bool]] = defaultdict(list)
    for position, right in zip(rights, is_right.tolist(), strict=True):
        counts[position].append(right)
    replies = dict(index)
    needs = [
        Need(at, len(own), sum(own), len(replies[at].examples) + len(replies[at].learned))
        for at, own in counts.items()
        if not all(own)
    ]
    return tuple(sorted(needs, key=lambda need: (need.right - need.asked, need.position))[:SHOWN])


def misplaced(index: Index) -> tuple[Mistake, ...]:
    """Return the examples of an index that, left out, find another reply most surely."""
    if index.manifest.head is None:
        return ()
    encoder = index.model
    positions, replies = zip(*index, strict=True)
    read = read_as(replies, plain=index.manifest.plain)
    views = encode_replies(encoder, read, plain=False)
    held_out = scoring.hold_out(views, encode_background(encoder), index.responses(positions))
    if held_out is None:
        return ()
    texts = [context[-1] for reply in read for context in scoring.view_contexts(reply)]
    wrong = held_out.is_own & ~held_out.right
    mistakes = [
        Mistake(texts[row], positions[views.owners[row]], positions[found], float(score))
        for row, found, score in zip(
            held_out.rows[wrong], held_out.found[wrong], held_out.best[wrong], strict=True
        )
    ]
    return tuple(sorted(mistakes, key=lambda each: -each.score)[:SHOWN])


# --- The report of a review: Markdown for people, JSON for programs -------------------------------


REPORT = "report.md"
FIGURES = "report.json"
KIND = "rejoinder report on an index"
FOLDER = files.Kind(
    "a report on an index", FIGURES, lambda figures: figures["kind"] == KIND, (REPORT, FIGURES)
)


def save_review(index: Index, review: Review, folder: Path) -> None:
    """Write a report, whole or not at all, in place of an earlier one."""
    replies = dict(index)
    with files.atomic_folder(folder, FOLDER, overwrite=True) as part:
        (part / REPORT).write_text(document(replies, review).markdown(), encoding="utf-8")
        figures = {"kind": KIND, "index": str(index.folder), **asdict(review)}
        text = json.dumps(figures, indent=1, ensure_ascii=False)
        (part / FIGURES).write_text(text + "\n", encoding="utf-8")


def document(replies: Mapping[int, Candidate], review: Review) -> Document:
    """Return the report as Markdown."""
    blocks: list[Block] = [
        Text(
            f"{review.right:,} of {review.asked:,} messages found their reply first "
            f"({review.right / review.asked:.1%}); {review.refused:,} found none."
        )
    ]
    if review.answered is not None:
        blocks.append(
            Text(
                f"Nine of ten answers are right from a score of {review.from_score:.2f} on, "
                f"which answers {review.answered:.1%}."
            )
        )
    name = partial(reply_name, replies)
    pairs = [(name(right), name(found), count) for right, found, count in review.pairs]
    needs = [(name(n.position), f"{n.right} of {n.asked}", n.examples) for n in review.needs]
    blocks += [
        Table("The most confused pairs", ("reply", "taken for", "messages"), pairs),
        Table("Replies that need examples", ("reply", "found", "examples"), needs),
        _mistakes("The most confident mistakes", review.mistakes, name),
        _mistakes("Examples that may belong elsewhere", review.elsewhere, name),
    ]
    return Document("Replies", blocks)


def _mistakes(title: str, mistakes: Sequence[Mistake], name: Callable[[int], str]) -> Table:
    rows = [
        (each.message[:WIDTH], name(each.right), name(each.found), f"{each.score:.2f}")
        for each in mistakes
    ]
    return Table(title, ("message", "reply", "taken for", "score"), rows)
