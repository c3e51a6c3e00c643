"""Exact search: scan small forms of the rows, then score again what can still be among the best k.

The true score of a pair is one number, whatever the form of the rows, the size of blocks and the number of threads:
the products of the float32 elements, exact in float64, summed in float64 in a fixed order. Equal vectors therefore tie
to the last bit, and ties go to the reply that came first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rejoinder.ranker import FloatArray
from rejoinder.retrieval.codes import LONGEST, Array, Queries, approximate

Positions = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]

QUERIES_AT_ONCE = 128
PAIRS_AT_ONCE = 1 << 19  # scores computed at once: 2 MB of float32
ROWS_AT_ONCE, ROWS_AT_LEAST = 1 << 14, 1 << 10
# Pairs kept for exact scoring before they are settled: there can be many equal replies.
PENDING_AT_MOST, PENDING_PER_PLACE = 1 << 20, 4


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one segment.

    Attributes:
        first: position of its first row.
        vectors: (n, d) float32, exact.
        arrays: their small form (`codes.encode_rows`).
        alive: (n,) whether a row still counts; None if all do.
        longest: bound on the length of a row.
    """

    first: int
    vectors: Array
    arrays: dict[str, Array]
    alive: npt.NDArray[np.bool_] | None = None
    longest: float = LONGEST

    def blocks(self, size: int) -> Iterator[tuple[slice, npt.NDArray[np.int64] | None]]:
        """Slices of at most `size` rows with a row that counts, and the rows that count within (None: all)."""
        for start in range(0, len(self.vectors), size):
            rows = slice(start, min(start + size, len(self.vectors)))
            if self.alive is None or self.alive[rows].all():
                yield rows, None
            elif self.alive[rows].any():
                yield rows, np.flatnonzero(self.alive[rows])


def true_scores(query: FloatArray, vectors: Array) -> Scores:
    """The score of each row (n, d) for one query (d,): (n,), independent of how rows are put together."""
    products = vectors.astype(np.float64) * query.astype(np.float64)
    total: Scores = np.ascontiguousarray(products).sum(axis=1)
    return total


def search(
    segments: Sequence[Rows], queries: FloatArray, k: int, minimum: float = -np.inf
) -> list[tuple[Positions, Scores]]:
    """The best k rows of each query, exactly.

    Args:
        segments: by ascending `first`, without gaps.
        queries: (q, d).
        k: how many.
        minimum: smallest score that counts.

    Returns:
        For each query positions and scores, best first; equal scores by ascending position. Fewer than k where there
        are fewer.
    """
    if k < 1 or not segments:
        return [(np.zeros(0, np.int64), np.zeros(0)) for _ in queries]
    found: list[tuple[Positions, Scores]] = []
    at_once = max(1, min(QUERIES_AT_ONCE, PAIRS_AT_ONCE // k))
    for start in range(0, len(queries), at_once):
        heads = _Heads(segments, queries[start : start + at_once], k, minimum)
        found.extend(heads.run())
    return found


@dataclass
class _Heads:
    """What can still be among the best k of some queries."""

    segments: Sequence[Rows]
    queries: FloatArray
    k: int
    minimum: float
    floor: FloatArray = field(init=False)
    """(q,) no reply below this is among the best: the k-th best lower bound so far, or the minimum."""
    best: FloatArray = field(init=False)
    """(q, k) the best lower bounds so far, of k different replies."""
    pending: list[tuple[Positions, Positions, FloatArray]] = field(init=False, default_factory=list)
    """Pairs that may be among the best: queries, positions, upper bounds."""

    def __post_init__(self) -> None:
        self.floor = np.full(len(self.queries), _at_most(self.minimum), dtype=np.float32)
        self.best = np.full((len(self.queries), self.k), -np.inf, dtype=np.float32)
        self.firsts = np.array([segment.first for segment in self.segments], dtype=np.int64)

    def run(self) -> list[tuple[Positions, Scores]]:
        """Scan all segments: positions and scores of each query's best."""
        queries = Queries(self.queries)
        size = max(ROWS_AT_LEAST, min(ROWS_AT_ONCE, PAIRS_AT_ONCE // len(self.queries)))
        for segment in self.segments:
            for rows, alive in segment.blocks(size):
                scores, bound = approximate(queries, segment.vectors, segment.arrays, rows, segment.longest)
                positions = np.arange(segment.first + rows.start, segment.first + rows.stop)
                if alive is not None:
                    scores, positions = scores[:, alive], positions[alive]
                    bound = bound[alive] if bound.ndim else bound
                self._see(positions, scores, bound)
        return self._settle()

    def _see(self, positions: Positions, scores: FloatArray, bound: FloatArray) -> None:
        if len(positions) >= self.k and np.isneginf(self.floor).any():  # the first block: else everything passes
            place = len(positions) - self.k
            lower = np.partition(scores - bound, place, axis=1)[:, place]
            np.maximum(self.floor, lower, out=self.floor)
        upper = np.add(scores, bound, out=scores)
        chosen, columns = np.nonzero(upper >= self.floor[:, None])
        kept, bounds = upper[chosen, columns], bound[columns] if bound.ndim else bound
        self._raise_floor(chosen, kept - 2 * bounds)
        self.pending.append((chosen, positions[columns], kept))
        if sum(len(pairs[0]) for pairs in self.pending) > max(PENDING_AT_MOST, PENDING_PER_PLACE * self.best.size):
            self._keep(self._settle())

    def _raise_floor(self, chosen: Positions, lower: FloatArray) -> None:
        ends = np.searchsorted(chosen, np.arange(len(self.queries) + 1))
        for query in np.flatnonzero(np.diff(ends)):
            merged = np.concatenate([self.best[query], lower[ends[query] : ends[query + 1]]])
            self.best[query] = np.partition(merged, len(merged) - self.k)[-self.k :]
            self.floor[query] = max(self.floor[query], self.best[query].min())

    def _settle(self) -> list[tuple[Positions, Scores]]:
        """Score the pending pairs exactly: positions and scores of each query's best."""
        if not self.pending:
            return [(np.zeros(0, np.int64), np.zeros(0)) for _ in self.queries]
        chosen, positions, upper = (np.concatenate(parts) for parts in zip(*self.pending, strict=True))
        hopeful = upper >= self.floor[chosen]
        chosen, positions = chosen[hopeful], positions[hopeful]
        order = np.lexsort((positions, chosen))  # ascending positions: the disk is read in one direction
        parts = np.split(positions[order], np.searchsorted(chosen[order], np.arange(1, len(self.queries))))
        return [self._best_of(query, part) for query, part in zip(self.queries, parts, strict=True)]

    def _best_of(self, query: FloatArray, positions: Positions) -> tuple[Positions, Scores]:
        pieces = [self._score(query, positions[i : i + 4096]) for i in range(0, len(positions), 4096)]
        scores = np.concatenate([np.zeros(0), *pieces])
        best = np.lexsort((positions, -scores))[: self.k]
        best = best[scores[best] >= self.minimum]
        return positions[best], scores[best]

    def _score(self, query: FloatArray, positions: Positions) -> Scores:
        scores = np.empty(len(positions))
        owners = np.searchsorted(self.firsts, positions, side="right") - 1
        for owner in np.unique(owners):
            segment, mine = self.segments[owner], owners == owner
            scores[mine] = true_scores(query, segment.vectors[positions[mine] - segment.first])
        return scores

    def _keep(self, settled: list[tuple[Positions, Scores]]) -> None:
        """Go on with the settled pairs alone."""
        self.best[:] = -np.inf
        self.pending = []
        for query, (positions, scores) in enumerate(settled):
            self.best[query, : len(scores)] = [_at_most(score) for score in scores]
            self.floor[query] = max(self.floor[query], self.best[query].min())
            upper = np.nextafter(scores.astype(np.float32), np.float32(np.inf))
            self.pending.append((np.full(len(positions), query), positions, upper))


def _at_most(score: float) -> np.float32:
    """The score in float32, rounded down."""
    return np.nextafter(np.float32(score), np.float32(-np.inf))
