"""The choice among the best candidates of a search: no repeats, no near-duplicates, diversity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.corpora.example import text_key
from rejoinder.encoders.keywords import WordIndex
from rejoinder.retrieval.options import SearchOptions
from rejoinder.retrieval.replies import Reply
from rejoinder.retrieval.scan import Flags, Found, Positions, Scores

NEAR_COPY = 0.95  # cosine from which two replies count as the same suggestion


class FilteredIndex(Protocol):
    """The replies of an index that pass a filter, by their numbers."""

    @property
    def count(self) -> int:
        """Number that no search exceeds; 0 where there are none."""

    def candidates(self, contexts: Sequence[FloatArray], k: int, minimum: float, /) -> Found:
        """Return the best k for the vectors (m, d) of each context; see `scan.search`."""

    def vectors(self, numbers: Positions) -> FloatArray:
        """Return the vectors by which candidates are scored: (n, d)."""

    def responses(self, numbers: Positions) -> FloatArray:
        """Return the encodings of the texts of candidates: (n, d)."""

    def reply(self, number: int, score: float) -> Reply:
        """Return a candidate with its score."""

    def words(self) -> tuple[WordIndex, Flags]:
        """Return the words of all replies, (n,), and which of these pass."""


def postprocess(
    numbers: Positions,
    scores: Scores,
    filtered: FilteredIndex,
    forbidden: frozenset[str],
    options: SearchOptions,
    *,
    pool: int,
    is_last: bool,
) -> list[Reply] | None:
    """Return the best k replies of the candidates of a context, which come best first.

    k is chosen among the `pool` best that may be given. None if there are fewer, unless `is_last`
    says that there are no more candidates.
    """
    chosen, replies = remove_near_duplicates(
        numbers, scores, filtered, forbidden, pool, distinct=options.distinct
    )
    if len(replies) < pool and not is_last:
        return None
    if not options.diversity or not replies:
        return replies
    order = diversify(filtered.responses(chosen), [reply.score for reply in replies], options)
    return [replies[i] for i in order]


def remove_near_duplicates(
    numbers: Positions,
    scores: Scores,
    filtered: FilteredIndex,
    forbidden: frozenset[str],
    count: int,
    *,
    distinct: bool,
) -> tuple[Positions, list[Reply]]:
    """Return the numbers of the best `count` candidates without forbidden ones, and their replies.

    With `distinct` also without near-duplicates of better ones, most of which are not even read.
    """
    vectors = unit_rows(filtered.responses(numbers)) if distinct else None
    chosen: list[int] = []
    replies: list[Reply] = []
    keys = set(forbidden)
    near = np.zeros(len(numbers), dtype=bool)
    for row, (number, score) in enumerate(zip(numbers.tolist(), scores.tolist(), strict=True)):
        if len(replies) == count:
            break
        if near[row]:
            continue
        reply = filtered.reply(number, score)
        if (forbidden or vectors is not None) and text_key(reply.text) in keys:
            continue
        chosen.append(number)
        replies.append(reply)
        if vectors is not None:
            keys.add(text_key(reply.text))
            near |= vectors @ vectors[row] >= NEAR_COPY
    return np.array(chosen, dtype=np.int64), replies


def diversify(vectors: FloatArray, scores: Sequence[float], options: SearchOptions) -> list[int]:
    """Return the rows of k of the replies, by maximal marginal relevance; see `SearchOptions`."""
    vectors = unit_rows(vectors)
    relevance = (1 - options.diversity) * np.array(scores)
    nearest = np.full(len(scores), -1.0)
    chosen: list[int] = []
    while len(chosen) < min(options.k, len(scores)):
        gains = relevance - options.diversity * nearest
        gains[chosen] = -np.inf
        chosen.append(int(gains.argmax()))
        nearest = np.maximum(nearest, vectors @ vectors[chosen[-1]])
    return chosen
