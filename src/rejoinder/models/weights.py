"""Weights between files and networks: in float32, or, in a quantised model folder, in few bits.

In the safetensors file of a quantised folder a table's parameter NAME is uint8 and stands beside NAME.scale and
NAME.offset, float32 without dimensions: value = code · scale + offset; everything else is 16-bit floats. Opened for
encoding, tables stay in 8 bits, and a row is turned into floats when it is looked up. To train on, or for other forms
of the model, the same values become an ordinary network in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.overrides import TorchFunctionMode

from rejoinder.errors import InputError
from rejoinder.models.quantization import HALVES, Half, Scheme, bounds_of, step_of, table_names, to_codes

SCALE, OFFSET = ".scale", ".offset"
"""What is added to a table's name for the two numbers beside it."""


PIECE_ROWS = 1 << 13
"""Rows of an 8-bit table turned into floats at once."""


@contextmanager
def skeleton() -> Iterator[None]:
    """Let a network that is built inside take neither memory nor time: its parameters are on the meta device.

    Initial values are not drawn either. On the meta device there is nothing to draw, but PyTorch would import a
    symbolic mathematics library for it: several seconds and 80 MB, more than a small model's weights.
    """
    with torch.device("meta"), _WithoutInitialValues():
        yield


class _WithoutInitialValues(TorchFunctionMode):
    """Leaves out everything of `torch.nn.init`, and drawing random numbers in place."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"]
        if func in (Tensor.normal_, Tensor.uniform_):
            return args[0]
        return func(*args, **kwargs)


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


def half_for(module: nn.Module) -> Half:
    """Return the 16-bit float for a network that was not trained for one: float16, the more precise, if it fits."""
    largest = torch.finfo(torch.float16).max
    fits = all(bool(parameter.detach().abs().max() <= largest) for parameter in module.parameters())
    return "float16" if fits else "bfloat16"


def quantized_tensors(module: nn.Module, scheme: Scheme) -> dict[str, Tensor]:
    """Return the tensors of the quantised folder of a network.

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


def fill(module: nn.Module, weights: Path, scheme: Scheme | None) -> None:
    """Give a network in float32 the parameters of a folder: of a quantised one the rounded values.

    Args:
        module: the network.
        weights: the folder's safetensors file.
        scheme: the quantised folder's; None: the folder is in float32.

    Raises:
        InputError: the file is damaged, or of another network.
    """
    stored = _read(module, weights, scheme)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name + SCALE not in stored:
                parameter.copy_(stored[name])
                continue
            scale, offset = (float(stored[name + end]) for end in (SCALE, OFFSET))
            # By pieces: a second whole table costs memory, and frees a block that glibc never keeps for reuse.
            for codes, rows in zip(stored[name].split(PIECE_ROWS), parameter.split(PIECE_ROWS), strict=True):
                rows.copy_(codes.float().mul_(scale).add_(offset))  # the very operations of `QuantizedTable`


def fill_skeleton(module: nn.Module, weights: Path, scheme: Scheme, dtype: torch.dtype) -> None:
    """Give a network without numbers (see `skeleton`) the parameters of a quantised folder, tables in 8 bits.

    Args:
        module: the network; its tables become `QuantizedTable`s.
        weights: the folder's safetensors file.
        scheme: the folder's.
        dtype: what everything but the tables is computed in, and what the tables' rows come out as.

    Raises:
        InputError: the file is damaged, or of another network.
    """
    stored = _read(module, weights, scheme)
    tables: dict[int, QuantizedTable] = {}
    others: dict[int, nn.Parameter] = {}
    for name, parameter in module.named_parameters():
        if name + SCALE in stored:
            scale, offset = (float(stored[name + end]) for end in (SCALE, OFFSET))
            codes = stored[name].clone()  # the file may be written over
            tables[id(parameter)] = QuantizedTable(codes, scale, offset, dtype)
        else:
            others[id(parameter)] = nn.Parameter(stored[name].to(dtype), requires_grad=False)
    for parent in list(module.modules()):
        for key, child in list(parent.named_children()):
            if isinstance(child, nn.Embedding):
                setattr(parent, key, tables[id(child.weight)])
    named = module.named_parameters(remove_duplicate=False)  # what parts of the network share stays shared
    module.load_state_dict({name: others[id(parameter)] for name, parameter in named}, strict=False, assign=True)


def _read(module: nn.Module, weights: Path, scheme: Scheme | None) -> dict[str, Tensor]:
    """Read a file whose tensors must be those of a network."""
    try:
        stored = load_file(weights)
    except SafetensorError as error:
        raise InputError(f"{weights} is damaged ({error}); copy the model folder again") from error
    tables = set(table_names(module)) if scheme is not None else set()
    half = torch.float32 if scheme is None else HALVES[scheme.half]
    expected: dict[str, str] = {}
    for name, parameter in module.named_parameters():
        expected[name] = _kind(torch.uint8 if name in tables else half, parameter.shape)
        if name in tables:
            expected |= {name + end: _kind(torch.float32, ()) for end in (SCALE, OFFSET)}
    given = {name: _kind(value.dtype, value.shape) for name, value in stored.items()}
    for name in sorted(given.keys() | expected.keys()):
        if given.get(name) != expected.get(name):
            raise InputError(
                f"{weights} does not fit its configuration: {name} is {given.get(name, 'missing')}, not "
                f"{expected.get(name, 'to be there')}; copy the model folder again"
            )
    return stored


def _kind(dtype: torch.dtype, shape: Sequence[int]) -> str:
    return f"{str(dtype).removeprefix('torch.')} {tuple(shape)}"


def parameter_shapes(weights: Path) -> dict[str, list[int]]:
    """Return the shapes of a file's parameters by name. Reads no weights."""
    try:
        with safe_open(weights, framework="pt") as file:
            names = [name for name in file.keys() if not name.endswith((SCALE, OFFSET))]  # noqa: SIM118
            return {name: file.get_slice(name).get_shape() for name in names}
    except SafetensorError as error:
        raise InputError(f"{weights} is damaged ({error}); copy the model folder again") from error


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a model: the columns of the paper's table of models (CONVERT, Table 2).

    Attributes:
        embedding_parameters: numbers in the tables that are looked up.
        network_parameters: all other numbers.
        fp32_bytes: of all in float32.
        quantized_bytes: of the tables in 8 bits, with scale and offset, and the others in 16.
    """

    embedding_parameters: int
    network_parameters: int
    fp32_bytes: int
    quantized_bytes: int


def count(shapes: Mapping[str, Sequence[int]], tables: Collection[str]) -> Sizes:
    """Return the sizes of a network.

    Args:
        shapes: shape of each parameter by name.
        tables: the names that are tables.
    """
    embedding = sum(math.prod(shape) for name, shape in shapes.items() if name in tables)
    network = sum(math.prod(shape) for name, shape in shapes.items() if name not in tables)
    scales_and_offsets = 8 * len(tables)
    return Sizes(embedding, network, 4 * (embedding + network), embedding + 2 * network + scales_and_offsets)
