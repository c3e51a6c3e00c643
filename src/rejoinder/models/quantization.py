"""Training for few bits (CONVERT, "quantization aware training"): 8-bit embeddings, 16 bits for everything else.

A network that is stored in few bits computes with rounded parameters. So that it learns to, it is trained with them:
forward and backward pass see rounded copies, made anew for each step, and the optimiser moves the float32 originals
(the paper's shadow copies), where small updates add up. Rounding has no useful gradient; it is passed straight
through to the originals.

Every table that is looked up (`nn.Embedding`) is rounded to 256 levels between two bounds, every other parameter to a
16-bit float. Nothing here knows a model: any module will do whose tables are called, as in `table(ids)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

Half: TypeAlias = Literal["bfloat16", "float16"]
"""A 16-bit float: 8 bits of precision and the range of float32, or 11 bits and numbers up to 65,504."""

HALVES: Mapping[Half, torch.dtype] = {"bfloat16": torch.bfloat16, "float16": torch.float16}
STEPS = 255
"""Steps from the lowest of 256 levels to the highest."""

SMALLEST_STEP = 1e-30
"""Of a table whose values are all equal: not 0, which nothing can be divided by."""


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """How a model's parameters are rounded: the entry "quantization" of a model folder's configuration."""

    half: Half
    """The 16-bit float of every parameter that is in no table."""
    trained: bool
    """Whether the model was trained with rounded parameters."""
    stored: bool
    """Whether the folder holds the rounded parameters; if not, it holds the originals in float32."""
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of originals: lowest and highest level of each table, by the name of the parameter."""


def table_names(module: nn.Module) -> list[str]:
    """Return the names of the parameters that get 8 bits: the weight of every `nn.Embedding`, shared ones once."""
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    tables = (child for child in module.modules() if isinstance(child, nn.Embedding))
    return list(dict.fromkeys(names[id(table.weight)] for table in tables))


def bounds_of(values: Tensor, room_share: float = 0.0, room_least: float = 0.0) -> Tensor:
    """Return the lowest and highest level, (2,), that cover the values, with room below and above.

    Args:
        values: any shape, at least one.
        room_share: the room as a share of the values' range (CONVERT: 0.1).
        room_least: the room at least (CONVERT: 0.01).
    """
    low, high = torch.aminmax(values.detach())
    room = ((high - low) * room_share).clamp(min=room_least)
    return torch.stack((low - room, high + room))


def step_of(bounds: Tensor) -> Tensor:
    """Return the distance of two neighbouring levels."""
    return ((bounds[1] - bounds[0]) / STEPS).clamp(min=SMALLEST_STEP)


def to_codes(values: Tensor, bounds: Tensor) -> Tensor:
    """Return the number of the level nearest to each value, 0 to 255, as floats of the values' shape."""
    return values.sub(bounds[0]).div_(step_of(bounds)).round_().clamp_(0, STEPS)


def round_to_levels(values: Tensor, bounds: Tensor) -> Tensor:
    """Return each value's nearest level: code · step + lowest level."""
    return to_codes(values, bounds).mul_(step_of(bounds)).add_(bounds[0])


def round_to_half(values: Tensor, half: Half) -> Tensor:
    """Return each value's nearest 16-bit float, as float32: products keep the precision that the caller computes in."""
    return values.to(HALVES[half]).to(values.dtype)


def round_parameters(module: nn.Module, scheme: Scheme) -> None:
    """Replace a trained network's originals by what they were rounded to in training, in place.

    Args:
        module: the network.
        scheme: what it was trained with; it has a range for each of the network's tables.
    """
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name in scheme.ranges:
                parameter.copy_(round_to_levels(parameter, torch.tensor(scheme.ranges[name])))
            else:
                parameter.copy_(round_to_half(parameter, scheme.half))


class Ranges(nn.Module):
    """The levels of each table while it is trained. Its buffer is part of the run's state, and saved with it.

    Args:
        tables: the tables' parameters by name.
        half: 16-bit float of the other parameters.
        room_share: see `bounds_of`.
        room_least: see `bounds_of`.
    """

    bounds: Tensor

    def __init__(
        self, tables: Mapping[str, Tensor], half: Half, *, room_share: float = 0.1, room_least: float = 0.01
    ) -> None:
        super().__init__()
        self.names = list(tables)
        self.sixteen_bits: Half = half  # a module has a method named half
        self.room_share, self.room_least = room_share, room_least
        like = next(iter(tables.values()), torch.zeros(0))
        self.register_buffer("bounds", like.detach().new_zeros(len(tables), 2))
        self.cover(tables.values(), afresh=True)

    @torch.no_grad()
    def cover(self, tables: Iterable[Tensor], *, afresh: bool) -> None:
        """Make the levels cover the tables' values. Nothing waits for a GPU.

        Args:
            tables: in the order of `names`.
            afresh: fit every range to the values; otherwise only those that a value has left.
        """
        for bounds, table in zip(self.bounds, tables, strict=True):
            fitted = bounds_of(table, self.room_share, self.room_least)
            if not afresh:
                low, high = torch.aminmax(table)
                left = (low < bounds[0]) | (high > bounds[1])
                fitted = torch.where(left, fitted, bounds)
            bounds.copy_(fitted)

    def scheme(self) -> Scheme:
        """Return what to write into a model folder."""
        ranges = {name: (low, high) for name, (low, high) in zip(self.names, self.bounds.tolist(), strict=True)}
        return Scheme(half=self.sixteen_bits, trained=True, stored=False, ranges=ranges)


class QuantizedTraining:
    """Lets a network compute with rounded copies of its parameters; gradients reach the originals unchanged.

    The network keeps its float32 parameters under their names. It only gets one more part, `quantization`. Its layer
    norms take and give float32, as CONVERT asks of layer norm, softmax and L2 normalisation; softmax and normalisation
    are float32 in the networks' own code.

    Args:
        module: the network, on its device.
        half: 16-bit float of the parameters outside the tables.
        range_every: steps from one fitting of the ranges to the next.
        room_share: see `bounds_of`.
        room_least: see `bounds_of`.
    """

    def __init__(
        self,
        module: nn.Module,
        half: Half,
        *,
        range_every: int = 100,
        room_share: float = 0.1,
        room_least: float = 0.01,
    ) -> None:
        self.module = module
        self.range_every = range_every
        originals = dict(module.named_parameters())
        tables = {name: originals[name] for name in table_names(module)}
        self.ranges = Ranges(tables, half, room_share=room_share, room_least=room_least)
        module.quantization = self.ranges
        for child in module.modules():
            if isinstance(child, nn.LayerNorm):
                child.register_forward_pre_hook(_in_float32)

    @contextmanager
    def rounded(self) -> Iterator[None]:
        """Inside, the network computes with rounded copies in place of its parameters, which it does not have there."""
        bounds = dict(zip(self.ranges.names, self.ranges.bounds, strict=True))
        apply: Any = _StraightThrough.apply
        copies = {
            parameter: apply(parameter, bounds.get(name), self.ranges.sixteen_bits)
            for name, parameter in self.module.named_parameters()
        }
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

    def cover(self, step: int) -> None:
        """Keep every value inside its table's range; to be called after every update of the parameters.

        Between two fittings a range is changed only if a value has left it (CONVERT fits periodically and does not
        say what happens in between).

        Args:
            step: batches done so far.
        """
        originals = dict(self.module.named_parameters())
        tables = [originals[name] for name in self.ranges.names]
        self.ranges.cover(tables, afresh=step % self.range_every == 0)


def _in_float32(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Convert what enters a layer norm, which on a CPU autocast would otherwise let take and give 16 bits."""
    return tuple(value.float() for value in given)


class _StraightThrough(torch.autograd.Function):
    """Forward: rounding. Backward: the identity."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, bounds: Tensor | None, half: Half) -> Tensor:  # noqa: ARG004
        """Round to the levels between the bounds, or to 16-bit floats if there are none."""
        return round_to_half(values, half) if bounds is None else round_to_levels(values, bounds)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ARG004
        """Pass the gradient through."""
        return gradient, None, None
