"""Products of rows with the vectors of contexts, and scores out of them, in float32.

Where the process has loaded PyTorch, oneDNN multiplies by a few vectors up to twice as fast as NumPy's OpenBLAS or
PyTorch's own library, and two libraries' threads would wait for each other. Else NumPy computes.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.ranker import FloatArray

Array = npt.NDArray[Any]

FEW_VECTORS = 128  # more are multiplied as fast by PyTorch's own library
ROWS_OF_A_PROGRAM = 256
"""oneDNN multiplies multiples of this: it compiles a program for each shape, which takes a millisecond."""


def products(rows: Array, vectors: FloatArray) -> FloatArray:
    """Multiply rows (b, d) with vectors (M, d): (b, M)."""
    if len(vectors) == 1:  # all libraries multiply a matrix by a single vector at half the speed of this loop
        return np.einsum("bd,md->mb", rows, vectors).T
    if not _torch_loaded():
        return rows @ vectors.T
    import torch

    from rejoinder import processor

    x, y = _tensor(rows), _tensor(vectors)
    whole = len(rows) - len(rows) % ROWS_OF_A_PROGRAM if len(vectors) <= FEW_VECTORS else 0
    if not whole:
        return (x @ y.T).numpy()
    parts = [processor.multiply(x[:whole], y), *([x[whole:] @ y.T] if whole < len(rows) else [])]
    multiplied: FloatArray = (parts[0] if len(parts) == 1 else torch.cat(parts)).numpy()
    return multiplied


def greatest_products(multiplied: FloatArray) -> FloatArray:
    """Return the greatest product of each row (b, m): (b,)."""
    if not _torch_loaded():
        return multiplied.max(axis=1)
    greatest: FloatArray = _tensor(multiplied).amax(dim=1).numpy()
    return greatest


def scores_of(multiplied: FloatArray) -> FloatArray:
    """Return the scores (b,) of rows with products (b, m), as POLY's code attends: see `ranker.attended`."""
    if not _torch_loaded():
        weights = np.exp(multiplied - multiplied.max(axis=1, keepdims=True))
        return np.einsum("bm,bm->b", weights, multiplied) / np.einsum("bm->b", weights)  # `sum` is slower
    x = _tensor(multiplied)
    scores: FloatArray = x.softmax(dim=1).mul_(x).sum(dim=1).numpy()
    return scores


def _torch_loaded() -> bool:
    return "torch" in sys.modules


class _Shared:
    """An array as PyTorch takes it: one that is mapped read-only, too, which nothing here writes to."""

    def __init__(self, array: Array) -> None:
        self.array = array
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def _tensor(array: Array) -> Any:
    import torch

    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Shared(array)))
