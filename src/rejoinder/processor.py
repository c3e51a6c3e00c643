"""What this machine's processor can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def has_fast_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16 products (AVX512-BF16 or AMX)."""
    return _has_any("_is_avx512_bf16_supported", "_is_amx_tile_supported")


def has_exact_int8() -> bool:
    """Whether this processor adds 8-bit products in 32 bits (VNNI or AMX): without, two at a time overflow 16 bits."""
    return _has_any("_is_vnni_supported", "_is_amx_tile_supported")


def _has_any(*probes: str) -> bool:
    import torch

    return any(bool(getattr(torch.cpu, probe, lambda: False)()) for probe in probes)


_PACKED_FROM = 256
"""Rows from which a packed product pays off: oneDNN prepares it for every number of rows anew, in a millisecond."""


def row_products(vectors: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a function from float32 rows (b, d) to their products (b, m) with `vectors` (m, d), computed in float32.

    For a few vectors oneDNN's packed order takes half the time of a plain product.
    """
    import torch

    def plain(rows: Tensor) -> Tensor:  # NumPy's: PyTorch's may be set to fewer bits for the whole process
        return torch.from_numpy(rows.numpy() @ vectors.numpy().T)

    def product(rows: Tensor) -> Tensor:
        if len(rows) < _PACKED_FROM:
            return plain(rows)
        found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, None, "none", [], "")
        return found

    if len(vectors) == 1:  # of few rows PyTorch's: it made them, and NumPy's threads would wait for its own
        return lambda rows: torch.mv(rows, vectors[0])[:, None] if len(rows) <= _PACKED_FROM else plain(rows)
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not (available and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")) or not _computes_float32():
        return plain
    packed = torch.ops.mkldnn._reorder_linear_weight(vectors)
    return product


def int8_products(rows: Tensor, vectors: Tensor) -> Tensor | None:
    """Return the products (b, m), int32, of 8-bit rows (b, d) and vectors (m, d); None if slow or inexact."""
    import torch

    if not (has_exact_int8() and hasattr(torch, "_int_mm")):
        return None
    return torch._int_mm(rows, vectors.T)


def _computes_float32() -> bool:
    """Return whether PyTorch's float32 products are such: a program may have set them to fewer bits."""
    import torch

    matmul = getattr(torch.backends.mkldnn, "matmul", None)  # older PyTorch has none
    if getattr(matmul, "fp32_precision", "none") not in ("none", "ieee"):
        return False
    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # set through the newer interface, which has answered already
        return True
