"""Abilities of this machine's processor, and PyTorch's own operations for it.

No other module knows names private to PyTorch; where one is absent, callers use public operations.
Each function imports PyTorch itself: `import rejoinder` does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from torch import Tensor


_ONEDNN = ("mkldnn._linear_pointwise", "mkldnn._reorder_linear_weight")
_ONEDNN_INT8 = ("onednn.qlinear_pointwise", "onednn.qlinear_prepack")
_ROUNDED_ROWS = 1024  # of more, what rounding adds takes longer than a program is compiled


def has_fast_bfloat16() -> bool:
    """Return whether this processor multiplies in bfloat16 (AVX512-BF16 or AMX)."""
    return _has_any("_is_avx512_bf16_supported", "_is_amx_tile_supported")


def has_exact_int8() -> bool:
    """Return whether 8-bit products are added in 32 bits (VNNI or AMX).

    Else two at a time overflow 16 bits.
    """
    return _has_any("_is_vnni_supported", "_is_amx_tile_supported")


def has_onednn() -> bool:
    """Return whether the weights of linear layers can be packed for oneDNN."""
    return _has_operations(*_ONEDNN, *_ONEDNN_INT8)


def packs_bfloat16() -> bool:
    """Return whether oneDNN takes packed weights in bfloat16."""
    import torch

    name = "mkldnn._is_mkldnn_bf16_supported"
    return _has_operations(name) and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def pack_weight(weight: Tensor) -> Tensor:
    """Return the weight of a linear layer in the order in which oneDNN reads it."""
    import torch

    return cast("Tensor", torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous()))


def packed_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, post: str = "none", form: str = ""
) -> Tensor:
    """Compute a linear layer of a packed weight and, in the same pass, its activation."""
    import torch

    def linear(rows: Tensor) -> Tensor:
        product = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, post, [], form)
        return cast("Tensor", product)

    return _with_rounded_rows(linear, x)


def multiply(x: Tensor, y: Tensor) -> Tensor:
    """Return x·y^T of float32 matrices.

    Where y has few rows oneDNN takes half as long as PyTorch's own product.
    """
    if not has_onednn():
        return x @ y.T
    import torch

    return cast("Tensor", torch.ops.mkldnn._linear_pointwise(x, y, None, "none", [], ""))


def pack_int8_weight(weight: Tensor) -> Tensor:
    """Return an 8-bit weight in the order in which oneDNN reads it."""
    import torch

    return cast("Tensor", torch.ops.onednn.qlinear_prepack(weight, None))


def packed_int8_linear(
    x: Tensor, zero_point: int, weight: Tensor, scales: Tensor, zeros: Tensor
) -> Tensor:
    """Multiply 8-bit inputs by a packed 8-bit weight, in float32.

    `zero_point` is that of x, `scales` and `zeros` are those of the weight's outputs.
    """
    import torch

    def linear(rows: Tensor) -> Tensor:
        product = torch.ops.onednn.qlinear_pointwise.default(
            rows,
            1.0,
            zero_point,
            weight,
            scales,
            zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return cast("Tensor", product)

    return _with_rounded_rows(linear, x)


def _with_rounded_rows(linear: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Compute a linear layer for x and, behind it, rows of zeros up to a round number of rows.

    oneDNN compiles a program for each number of rows that it has not met, in the time in which it
    computes hundreds; texts have any number of tokens.
    """
    from torch.nn import functional

    rows = x.shape[:-1].numel()
    if not 0 < rows < _ROUNDED_ROWS or (blank := -rows % _rounding(rows)) == 0:
        return linear(x)
    padded = functional.pad(x.reshape(rows, x.shape[-1]), (0, 0, 0, blank))
    return linear(padded)[:rows].view(*x.shape[:-1], -1)


def _rounding(rows: int) -> int:
    """Return what a number of rows is rounded up to a multiple of, an eighth of it at most."""
    return 1 << max(0, (rows - 1).bit_length() - 4)


def _has_any(*probes: str) -> bool:
    import torch

    return any(bool(getattr(torch.cpu, probe, lambda: False)()) for probe in probes)


def _has_operations(*names: str) -> bool:
    """Return whether PyTorch was built with oneDNN and has these operations."""
    import torch

    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return available and _exist(names)


@cache
def _exist(names: tuple[str, ...]) -> bool:
    import torch

    pairs = (name.split(".") for name in names)
    return all(hasattr(getattr(torch.ops, a), b) for a, b in pairs)
