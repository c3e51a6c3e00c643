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


def products(rows: Array, vectors: FloatArray) -> FloatArray:
    """Multiply rows (b, d) with vectors (M, d): (b, M)."""
    if len(vectors) == 1:  # all libraries multiply a matrix by a single vector at half the speed of this loop
        return np.einsum("bd,md->mb", rows, vectors).T
    if not _torch_loaded():
        return rows @ vectors.T
    from rejoinder import processor

    multiplied: FloatArray = processor.multiply(_tensor(rows), _tensor(vectors)).numpy()
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
