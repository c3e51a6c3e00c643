"""The errors of an index: on held-out conversations, and among the examples of its replies."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rejoinder.corpora.keys import text_key
from rejoinder.corpora.schema import Example
from rejoinder.corpora.sent_replies import with_sent_replies
from rejoinder.errors import InputError
from rejoinder.progress import Advance, silent
from rejoinder.retrieval.encoding.background import encode_background, texts_for
from rejoinder.retrieval.encoding.batches import read_as
from rejoinder.retrieval.encoding.familiarity import ViewWords
from rejoinder.retrieval.encoding.head import encode_replies
from rejoinder.retrieval.encoding.held_out import hold_out
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import ANY_SCORE
from rejoinder.stores.scan import Scores

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
    examples = with_sent_replies(examples, (reply.text for reply in replies.values()))
    known = [example for example in examples if text_key(example.response) in by_key]
    if not known:
        raise InputError(f"no response of the conversations is a reply of {index.store}")
    rights = [by_key[text_key(example.response)] for example in known]
    first_replies = []
    for start in range(0, len(known), _AT_ONCE):
        part = [example.context for example in known[start : start + _AT_ONCE]]
        first_replies += [own[0] for own in index.search(part, 1, ANY_SCORE)]
        progress(len(part))
    keys = [text_key(example.response) for example in known]
    is_right = np.array(
        [key == text_key(own.text) for key, own in zip(keys, first_replies, strict=True)]
    )
    scores = np.array([reply.score for reply in first_replies])
    mistakes = [
        Mistake(example.context[-1], right, reply.position, reply.score)
        for example, right, reply in zip(known, rights, first_replies, strict=True)
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
        mistakes=tuple(sorted(mistakes, key=lambda mistake: -mistake.score)[:SHOWN]),
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
    counts = Counter((mistake.right, mistake.found) for mistake in mistakes)
    return tuple((right, wrong, count) for (right, wrong), count in counts.most_common(SHOWN))


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
    texts = texts_for(encoder)
    words = ViewWords(read, views, texts)
    # without a density: what is unlike all other examples may be misplaced as well
    held_out = hold_out(
        views, encode_background(encoder), index.vectors(positions, of_texts=True), words
    )
    if held_out is None:
        return ()
    wrong = held_out.is_own & ~held_out.right
    mistakes = [
        Mistake(words.texts[row], positions[views.owners[row]], positions[reply_row], float(score))
        for row, reply_row, score in zip(
            held_out.rows[wrong], held_out.found[wrong], held_out.best[wrong], strict=True
        )
    ]
    return tuple(sorted(mistakes, key=lambda mistake: -mistake.score)[:SHOWN])
