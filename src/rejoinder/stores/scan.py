"""Exact search among encoded replies, for contexts of one vector or of several.

Bi-encoders make one vector of a context, poly-encoders several.

With l_i = y·c_i and p = softmax(l) the score of a reply y is sum_i p_i·l_i (POLY, section 4.4).
Rows whose greatest l_i cannot reach the best k so far (allowing for rounding, `_rounding`) are left
out before any softmax; what is left is scored again in float64, in a fixed order: equal rows tie to
the last bit, and ties go to the reply that came first.

Where the process has loaded PyTorch, oneDNN multiplies by a context up to twice as fast as
NumPy's OpenBLAS or PyTorch's own library, and two libraries' threads would wait for each other.
Else NumPy computes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray
from rejoinder.encoders.vectors import attended
from rejoinder.forks import compute_alone_in_children
from rejoinder.stores.runs import Positions

Array: TypeAlias = npt.NDArray[Any]
Scores: TypeAlias = npt.NDArray[np.float64]
Found: TypeAlias = list[tuple[Positions, Scores]]
Flags: TypeAlias = npt.NDArray[np.bool_]

CONTEXTS_AT_ONCE = 128
VECTORS_AT_ONCE = 2048
PRODUCTS_AT_ONCE = 1 << 19  # 2 MB
ROWS_AT_ONCE = 1 << 14
ROWS_AT_LEAST = 1 << 8
GROUPS = 8  # times k: groups of rows by whose best ones a floor is found
LEAST_GROUP = 16  # rows
PENDING_AT_MOST = 1 << 20  # replies kept for the second scoring: there can be many equal ones
ROWS_OF_A_PROGRAM = 16
"""oneDNN multiplies multiples of this: it compiles a program for each shape, which takes a
millisecond."""
_UNIT_ROUNDOFF = 2.0**-24


class VectorSource(Protocol):
    """The vectors of a segment, which may be read when they are first asked for."""

    @property
    def vectors(self) -> Array:
        """The vectors, float32: (n, d)."""


@dataclass(frozen=True, slots=True)
class InMemory:
    """Vectors (n, d) at hand."""

    vectors: Array


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a segment, from position `first` on."""

    first: int
    count: int
    source: VectorSource
    deleted: Flags | None = None  # (n,): which rows are gone
    longest: float = 1.01  # bounds the length of a row
    # what a database is asked for in place of the rows that a filter leaves out: fields, each with
    # the texts of which it has one. None: there is no filter, or it is a function.
    conditions: Sequence[tuple[str, Collection[str]]] | None = None
    gone_before: Flags | None = None  # (n,): which rows are gone whatever the conditions say
    # returns the positions of rows, where these are not in the order of their numbers
    positions_of: Callable[[Positions], Positions] | None = None

    @classmethod
    def of(
        cls, first: int, vectors: Array, deleted: Flags | None = None, longest: float = 1.01
    ) -> Rows:
        """Return the rows of vectors (n, d) at hand."""
        return cls(first, len(vectors), InMemory(vectors), deleted, longest)

    @property
    def vectors(self) -> Array:
        """The vectors, float32: (n, d)."""
        return self.source.vectors

    @property
    def present(self) -> int:
        """The number of rows that are not gone."""
        return self.count - (0 if self.deleted is None else int(self.deleted.sum()))

    @property
    def gone(self) -> Flags:
        """Return a mask of the deleted rows: (n,)."""
        return np.zeros(self.count, bool) if self.deleted is None else self.deleted


def search(
    segments: Sequence[Rows], contexts: Sequence[FloatArray], k: int, minimum: float = -np.inf
) -> Found:
    """Find the best k rows of each context (m, d), in segments by ascending position.

    For each context numbers of rows and scores of at least `minimum` come out, best first, equal
    ones by position.
    """
    results: Found = []
    for queries in _groups(contexts, max(1, min(CONTEXTS_AT_ONCE, PRODUCTS_AT_ONCE // k))):
        for positions, scores in _Best(segments, queries, k).scan():
            enough = scores >= minimum
            results.append((positions[enough], scores[enough]))
    return results


def all_scores(vectors: Array, contexts: Sequence[FloatArray]) -> FloatArray:
    """Return the scores (q, n), in float32, of all rows (n, d) for all contexts."""
    scores = np.empty((len(contexts), len(vectors)), dtype=np.float32)
    start = 0
    for queries in _groups(contexts, CONTEXTS_AT_ONCE):
        for rows in queries.steps(len(vectors)):
            multiplied = products(vectors[rows], queries.vectors)
            for query, part in enumerate(queries.parts):
                own = multiplied[:, part]
                scores[start + query, rows] = own[:, 0] if own.shape[1] == 1 else scores_of(own)
        start += len(queries.contexts)
    return scores


def exact_scores(context: FloatArray, rows: Array) -> Scores:
    """Return the scores (b,) of rows (b, d) for the vectors (m, d) of a context, in float64.

    Equal rows have equal scores whatever stands beside them (vectors of up to 8,192 numbers,
    NumPy's buffer), in any number of threads: BLAS promises neither.
    """
    exact: Scores = np.einsum("md,bd->bm", context.astype(np.float64), rows.astype(np.float64))
    return exact[:, 0] if len(context) == 1 else attended(exact)


def _groups(contexts: Sequence[FloatArray], most: int) -> Iterator[_Queries]:
    start = 0
    while start < len(contexts):
        end = start + 1
        total = len(contexts[start])
        while (
            end < min(len(contexts), start + most) and total + len(contexts[end]) <= VECTORS_AT_ONCE
        ):
            total += len(contexts[end])
            end += 1
        yield _Queries(contexts[start:end])
        start = end


class _Queries:
    """The vectors of q contexts, M in all."""

    def __init__(self, contexts: Sequence[FloatArray]) -> None:
        self.contexts = contexts
        self.vectors = np.ascontiguousarray(np.concatenate(contexts), dtype=np.float32)
        ends = np.cumsum([len(vectors) for vectors in contexts]).tolist()
        self.parts = [
            slice(end - len(vectors), end) for end, vectors in zip(ends, contexts, strict=True)
        ]

    def steps(self, count: int) -> Iterator[slice]:
        """Divide `count` rows into those that are multiplied at once."""
        size = max(ROWS_AT_LEAST, min(ROWS_AT_ONCE, PRODUCTS_AT_ONCE // len(self.vectors)))
        return (slice(start, min(start + size, count)) for start in range(0, count, size))

    def blocks(self, segment: Rows) -> Iterator[_Block]:
        vectors = segment.vectors
        for rows in self.steps(segment.count):
            deleted = None if segment.deleted is None else segment.deleted[rows]
            if deleted is None or not deleted.all():
                yield _Block(self, segment.first + rows.start, vectors[rows], deleted)


class _Block:
    """Products (b, M) of rows from `first` on with the vectors of q contexts.

    `greatest`, (q, b), are each row's greatest products with a vector of each context; -inf for
    deleted rows.
    """

    def __init__(self, queries: _Queries, first: int, rows: Array, deleted: Flags | None) -> None:
        self.first = first
        self.parts = queries.parts
        self.products = products(rows, queries.vectors)
        self.single = self.products.shape[1] == len(self.parts)
        if self.single:
            greatest = self.products
        elif len(self.parts) == 1:
            greatest = greatest_products(self.products)[:, None]
        else:
            greatest = np.maximum.reduceat(
                self.products, [part.start for part in self.parts], axis=1
            )
        self.greatest: FloatArray = np.ascontiguousarray(greatest.T)
        if deleted is not None:
            self.greatest[:, deleted] = -np.inf

    def scores(self, query: int, rows: Array | slice) -> FloatArray:
        """Return the scores of some of the rows for one context, in float32."""
        return (
            self.greatest[query, rows]
            if self.single
            else scores_of(self.products[rows, self.parts[query]])
        )


class _Best:
    """Replies that can still be among the best k of some contexts."""

    def __init__(self, segments: Sequence[Rows], queries: _Queries, k: int) -> None:
        self.segments = segments
        self.queries = queries
        self.k = k
        longest = max((segment.longest for segment in segments), default=0.0)
        largest = longest * np.linalg.norm(queries.vectors.astype(np.float64), axis=1)
        size = queries.vectors.shape[1]
        parts = queries.parts
        self.rounding = np.array(
            [_rounding(size, largest[part]) for part in parts], dtype=np.float32
        )
        # scores so far
        self.best = np.full((len(queries.contexts), self.k), -np.inf, dtype=np.float32)
        # No row that the scan scores below this is among the best.
        self.floor = np.full(len(queries.contexts), -np.inf, dtype=np.float32)
        self.pending: list[list[tuple[Positions, FloatArray]]] = [[] for _ in queries.contexts]

    def scan(self) -> Iterator[tuple[Positions, Scores]]:
        for segment in self.segments:
            for block in self.queries.blocks(segment):
                self._add(block)
        for query in range(len(self.pending)):
            yield self._rescore(query)

    def _add(self, block: _Block) -> None:
        """Let the rows of a block compete with the best so far."""
        if block.single:
            self._guess_floors(block)
        else:  # a softmax costs more than finding a floor first
            for query in np.flatnonzero(np.isneginf(self.floor)).tolist():
                self._guess_floor(block, query)
        hopeful = block.greatest > self.floor[:, None]
        for query in np.flatnonzero(hopeful.any(axis=1)).tolist():
            rows = np.flatnonzero(hopeful[query])
            scores = block.scores(query, rows)
            merged = np.concatenate([self.best[query], scores])
            self.best[query] = np.partition(merged, len(scores))[len(scores) :]
            self.floor[query] = max(
                self.floor[query], self.best[query].min() - self.rounding[query]
            )
            kept = scores > self.floor[query]
            self.pending[query].append((block.first + rows[kept], scores[kept]))
            if sum(len(pending) for pending, _ in self.pending[query]) > max(
                PENDING_AT_MOST // len(self.best), 2 * self.k
            ):
                positions, _ = self._rescore(query)
                self.pending[query] = [
                    (positions, np.full(len(positions), np.inf, dtype=np.float32))
                ]

    def _guess_floors(self, block: _Block) -> None:
        """Take the floors of all contexts from the k best of the greatest scores of groups of rows.

        A partition of all scores would take longer.
        """
        count = block.greatest.shape[1]
        size = count // (GROUPS * self.k)
        if size < LEAST_GROUP or not np.isneginf(self.floor).any():
            return
        groups = block.greatest[:, : count - count % size].reshape(len(self.floor), -1, size)
        best = np.partition(groups.max(axis=2), -self.k, axis=1)[:, -self.k]
        self.floor = np.maximum(self.floor, best - self.rounding)

    def _guess_floor(self, block: _Block, query: int) -> None:
        """Take the floor from the scores of the rows with the greatest products."""
        greatest = block.greatest[query]
        if len(greatest) > self.k:
            top = np.argpartition(greatest, -self.k)[-self.k :]
            if greatest[top].min() > -np.inf:  # none of them was deleted
                self.floor[query] = block.scores(query, top).min() - self.rounding[query]

    def _rescore(self, query: int) -> tuple[Positions, Scores]:
        """Score what is pending from the float32 rows: positions and scores of the best k."""
        hopeful = [
            positions[scores > self.floor[query]] for positions, scores in self.pending[query]
        ]
        positions = np.sort(np.concatenate([np.zeros(0, np.int64), *hopeful]))
        return rescore(self.segments, self.queries.contexts[query], positions, self.k)


def rescore(
    segments: Sequence[Rows], context: FloatArray, positions: Positions, k: int
) -> tuple[Positions, Scores]:
    """Return the best k of rows, by ascending numbers, with their exact scores; see `search`."""
    step = max(1, PRODUCTS_AT_ONCE // context.shape[1])  # the disk is read in one direction
    parts = [positions[start : start + step] for start in range(0, len(positions), step)]
    scores = np.concatenate(
        [np.zeros(0), *(exact_scores(context, _gather(segments, part)) for part in parts)]
    )
    order = np.lexsort((positions_of(segments, positions), -scores))[:k]
    return positions[order], scores[order]


def positions_of(segments: Sequence[Rows], numbers: Positions) -> Positions:
    """Return what rows of equal scores are ordered by: their positions, or what ascends as they do.

    Numbers do, unless replies were revised.
    """
    if all(rows.positions_of is None for rows in segments):
        return numbers
    owners = np.searchsorted([rows.first for rows in segments], numbers, side="right") - 1
    positions = numbers.copy()
    for owner in np.unique(owners).tolist():
        rows = segments[owner]
        if rows.positions_of is not None:
            own = owners == owner
            positions[own] = rows.positions_of(numbers[own] - rows.first)
    return positions


def _gather(segments: Sequence[Rows], positions: Positions) -> Array:
    if len(segments) == 1:
        return segments[0].vectors[positions - segments[0].first]
    ends = [
        *np.searchsorted(positions, [segment.first for segment in segments[1:]]),
        len(positions),
    ]
    bounds = zip(segments, [0, *ends[:-1]], ends, strict=True)
    return np.concatenate(
        [segment.vectors[positions[a:b] - segment.first] for segment, a, b in bounds]
    )


def _rounding(size: int, largest: Scores) -> float:
    """Bound how far apart two scores of a scan in float32 can be whose true values are equal.

    `largest`, (m,), bounds the products |c|·|y| with each vector of the context. A product of d =
    `size` numbers is off by at most e = d·u·|c|·|y|, in any order of summation (Higham, Accuracy
    and Stability of Numerical Algorithms, 3.1). The score f of products l then is off by at most
    e·(1 + A), since df/dl_i = p_i·(1 + l_i - f), where A is the greatest mean deviation sum_i
    p_i·|l_i - f|: at most log(m - 1)/2 + 0.4478 (the entropy of p bounds it), and 0 for one vector.
    The softmax itself adds at most (m + 8)·u·(2·|c|·|y| + 3).
    """
    count = len(largest)
    most = float(largest.max())
    product = 1.1 * (size + 16) * _UNIT_ROUNDOFF * most
    if count == 1:
        return 2 * product + 1e-30
    return 2 * (
        product * (1.5 + math.log(count) / 2) + _UNIT_ROUNDOFF * (count + 8) * (2.1 * most + 3)
    )


def products(rows: Array, vectors: FloatArray) -> FloatArray:
    """Multiply rows (b, d) with vectors (M, d): (b, M)."""
    # all libraries multiply a matrix by a single vector at half the speed of this loop
    if len(vectors) == 1:
        return np.einsum("bd,md->mb", rows, vectors).T
    if not _torch_loaded():
        return rows @ vectors.T
    import torch

    from rejoinder import processor

    x = _tensor(rows)
    y = _tensor(vectors)
    whole = len(rows) - len(rows) % ROWS_OF_A_PROGRAM
    if not whole:
        return (x @ y.T).numpy()
    multiplied = processor.multiply(x[:whole], y)
    if whole < len(rows):
        multiplied = torch.cat([multiplied, x[whole:] @ y.T])
    own: FloatArray = multiplied.numpy()
    return own


def greatest_products(multiplied: FloatArray) -> FloatArray:
    """Return the greatest product of each row (b, m): (b,)."""
    if not _torch_loaded():
        return multiplied.max(axis=1)
    greatest: FloatArray = _tensor(multiplied).amax(dim=1).numpy()
    return greatest


def scores_of(multiplied: FloatArray) -> FloatArray:
    """Return the scores (b,) of rows with products (b, m); see `encoders.vectors.attended`."""
    if not _torch_loaded():
        weights = np.exp(multiplied - multiplied.max(axis=1, keepdims=True))
        # `sum` is slower
        return np.einsum("bm,bm->b", weights, multiplied) / np.einsum("bm->b", weights)
    x = _tensor(multiplied)
    scores: FloatArray = x.softmax(dim=1).mul_(x).sum(dim=1).numpy()
    return scores


def _torch_loaded() -> bool:
    return sys.modules.get("torch") is not None  # None is there where its import is refused


class _Shared:
    """An array as PyTorch takes it, even one mapped read-only; nothing here writes to it."""

    def __init__(self, array: Array) -> None:
        self.array = array
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def _tensor(array: Array) -> Any:
    import torch

    compute_alone_in_children()
    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Shared(array)))
