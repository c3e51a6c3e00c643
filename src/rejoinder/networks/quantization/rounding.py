"""Rounding of parameters to 8 and to 16 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

Half: TypeAlias = Literal["bfloat16", "float16"]
"""A 16-bit float: 8 bits of precision and the range of float32, or 11 bits and numbers up to
65,504."""

HALVES: Mapping[Half, torch.dtype] = {"bfloat16": torch.bfloat16, "float16": torch.float16}
STEPS = 255  # steps from the lowest of 256 levels to the highest

ROOM_SHARE = 0.1
ROOM_LEAST = 0.01
"""Room of a trained table's levels below and above its values: a share of their range, and the
least (CONVERT)."""
# of a table whose values are all equal: not 0, which nothing can be divided by
SMALLEST_STEP = 1e-30


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """Rounding of a model's parameters: "quantization" in a model folder's configuration."""

    half: Half  # of every parameter that is in no table
    trained: bool  # whether the model was trained with rounded parameters
    stored: bool
    """True if the folder holds the rounded parameters, false for the float32 originals."""
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of originals: a table's lowest and highest."""
    linear_bits: Literal[8, 16] = 16  # of the weights of linear layers in the folder


def table_names(module: nn.Module) -> list[str]:
    """Return the names of the parameters that get 8 bits.

    They are the weights of every `nn.Embedding`, shared ones once.
    """
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    tables = (child for child in module.modules() if isinstance(child, nn.Embedding))
    return list(dict.fromkeys(names[id(table.weight)] for table in tables))


def row_names(module: nn.Module, scheme: Scheme | None) -> set[str]:
    """Return the names of the parameters that get 8 bits with a scale for each row."""
    if scheme is None or scheme.linear_bits == 16:
        return set()
    layers = {id(child.weight) for child in module.modules() if isinstance(child, nn.Linear)}
    return {name for name, parameter in module.named_parameters() if id(parameter) in layers}


def bounds_of(values: Tensor, *, room: bool = False) -> Tensor:
    """Return the lowest and highest level, (2,), that cover the values.

    CONVERT's room is around them, or not.
    """
    low, high = torch.aminmax(values.detach())
    if room:
        margin = ((high - low) * ROOM_SHARE).clamp(min=ROOM_LEAST)
        low = low - margin
        high = high + margin
    return torch.stack((low, high))


def step_of(bounds: Tensor) -> Tensor:
    """Return the distance of two neighbouring levels."""
    return ((bounds[1] - bounds[0]) / STEPS).clamp(min=SMALLEST_STEP)


def to_codes(values: Tensor, bounds: Tensor) -> Tensor:
    """Return the number of the level nearest to each value, 0 to 255, as floats.

    The shape is the values'.
    """
    return _codes(values, bounds[0], step_of(bounds))


def _codes(values: Tensor, low: Tensor, step: Tensor) -> Tensor:
    return values.sub(low).div_(step).round_().clamp_(0, STEPS)


def round_to_levels(values: Tensor, bounds: Tensor) -> Tensor:
    """Return each value's nearest level: code · step + lowest level."""
    low = bounds[0]
    step = step_of(bounds)
    return _codes(values, low, step).mul_(step).add_(low)


def round_to_half(values: Tensor, half: Half) -> Tensor:
    """Return each value's nearest 16-bit float, as float32.

    Products thus keep the precision that the caller computes in.
    """
    return values.to(HALVES[half]).to(values.dtype)


def round_parameters(module: nn.Module, scheme: Scheme) -> None:
    """Replace a trained network's originals by what they were rounded to in training, in place."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name in scheme.ranges:
                parameter.copy_(round_to_levels(parameter, torch.tensor(scheme.ranges[name])))
            else:
                parameter.copy_(round_to_half(parameter, scheme.half))
