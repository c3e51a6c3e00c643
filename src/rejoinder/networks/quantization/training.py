"""Training with rounded copies of the parameters, whose float32 originals the optimiser moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from rejoinder.networks.quantization.rounding import (
    Half,
    Scheme,
    bounds_of,
    round_to_half,
    round_to_levels,
    table_names,
)


class Ranges(nn.Module):
    """The levels of each table, by name, while it is trained; a buffer of the run's state."""

    bounds: Tensor

    def __init__(self, tables: Mapping[str, Tensor], half: Half) -> None:
        super().__init__()
        self.names = list(tables)
        self.sixteen_bits: Half = half  # a module has a method named half
        like = next(iter(tables.values()), torch.zeros(0))
        self.register_buffer("bounds", like.detach().new_zeros(len(tables), 2))
        self.update_ranges(tables.values(), afresh=True)

    @torch.no_grad()
    def update_ranges(self, tables: Iterable[Tensor], *, afresh: bool) -> None:
        """Fit every range to its table's values.

        Unless `afresh`, only those that a value has left.
        """
        for bounds, table in zip(self.bounds, tables, strict=True):
            fitted = bounds_of(table, room=True)
            if not afresh:
                low, high = torch.aminmax(table)
                left = (low < bounds[0]) | (high > bounds[1])
                fitted = torch.where(left, fitted, bounds)
            bounds.copy_(fitted)

    def scheme(self) -> Scheme:
        """Return what to write into a model folder."""
        ranges = {
            name: (low, high)
            for name, (low, high) in zip(self.names, self.bounds.tolist(), strict=True)
        }
        return Scheme(half=self.sixteen_bits, trained=True, stored=False, ranges=ranges)


class QuantizedTraining:
    """Lets a network compute with rounded copies of its parameters.

    Gradients reach the originals unchanged. Its layer norms take and give float32, as CONVERT asks.
    Ranges are fitted every `range_every` steps.
    """

    def __init__(self, module: nn.Module, half: Half, *, range_every: int = 100) -> None:
        self.module = module
        self.range_every = range_every
        originals = dict(module.named_parameters())
        tables = {name: originals[name] for name in table_names(module)}
        self.ranges = Ranges(tables, half)
        module.quantization = self.ranges
        for child in module.modules():
            if isinstance(child, nn.LayerNorm):
                child.register_forward_pre_hook(_in_float32)

    @contextmanager
    def rounded(self) -> Iterator[None]:
        """Inside, the network computes with rounded copies in place of its parameters."""
        bounds = dict(zip(self.ranges.names, self.ranges.bounds, strict=True))
        named = dict(self.module.named_parameters())
        ranges = [bounds.get(name) for name in named]
        apply: Any = _StraightThrough.apply
        rounded = apply(self.ranges.sixteen_bits, ranges, *named.values())
        copies = dict(zip(named.values(), rounded, strict=True))
        places = [
            (owner, name, original)
            for owner in self.module.modules()
            for name, original in owner.named_parameters(recurse=False)
        ]
        try:
            for owner, name, original in places:
                delattr(owner, name)
                setattr(owner, name, copies[original])
            yield
        finally:
            for owner, name, original in places:
                if hasattr(owner, name):
                    delattr(owner, name)
                owner.register_parameter(name, original)

    def update_ranges(self, step: int) -> None:
        """Keep every value inside its table's range after update number `step` of the parameters.

        Between two fittings a range is changed only if a value has left it (the paper does not
        say).
        """
        originals = dict(self.module.named_parameters())
        tables = [originals[name] for name in self.ranges.names]
        self.ranges.update_ranges(tables, afresh=step % self.range_every == 0)


def _in_float32(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    # on a CPU autocast would let layer norms take and give 16 bits
    return tuple(value.float() for value in inputs)


def _round_all(parameters: Sequence[Tensor], half: Half) -> list[Tensor]:
    """Round parameters to 16 bits, each by itself or, on a card, together."""
    if all(parameter.device.type == "cpu" for parameter in parameters):
        return [round_to_half(parameter, half) for parameter in parameters]
    return round_together(parameters, half)


def round_together(parameters: Sequence[Tensor], half: Half) -> list[Tensor]:
    """Round parameters to 16 bits in three calls: on a card hundreds would be most of a step."""
    flat = torch.cat([parameter.reshape(-1) for parameter in parameters])
    pieces = torch.split(round_to_half(flat, half), [p.numel() for p in parameters])
    return [piece.view(p.shape) for piece, p in zip(pieces, parameters, strict=True)]


class _StraightThrough(torch.autograd.Function):
    """Forward: rounding of all parameters. Backward: the identity."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ARG004
        half: Half,
        bounds: Sequence[Tensor | None],
        *parameters: Tensor,
    ) -> tuple[Tensor, ...]:
        others = [p for p, levels in zip(parameters, bounds, strict=True) if levels is None]
        rounded = iter(_round_all(others, half))
        return tuple(
            next(rounded) if levels is None else round_to_levels(p, levels)
            for p, levels in zip(parameters, bounds, strict=True)
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:  # noqa: ARG004
        return None, None, *gradients
