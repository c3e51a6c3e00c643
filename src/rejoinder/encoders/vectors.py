"""Vectors of conversations, one or several each, and the scores of responses by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray
from rejoinder.errors import InputError

_LONGEST_UNIT = 1.01  # a model that normalises in 16 bits may miss 1 by a little


@dataclass(frozen=True, slots=True)
class ContextVectors:
    """Conversations of several vectors each (POLY, section 4.4): float32 (n, m, d).

    `present` (n, m) is False where a conversation lacks a vector, such as one shorter than m. None:
    all are there. The products with a response are multiplied by `sharpness` in the softmax alone.
    """

    vectors: FloatArray
    present: npt.NDArray[np.bool_] | None = None
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        if self.vectors.ndim != 3:
            raise ValueError(
                f"vectors of shape {self.vectors.shape}; (contexts, vectors, size) is needed"
            )
        if self.present is not None and self.present.shape != self.vectors.shape[:2]:
            raise ValueError(
                f"present is {self.present.shape} for vectors of shape {self.vectors.shape}"
            )

    def __len__(self) -> int:
        """Number of conversations."""
        return len(self.vectors)

    def __getitem__(self, context: int) -> FloatArray:
        """The vectors that one conversation has: (m' <= m, d)."""
        vectors: FloatArray = self.vectors[context]
        return vectors if self.present is None else vectors[self.present[context]]

    def take(self, contexts: Sequence[int]) -> ContextVectors:
        """Return the vectors of some conversations."""
        rows = list(contexts)
        return replace(
            self,
            vectors=self.vectors[rows],
            present=None if self.present is None else self.present[rows],
        )

    def __iter__(self) -> Iterator[FloatArray]:
        """The vectors of each conversation."""
        return (self[context] for context in range(len(self)))


def check_vectors(vectors: object, what: str, count: int | None = None) -> FloatArray:
    """Return a model's vectors of `count` texts or conversations in float32.

    Anything else is an InputError.
    """
    try:
        numbers = np.asarray(vectors)
    except ValueError as error:  # rows of different lengths
        raise InputError(
            f"the model gives encodings that are not an array ({error});"
            f" one vector per {what} is needed"
        ) from None
    if numbers.dtype.kind not in "fiu" or not numbers.ndim:
        raise InputError(
            f"the model gives encodings as {type(vectors).__name__} of {numbers.dtype};"
            f" numbers are needed, one vector per {what}"
        )
    if count is not None and len(numbers) != count:
        raise InputError(
            f"the model gives {len(numbers):,} vectors where {count:,} are needed, one per {what}"
        )
    return np.ascontiguousarray(numbers, dtype=np.float32)


def attended(products: npt.NDArray[Any], sharpness: float = 1.0) -> npt.NDArray[Any]:
    """Return the scores (b,) of b responses whose products with a context's m vectors are l (b, m).

    sum_i softmax(sharpness·l)_i·l_i (POLY, section 4.4).
    """
    below = products - products.max(axis=1, keepdims=True)
    weights = np.exp(sharpness * below)
    scores: npt.NDArray[Any] = products.max(axis=1) + (weights * below).sum(axis=1) / weights.sum(
        axis=1
    )
    return scores


def check_rows(
    vectors: npt.NDArray[Any],
    what: str,
    first: int = 0,
    *,
    count: int | None = None,
    size: int = 0,
    unit: bool = True,
) -> FloatArray:
    """Return vectors as (n, d) float32 after checking their lengths: 1 or 0 if `unit`, else finite.

    n is `count` and d the `size`, if these are known. The error names the first row that cannot be
    used by `what` and its number, counted from `first`.
    """
    rows = check_vectors(vectors, what, count)
    if rows.ndim != 2 or (len(rows) and not rows.shape[1]):
        raise InputError(
            f"the model gives encodings of shape {rows.shape}; an index holds one vector per {what}"
        )
    if size not in (0, rows.shape[1]):
        raise InputError(f"vectors of size {rows.shape[1]}; those of the index have {size}")
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    near_one = np.abs(lengths - 1) < _LONGEST_UNIT - 1
    is_good = (lengths == 0) | near_one if unit else np.isfinite(lengths)
    if not is_good.all():
        row = int(np.flatnonzero(~is_good)[0])
        reason = "its training may have diverged" + (", or it does not normalise" if unit else "")
        raise InputError(
            f"the model's vector of {what} {first + row} has length {lengths[row]:.4g}"
            f"{', not 1' if unit else ''}: {reason}; use another model"
        )
    return rows
