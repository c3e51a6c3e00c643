"""Sparse rows of words, and dot products of queries with their own candidates, on numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray
from rejoinder.encoders.candidates import CandidateLists

PAIRS = 1 << 22  # of words of a query and of a candidate that are multiplied at once


@dataclass(frozen=True)
class SparseRows:
    """Numbers of words, those of a row one after the other: `rows` and `words` of each value."""

    count: int  # of rows
    rows: npt.NDArray[np.int64]  # ascending
    words: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]

    @classmethod
    def of_ones(cls, texts: Sequence[Sequence[int]]) -> SparseRows:
        """Return the words of texts, each with the value 1 as often as it stands there."""
        rows = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
        words = np.array([word for text in texts for word in text], dtype=np.int64)
        return cls(len(texts), rows, words, np.ones(len(words)))

    @classmethod
    def counting(cls, texts: Sequence[Sequence[int]]) -> SparseRows:
        """Return how often each word stands in each text; words of a row are ascending."""
        ones = cls.of_ones(texts)
        width = int(ones.words.max(initial=0)) + 1
        keys, counts = np.unique(ones.rows * width + ones.words, return_counts=True)
        rows, words = np.divmod(keys, width)
        return cls(len(texts), rows, words, counts.astype(np.float64))

    @classmethod
    def of(cls, matrix: Any) -> SparseRows:
        """Return the rows of a `scipy.sparse.csr_matrix`."""
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return cls(matrix.shape[0], rows, matrix.indices.astype(np.int64), matrix.data)


def dot_products(queries: SparseRows, documents: SparseRows, lists: CandidateLists) -> FloatArray:
    """Multiply each context's words with those of its own candidates: (n, m), float32.

    A word is another one in every list, so all lists are joined at once. Sums run in the order of
    the query's words: candidates of the same words tie exactly.
    """
    n, m = lists.shape
    scores = np.zeros((n, m), dtype=np.float32)
    if not n * m:
        return scores
    width = 1 + max(int(side.words.max(initial=0)) for side in (queries, documents))
    list_of_query = np.empty(n, dtype=np.int64)
    for number, (rows, _) in enumerate(lists.groups):
        list_of_query[rows] = number
    offered = np.concatenate([columns for _, columns in lists.groups])
    starts = np.searchsorted(documents.rows, np.arange(documents.count + 1))
    lengths = np.diff(starts)[offered]
    entries = _ranges(starts[offered], lengths)
    places = np.repeat(np.arange(len(offered)), lengths)  # list by list
    keys = places // m * width + documents.words[entries]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    weights = documents.values[entries[order]]
    places = places[order] % m
    wanted = list_of_query[queries.rows] * width + queries.words
    first = np.searchsorted(keys, wanted, "left")
    hits = np.searchsorted(keys, wanted, "right") - first
    ends = np.append(0, np.cumsum(hits))[np.searchsorted(queries.rows, np.arange(n), "right")]
    start = 0
    while start < n:
        done = ends[start - 1] if start else 0
        end = int(np.searchsorted(ends, done + PAIRS, "right"))
        end = max(start + 1, min(end, start + PAIRS // m))
        span = slice(*np.searchsorted(queries.rows, (start, end)))
        factors = np.repeat(queries.values[span], hits[span])
        rows = np.repeat(queries.rows[span] - start, hits[span])
        pairs = _ranges(first[span], hits[span])
        sums = np.bincount(rows * m + places[pairs], factors * weights[pairs], (end - start) * m)
        scores[start:end] = sums.reshape(end - start, m)
        start = end
    return scores


def _ranges(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the numbers of ranges, one range after the other."""
    before = np.cumsum(lengths) - lengths
    numbers: npt.NDArray[np.int64] = np.arange(int(lengths.sum()))
    return numbers + np.repeat(starts - before, lengths)
