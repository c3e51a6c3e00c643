"""Weights of a quantised folder, written and read.

A table NAME is uint8 beside NAME.scale and NAME.offset: value = code · scale + offset. Where asked
for, weights of linear layers have 8 bits too: int8 beside one scale for each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.errors import InputError
from rejoinder.networks.quantization.rounding import (
    HALVES,
    SMALLEST_STEP,
    Scheme,
    bounds_of,
    row_names,
    step_of,
    table_names,
    to_codes,
)
from rejoinder.safetensors_files import OFFSET, SCALE, stored_tensors

LARGEST = 127  # code of a row of a linear layer's weights
PIECE_ROWS = 1 << 13  # rows of an 8-bit table turned into floats at once


class QuantizedTable(nn.Module):
    """Stands in for an `nn.Embedding` of a trained network.

    It looks rows up in codes, uint8 (rows, d).
    """

    weight: Tensor

    def __init__(self, codes: Tensor, scale: float, offset: float, dtype: torch.dtype) -> None:
        super().__init__()
        # Under the name that the table's parameter had, since some ask `table.weight` for its
        # device.
        self.register_buffer("weight", codes)
        self.num_embeddings, self.embedding_dim = codes.shape
        self.scale = scale
        self.offset = offset
        self.dtype = dtype

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of any shape -> their rows, (..., d)."""
        return (
            F.embedding(ids, self.weight).float().mul_(self.scale).add_(self.offset).to(self.dtype)
        )


def quantized_tensors(module: nn.Module, scheme: Scheme) -> dict[str, Tensor]:
    """Return the tensors of a network's quantised folder.

    A table without a range in `scheme` gets its values'.
    """
    tables = set(table_names(module))
    rows = row_names(module, scheme)
    tensors: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters():
        values = parameter.detach().cpu().float()
        if name in rows:
            # As `inference` rounds them where a processor has exact 8-bit products, which are then
            # the same ones.
            scale = values.abs().amax(dim=1).clamp(min=SMALLEST_STEP) / LARGEST
            tensors[name] = (values / scale[:, None]).round().to(torch.int8)
            tensors[name + SCALE] = scale
            continue
        if name not in tables:
            tensors[name] = values.to(HALVES[scheme.half]).contiguous()
            continue
        bounds = torch.tensor(scheme.ranges[name]) if name in scheme.ranges else bounds_of(values)
        tensors[name] = to_codes(values, bounds).to(torch.uint8).contiguous()
        tensors[name + SCALE] = step_of(bounds)
        tensors[name + OFFSET] = bounds[0].clone()
    return tensors


def fill(module: nn.Module, weights: Sequence[Path], scheme: Scheme | None) -> None:
    """Give a network in float32 the parameters of a folder's files.

    Of a quantised one, with a `scheme`, they are the rounded values.
    """
    stored = _read(module, weights, scheme)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name + OFFSET not in stored:
                parameter.copy_(_values(stored, name))
                continue
            scale = float(stored[name + SCALE])
            offset = float(stored[name + OFFSET])
            # By pieces: a second whole table costs memory, and frees a block that glibc never keeps
            # for reuse.
            stored_pieces = torch.split(stored[name], PIECE_ROWS)
            pieces = torch.split(parameter, PIECE_ROWS)
            for codes, rows in zip(stored_pieces, pieces, strict=True):
                # the very operations of `QuantizedTable`
                rows.copy_(codes.float().mul_(scale).add_(offset))


def fill_meta_module(
    module: nn.Module, weights: Sequence[Path], scheme: Scheme, dtype: torch.dtype
) -> None:
    """Give a network built `on_meta_device` a quantised folder's parameters.

    Tables get 8 bits, all others `dtype`.
    """
    stored = _read(module, weights, scheme)
    tables: dict[int, QuantizedTable] = {}
    others: dict[int, nn.Parameter] = {}
    for name, parameter in module.named_parameters():
        if name + OFFSET in stored:
            scale = float(stored[name + SCALE])
            offset = float(stored[name + OFFSET])
            codes = stored[name].clone()  # the file may be written over
            tables[id(parameter)] = QuantizedTable(codes, scale, offset, dtype)
        else:
            others[id(parameter)] = nn.Parameter(
                _values(stored, name).to(dtype), requires_grad=False
            )
    for parent in list(module.modules()):
        for key, child in list(parent.named_children()):
            if isinstance(child, nn.Embedding):
                setattr(parent, key, tables[id(child.weight)])
    # what parts of the network share stays shared
    named = module.named_parameters(remove_duplicate=False)
    module.load_state_dict(
        {name: others[id(parameter)] for name, parameter in named}, strict=False, assign=True
    )


def _values(stored: Mapping[str, Tensor], name: str) -> Tensor:
    """Return the values of a parameter that is not a table."""
    scale = stored.get(name + SCALE)
    return stored[name] if scale is None else stored[name].float() * scale[:, None]


def check_fit(module: nn.Module, weights: Sequence[Path], scheme: Scheme | None) -> None:
    """Raise InputError unless a folder's files have the parameters of a network.

    The network may be built `on_meta_device`. Only the headers are read: a network that the files
    do not fill takes no memory.
    """
    tables = set(table_names(module)) if scheme is not None else set()
    rows = row_names(module, scheme)
    half = torch.float32 if scheme is None else HALVES[scheme.half]
    expected: dict[str, str] = {}
    for name, parameter in module.named_parameters():
        kind = torch.uint8 if name in tables else torch.int8 if name in rows else half
        expected[name] = _kind(kind, parameter.shape)
        if name in tables:
            expected |= {name + end: _kind(torch.float32, ()) for end in (SCALE, OFFSET)}
        elif name in rows:
            expected[name + SCALE] = _kind(torch.float32, parameter.shape[:1])
    stored = stored_tensors(weights)
    actual = {name: f"{kind} {tuple(shape)}" for name, (kind, shape) in stored.items()}
    for name in sorted(actual.keys() | expected.keys()):
        if actual.get(name) != expected.get(name):
            raise InputError(
                f"{weights[0].parent}: the weights do not fit the configuration:"
                f" {name} is {actual.get(name, 'missing')},"
                f" not {expected.get(name, 'to be there')}; copy the model folder again"
            )


def _read(module: nn.Module, weights: Sequence[Path], scheme: Scheme | None) -> dict[str, Tensor]:
    check_fit(module, weights, scheme)
    return {name: tensor for path in weights for name, tensor in load_file(path).items()}


def _kind(dtype: torch.dtype, shape: Sequence[int]) -> str:
    return f"{str(dtype).removeprefix('torch.')} {tuple(shape)}"
