"""Exact search for poly-encoders: scan small forms of the rows, then score again what can still be among the best k.

As in `scan.py` the true score of a pair is one number, whatever the form of the rows, the size of blocks and the number
of threads: float64, summed in a fixed order. Equal vectors tie to the last bit, and ties go to the reply that came
first. What can be left out is decided in four steps, each over fewer rows (`poly_scores.py` has the laws):

1. the greatest product with a vector of the context, plus its error: no score is above it. No softmax is computed;
2. the score from the products of the stored form, plus its error;
3. the score from the exact rows in float32, plus its error;
4. the true score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from rejoinder.errors import InputError
from rejoinder.ranker import ContextVectors, FloatArray
from rejoinder.retrieval.codes import LONGEST, Array
from rejoinder.retrieval.poly_products import PolyQueries, Products, multiply
from rejoinder.retrieval.poly_scores import Interval, attend, interval, true_poly_scores
from rejoinder.retrieval.scan import Positions, Rows, Scores

VECTORS_AT_ONCE = 2048
"""Context vectors that rows are multiplied with at once."""
PRODUCTS_AT_ONCE = 1 << 19  # computed at once: 2 MB
ROWS_AT_ONCE, ROWS_AT_LEAST = 1 << 13, 1 << 8
ROWS_AGAIN = 1 << 11
"""Exact rows gathered at once: 6 MB with d = 768."""
MANY = 4
"""For each reply wanted, rows of a block that may be among the best: more, and raising the floor is worth a look."""
PENDING_AT_MOST = 1 << 20  # pairs kept before they are settled: 12 MB


def poly_scores(vectors: Array, contexts: ContextVectors, arrays: dict[str, Array] | None = None) -> FloatArray:
    """The score of every candidate for every context, without the attended vectors.

    Args:
        vectors: (n, d) candidates, float32; they may be memory-mapped.
        contexts: q contexts.
        arrays: a small form of the candidates to compute with instead (`codes.encode_rows`); the scores are then as
            far from the exact ones as its codes are.

    Returns:
        (q, n), float32.

    Raises:
        InputError: a context has no vector, or vectors of another size.
    """
    scores = np.empty((len(contexts), len(vectors)), dtype=np.float32)
    checked = _checked(contexts, vectors.shape[1])
    for first, queries in _groups(checked):
        for rows in _slices(len(vectors), _block_size(queries)):
            products = multiply(queries, vectors, arrays or {}, rows, LONGEST)
            for query in range(len(queries.contexts)):
                scores[first + query, rows] = attend(products.logits(query, slice(None))).numpy()
    return scores


def search_poly(
    segments: Sequence[Rows], contexts: ContextVectors, k: int, minimum: float = -np.inf
) -> list[tuple[Positions, Scores]]:
    """The best k rows of each context, exactly.

    Args:
        segments: by ascending `first`, without gaps.
        contexts: q contexts.
        k: how many.
        minimum: smallest score that counts.

    Returns:
        For each context positions and scores, best first; equal scores by ascending position. Fewer than k where
        there are fewer.

    Raises:
        InputError: a context has no vector, or vectors of another size.
    """
    if k < 1 or not segments:
        return [(np.zeros(0, np.int64), np.zeros(0)) for _ in range(len(contexts))]
    found: list[tuple[Positions, Scores]] = []
    for _, queries in _groups(_checked(contexts, segments[0].vectors.shape[1])):
        heads = [_Head(segments, alone, k, minimum) for alone in queries.alone]
        for segment in segments:
            for rows, alive in segment.blocks(_block_size(queries)):
                products = multiply(queries, segment.vectors, segment.arrays, rows, segment.longest)
                for query, head in enumerate(heads):
                    head.see(products, query, segment.first + rows.start, alive)
        found.extend(head.settle() for head in heads)
    return found


def _checked(contexts: ContextVectors, size: int) -> list[FloatArray]:
    """The vectors that each context has."""
    vectors = [contexts.of(i) for i in range(len(contexts))]
    for number, each in enumerate(vectors):
        if not len(each):
            raise InputError(f"context {number} has no vector; a model gives at least one for each conversation")
        if each.shape[1] != size:
            raise InputError(f"context vectors of size {each.shape[1]}; the candidates have {size}")
        if not np.isfinite(each).all():
            raise InputError(f"the model's vectors of context {number} are not finite: its training may have diverged")
    return vectors


def _groups(vectors: Sequence[FloatArray]) -> Iterator[tuple[int, PolyQueries]]:
    """The number of the first context of each group that is searched for together, and the group."""
    start = 0
    while start < len(vectors):
        end, total = start + 1, len(vectors[start])
        while end < len(vectors) and total + len(vectors[end]) <= VECTORS_AT_ONCE:
            total += len(vectors[end])
            end += 1
        yield start, PolyQueries(vectors[start:end])
        start = end


def _block_size(queries: PolyQueries) -> int:
    return max(ROWS_AT_LEAST, min(ROWS_AT_ONCE, PRODUCTS_AT_ONCE // len(queries.vectors)))


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


@dataclass
class _Head:
    """What can still be among the best k of one context."""

    segments: Sequence[Rows]
    query: PolyQueries
    k: int
    minimum: float
    floor: float = field(init=False)
    """No reply whose score is below this is among the best: the k-th best lower bound so far, or the minimum."""
    best: Scores = field(init=False)
    """(at most k,) the best lower bounds so far, of different replies."""
    pending: list[tuple[Positions, Scores]] = field(init=False, default_factory=list)
    """Positions that may be among the best, and upper bounds of their scores."""

    def __post_init__(self) -> None:
        self.floor, self.best = self.minimum, np.zeros(0)
        self.firsts = np.array([segment.first for segment in self.segments], dtype=np.int64)
        self.exact = not any(segment.arrays for segment in self.segments)

    def see(self, products: Products, query: int, first: int, alive: Positions | None) -> None:
        """Take in a block of rows.

        Args:
            products: of the rows.
            query: which of their contexts this is.
            first: position of the first row.
            alive: the rows that count; None: all.
        """
        errors = products.errors(query)
        greatest = (products.greatest(query) + errors).double().numpy()
        if np.isneginf(self.floor):  # before anything is known, everything passes
            self._guess_floor(greatest, first, alive)
        hopeful = greatest >= self.floor
        chosen = np.flatnonzero(hopeful) if alive is None else alive[hopeful[alive]]
        if not len(chosen):
            return
        rows = slice(None) if len(chosen) == len(errors) else torch.from_numpy(chosen)
        found = interval(products.logits(query, rows), errors[rows], products.largest(query))
        upper = np.minimum(_upper(found), greatest[chosen])
        self._raise_floor(first + chosen, found)
        kept = upper >= self.floor
        self.pending.append((first + chosen[kept], upper[kept]))
        if sum(len(positions) for positions, _ in self.pending) > max(PENDING_AT_MOST, 4 * self.k):
            self._keep(*self.settle())

    def settle(self) -> tuple[Positions, Scores]:
        """Score exactly what is left: positions and scores of the best."""
        if not self.pending:
            return np.zeros(0, np.int64), np.zeros(0)
        positions, upper = (np.concatenate(parts) for parts in zip(*self.pending, strict=True))
        positions = np.sort(positions[upper >= self.floor])  # the disk is read in one direction
        if not self.exact and len(positions) > self.k:
            positions = self._narrowed(positions)
        pieces = [self._true(positions[piece]) for piece in _slices(len(positions), ROWS_AGAIN)]
        scores = np.concatenate([np.zeros(0), *pieces])
        order = np.lexsort((positions, -scores))[: self.k]
        order = order[scores[order] >= self.minimum]
        return positions[order], scores[order]

    def _guess_floor(self, greatest: Scores, first: int, alive: Positions | None) -> None:
        """Find a first floor among the rows with the greatest products: some k replies score so much."""
        rows = np.arange(len(greatest)) if alive is None else alive
        if len(rows) >= self.k:
            chosen = rows[np.argpartition(-greatest[rows], self.k - 1)[: self.k]]
            self.floor = float(_lower(self._again(np.sort(first + chosen))).min())

    def _raise_floor(self, positions: Positions, found: Interval) -> None:
        """Raise the floor by what the best of some rows score at least."""
        if self.exact:
            self._lower(_lower(found))
            return
        if len(positions) <= MANY * self.k:  # as well looked at in the end
            return
        better = np.flatnonzero(found.scores > self.floor)
        if len(better) > self.k:
            better = better[np.argpartition(-found.scores[better], self.k - 1)[: self.k]]
        if len(better):  # the bounds of codes are wide: look at the exact rows of the few best
            self._lower(_lower(self._again(np.sort(positions[better]))))

    def _lower(self, lower: Scores) -> None:
        """Take in lower bounds of replies that were not seen before."""
        lower = np.concatenate([self.best, lower[lower > self.floor]])
        if len(lower) >= self.k:
            self.best = np.partition(lower, len(lower) - self.k)[-self.k :]
            self.floor = max(self.floor, float(self.best.min()))
        else:
            self.best = lower

    def _narrowed(self, positions: Positions) -> Positions:
        """The positions that may be among the best after all are scored from the exact rows in float32."""
        found = [self._again(positions[piece]) for piece in _slices(len(positions), ROWS_AGAIN)]
        lower = np.concatenate([_lower(each) for each in found])
        floor = max(self.floor, float(np.partition(lower, len(lower) - self.k)[-self.k]))
        narrowed: Positions = positions[np.concatenate([_upper(each) for each in found]) >= floor]
        return narrowed

    def _again(self, positions: Positions) -> Interval:
        """Scores of some rows from their exact vectors, in float32."""
        rows, longest = self._gather(positions), max(segment.longest for segment in self.segments)
        products = multiply(self.query, rows, {}, slice(None), longest)
        return interval(products.logits(0, slice(None)), products.errors(0), products.largest(0))

    def _true(self, positions: Positions) -> Scores:
        return true_poly_scores(self.query.vectors, self._gather(positions))

    def _gather(self, positions: Positions) -> FloatArray:
        rows = np.empty((len(positions), self.query.vectors.shape[1]), dtype=np.float32)
        owners = np.searchsorted(self.firsts, positions, side="right") - 1
        for owner in np.unique(owners):
            mine = owners == owner
            rows[mine] = self.segments[owner].vectors[positions[mine] - self.segments[owner].first]
        return rows

    def _keep(self, positions: Positions, scores: Scores) -> None:
        """Go on with settled replies alone."""
        self.best = np.zeros(0)
        self.floor = self.minimum
        self._lower(scores)
        self.pending = [(positions, scores)]


def _upper(found: Interval) -> Scores:
    scores: Scores = found.scores.astype(np.float64) + found.bounds
    return scores


def _lower(found: Interval) -> Scores:
    scores: Scores = found.scores.astype(np.float64) - found.bounds
    return scores
