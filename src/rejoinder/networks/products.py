"""Products of many small matrices, in float32 on a processor.

In bfloat16 PyTorch leaves them to oneDNN, which compiles a program for each new shape, and texts of
any length bring new shapes in every batch. Small products are computed several times over in the
time that a program takes. In float32 they are MKL's, which compiles none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

COMPILED = 2**23
"""Multiplications in which a program of oneDNN saves the time that compiling it takes."""


def compute_dtype(x: Tensor) -> torch.dtype:
    """Return the type in which products of `x` are computed, autocast or not."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def multiply_each(x: Tensor, y: Tensor) -> Tensor:
    """Return the products of pairs of matrices, (..., i, k) and (..., k, j): (..., i, j)."""
    return _computed(torch.matmul, x, y)


def add_to_each(added: Tensor, x: Tensor, y: Tensor, scale: float) -> Tensor:
    """Return added + scale · x·y for pairs of matrices, (n, i, k) and (n, k, j): (n, i, j)."""
    return _computed(partial(torch.baddbmm, alpha=scale), added, x, y)


def _computed(compute: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    *_, x, y = tensors
    dtype = compute_dtype(x)
    if dtype != torch.bfloat16 or x.device.type != "cpu" or x.numel() * y.shape[-1] > COMPILED:
        return compute(*tensors)
    with torch.autocast("cpu", enabled=False):
        return compute(*(tensor.float() for tensor in tensors)).to(dtype)
