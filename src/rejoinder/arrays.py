"""Small operations on arrays that several rooms need, and ragged columns of token ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]


def unit_rows(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Divide every row of (n, d) by its length; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny), dtype=np.float32)


def with_blanks_last(
    count: int, places: Sequence[int], scores: npt.NDArray[Any]
) -> npt.NDArray[np.float64]:
    """Return scores of `count` texts: those at `places`, and a lower one for the others.

    >>> with_blanks_last(3, [0, 2], np.array([0.5, 0.25])).tolist()
    [0.5, -0.75, 0.25]
    """
    lowest = float(scores.min()) - 1.0 if len(scores) else 0.0
    all_scores = np.full(count, lowest)
    all_scores[list(places)] = scores
    return all_scores


def ranges(starts: npt.NDArray[Any] | int, counts: npt.NDArray[Any]) -> IntArray:
    """Concatenate the ranges `starts[i]`, ..., `starts[i] + counts[i] - 1`.

    They are places of the items of ragged rows.

    >>> ranges(np.array([10, 5]), np.array([3, 2])).tolist()
    [10, 11, 12, 5, 6]
    """
    ends = np.cumsum(counts, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - ends + counts, counts)


def by_length(lengths: npt.NDArray[np.integer], tokens: int) -> Iterator[Ids]:
    """Yield the places of texts from short to long, in groups of about `tokens` tokens.

    A longer text is one alone.
    """
    order = np.argsort(lengths, kind="stable").astype(np.int32)
    group_of = np.cumsum(np.maximum(lengths[order], 1), dtype=np.int64) // tokens
    yield from np.split(order, np.flatnonzero(np.diff(group_of)) + 1) if len(order) else ()


def by_like_length(lengths: npt.NDArray[np.integer], tokens: int) -> Iterator[Ids]:
    """Yield groups as `by_length` does, in which no text is twice as long as the shortest.

    Of a program that pads texts to the longest, less than half is padding.
    """
    order = np.argsort(lengths, kind="stable").astype(np.int32)
    known = np.maximum(lengths[order], 1).astype(np.int64)
    doublings = np.log2(known / known[:1]).astype(np.int64)
    group_of = np.cumsum(known) // tokens + doublings
    yield from np.split(order, np.flatnonzero(np.diff(group_of)) + 1) if len(order) else ()


def take(ids: Ids, lengths: Ids, rows: Ids) -> tuple[Ids, Ids]:
    """Return the ids of some of the texts, one after the other, and the number of each one's."""
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    return ids[ranges(starts[rows], lengths[rows])], lengths[rows]


@dataclass(frozen=True, slots=True)
class Column:
    """Texts as token ids: text i has ids[offsets[i] : offsets[i + 1]]."""

    ids: Ids
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def gather(self, rows: IntArray) -> tuple[Ids, Ids]:
        """Return the ids of the given texts, one after the other, and the length of each."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        return self.ids[ranges(starts, lengths)], lengths.astype(np.int32)


class Joined:
    """Several columns, or several arrays with a number of each example, numbered through.

    Nothing is copied.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts
        self._starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def gather(self, rows: IntArray) -> tuple[Ids, Ids]:
        """See `Column.gather`."""
        lengths = np.zeros(len(rows), np.int32)
        parts = []
        for mine, part, own in self._owned(rows):
            ids, lengths[mine] = part.gather(own)
            parts.append((mine, ids))
        ids = np.empty(int(lengths.sum()), np.int32)
        for mine, part in parts:
            ids[np.repeat(mine, lengths)] = part
        return ids, lengths

    def __getitem__(self, rows: IntArray) -> IntArray:
        values = np.empty(rows.shape, np.int64)
        for mine, part, own in self._owned(rows):
            values[mine] = part[own]
        return values

    def _owned(self, rows: IntArray) -> Iterator[tuple[npt.NDArray[np.bool_], Any, IntArray]]:
        """Yield each part that has some of the rows, which they are, and their numbers in it."""
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        for owner in np.unique(owners):
            mine = owners == owner
            yield mine, self._parts[owner], rows[mine] - self._starts[owner]
