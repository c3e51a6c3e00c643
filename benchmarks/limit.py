"""The machine's own limit: its best rate for matrices of the shapes that a model uses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from rejoinder.networks.convert import Convert

Shape = tuple[int, int, int]
"""Rows, inputs, outputs of a matrix product."""


def gemm_shapes(module: Convert, tokens: int, texts: int) -> set[Shape]:
    """Every matrix product over weights that encoding makes."""
    shapes = set()
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Linear):
            rows = texts if "head" in name or "shared" in name else tokens
            shapes.add((rows, layer.in_features, layer.out_features))
    return shapes


def multiplications(module: Convert) -> tuple[int, int]:
    """Return multiply-adds of the products over weights.

    They are those of one token in the trunk, and of one text after it.
    """
    layers: list[nn.Linear] = [module.reduction.query_key]
    blocks: Any = module.blocks[: module.active_blocks]
    for block in blocks:
        layers += [
            block.attention.qkv,
            block.attention.output,
            block.feed_forward.expand,
            block.feed_forward.contract,
        ]
    heads = module.context_head.linears()
    return sum(layer.weight.numel() for layer in layers), sum(
        layer.weight.numel() for layer in heads
    )


def best_rate(shapes: Iterable[Shape], precision: str, repetitions: int = 20) -> float:
    """Floating-point (or 8-bit) operations per second of the fastest of the shapes."""
    return max(
        2 * m * k * n / _seconds(_product(m, k, n, precision), repetitions) for m, k, n in shapes
    )


def _product(m: int, k: int, n: int, precision: str) -> Callable[[], object]:
    if precision == "int8":
        weight = torch.ops.onednn.qlinear_prepack(
            torch.randint(-127, 127, (n, k), dtype=torch.int8), None
        )
        x = torch.randint(0, 255, (m, k), dtype=torch.uint8)
        scales, zeros = torch.ones(n), torch.zeros(n, dtype=torch.int64)
        return lambda: torch.ops.onednn.qlinear_pointwise.default(
            x, 1.0, 0, weight, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a, plain = torch.randn(m, k, dtype=kind), torch.randn(n, k, dtype=kind)
    packed = torch.ops.mkldnn._reorder_linear_weight(plain)

    def both() -> object:
        return torch.ops.mkldnn._linear_pointwise(a, packed, None, "none", [], "")

    library = _seconds(lambda: torch.nn.functional.linear(a, plain), 5)
    return both if _seconds(both, 5) < library else lambda: torch.nn.functional.linear(a, plain)


def _seconds(work: Callable[[], object], repetitions: int) -> float:
    """Return seconds of the quickest repetition: a limit is what the machine can do at best."""
    work()
    quickest = float("inf")
    for _ in range(repetitions):
        started = time.perf_counter()
        work()
        quickest = min(quickest, time.perf_counter() - started)
    return quickest
