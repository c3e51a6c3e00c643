"""Small operations on arrays that several rooms need."""

from __future__ import annotations

from collections.abc import Iterator
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


def ranges(starts: npt.NDArray[Any], counts: npt.NDArray[Any]) -> IntArray:
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


def take(ids: Ids, lengths: Ids, rows: Ids) -> tuple[Ids, Ids]:
    """Return the ids of some of the texts, one after the other, and the number of each one's."""
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    return ids[ranges(starts[rows], lengths[rows])], lengths[rows]
