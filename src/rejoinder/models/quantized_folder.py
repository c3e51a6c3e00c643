"""The weights of a quantised model folder: 8-bit tables with scale and offset, everything else as 16-bit floats.

In its safetensors file a table's parameter NAME is uint8 and stands beside NAME.scale and NAME.offset, float32 without
dimensions: value = code · scale + offset. Opened for encoding, the tables stay in 8 bits; a row is turned into floats
when it is looked up. To train on, or for other forms of the model, the same values become an ordinary network in
float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.errors import InputError
from rejoinder.models.quantization import HALVES, Half, Scheme, bounds_of, step_of, table_names, to_codes

SCALE, OFFSET = ".scale", ".offset"
"""What is added to a table's name for the two numbers beside it."""

_CODES = {torch.uint8: "U8", torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
_checked_scheme = TypeAdapter(Scheme)


class QuantizedTable(nn.Module):
    """Stands in for an `nn.Embedding` of a trained network: looks rows up in 8 bits.

    Args:
        codes: uint8 (rows, d).
        scale: distance of two neighbouring levels.
        offset: the lowest level.
        dtype: of the rows that come out.
    """

    weight: Tensor

    def __init__(self, codes: Tensor, scale: float, offset: float, dtype: torch.dtype) -> None:
        super().__init__()
        # Under the name that the table's parameter had, since some ask `table.weight` for its device.
        self.register_buffer("weight", codes)
        self.num_embeddings, self.embedding_dim = codes.shape
        self.scale, self.offset, self.dtype = scale, offset, dtype

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of any shape -> their rows, (..., d)."""
        return F.embedding(ids, self.weight).float().mul_(self.scale).add_(self.offset).to(self.dtype)


def read_scheme(config: Mapping[str, Any]) -> Scheme | None:
    """The entry "quantization" of a model folder's configuration; None if there is none.

    Raises:
        ValueError: it is not what `Scheme` describes.
    """
    entry = config.get("quantization")
    if entry is None:
        return None
    try:
        return _checked_scheme.validate_python(entry)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"quantization.{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def scheme_entry(scheme: Scheme | None) -> dict[str, Any]:
    """What a scheme adds to a model folder's configuration. The ranges of a stored table are its scale and offset."""
    if scheme is None:
        return {}
    return {"quantization": asdict(replace(scheme, ranges={}) if scheme.stored else scheme)}


def half_for(module: nn.Module) -> Half:
    """The 16-bit float for a network that was not trained for one: float16, the more precise, if its numbers fit."""
    largest = torch.finfo(torch.float16).max
    fits = all(bool(parameter.detach().abs().max() <= largest) for parameter in module.parameters())
    return "float16" if fits else "bfloat16"


def quantized_tensors(module: nn.Module, scheme: Scheme) -> dict[str, Tensor]:
    """The tensors of the quantised folder of a network.

    Args:
        module: the network with its float32 parameters.
        scheme: 16-bit float, and the ranges of the tables; a table without one gets that of its values.
    """
    tables = set(table_names(module))
    tensors: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters():
        values = parameter.detach().cpu().float()
        if name not in tables:
            tensors[name] = values.to(HALVES[scheme.half]).contiguous()
            continue
        bounds = torch.tensor(scheme.ranges[name]) if name in scheme.ranges else bounds_of(values)
        tensors[name] = to_codes(values, bounds).to(torch.uint8).contiguous()
        tensors[name + SCALE], tensors[name + OFFSET] = step_of(bounds), bounds[0].clone()
    return tensors


def fill(module: nn.Module, weights: Path, scheme: Scheme, dtype: torch.dtype) -> None:
    """Give a network without numbers (see `skeleton`) the parameters of a quantised folder.

    Args:
        module: the network; its tables become `QuantizedTable`s.
        weights: the folder's safetensors file.
        scheme: the folder's.
        dtype: what everything but the tables is computed in, and what the tables' rows come out as.

    Raises:
        InputError: the file is damaged, or of another network.
    """
    tables = set(table_names(module))
    named = dict(module.named_parameters())
    try:
        with safe_open(weights, framework="pt") as file:
            _check(file, named, tables, scheme.half, weights)
            codes = {id(named[name]): _table(file, name, dtype) for name in tables}
            others = {
                id(parameter): nn.Parameter(file.get_tensor(name).to(dtype), requires_grad=False)
                for name, parameter in named.items()
                if name not in tables
            }
    except SafetensorError as error:
        raise InputError(f"{weights} is damaged ({error}); copy the model folder again") from error
    for parent in list(module.modules()):
        for key, child in list(parent._modules.items()):
            if isinstance(child, nn.Embedding):
                parent._modules[key] = codes[id(child.weight)]
    for owner in module.modules():
        for key, parameter in list(owner._parameters.items()):
            if parameter is not None:
                owner._parameters[key] = others[id(parameter)]


def fill_inflated(module: nn.Module, weights: Path, scheme: Scheme) -> None:
    """Give a network in float32 the parameters of a quantised folder: the rounded values, to train on from them.

    Args:
        module: the network.
        weights: the folder's safetensors file.
        scheme: the folder's.

    Raises:
        InputError: the file is damaged, or of another network.
    """
    tables, named = set(table_names(module)), dict(module.named_parameters())
    try:
        with safe_open(weights, framework="pt") as file, torch.no_grad():
            _check(file, named, tables, scheme.half, weights)
            for name, parameter in named.items():
                values = file.get_tensor(name).float()
                if name in tables:  # the very operations of `QuantizedTable`
                    scale, offset = (float(file.get_tensor(name + end)) for end in (SCALE, OFFSET))
                    values = values.mul_(scale).add_(offset)
                parameter.copy_(values)
    except SafetensorError as error:
        raise InputError(f"{weights} is damaged ({error}); copy the model folder again") from error


def _table(file: Any, name: str, dtype: torch.dtype) -> QuantizedTable:
    scale, offset = (float(file.get_tensor(name + end)) for end in (SCALE, OFFSET))
    return QuantizedTable(file.get_tensor(name).clone(), scale, offset, dtype)  # a copy: the file may be written over


def _check(file: Any, named: Mapping[str, Tensor], tables: set[str], half: Half, weights: Path) -> None:
    """Refuse a file with other tensors than the network's."""
    expected: dict[str, tuple[str, list[int]]] = {}
    for name, parameter in named.items():
        kind = torch.uint8 if name in tables else HALVES[half]
        expected[name] = (_CODES[kind], list(parameter.shape))
        if name in tables:
            expected |= {name + end: (_CODES[torch.float32], []) for end in (SCALE, OFFSET)}
    given = {
        name: (part.get_dtype(), part.get_shape()) for name in file.keys() for part in [file.get_slice(name)]  # noqa: SIM118
    }
    for name in sorted(given.keys() | expected.keys()):
        if given.get(name) != expected.get(name):
            raise InputError(
                f"{weights} does not fit its configuration: {name} is {given.get(name, 'missing')}, not "
                f"{expected.get(name, 'to be there')}; copy the model folder again"
            )
