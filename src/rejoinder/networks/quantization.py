"""Training for few bits (CONVERT, "quantization aware training").

Every `nn.Embedding` gets 8 bits, everything else 16. In training, both passes see rounded copies,
and the optimiser moves the float32 originals (the paper's shadow copies). In a quantised folder a
table NAME is uint8 beside NAME.scale and NAME.offset: value = code · scale + offset. Where asked
for, weights of linear layers have 8 bits too: int8 beside one scale for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.overrides import TorchFunctionMode

from rejoinder.errors import InputError
from rejoinder.safetensors_files import OFFSET as OFFSET
from rejoinder.safetensors_files import SCALE as SCALE
from rejoinder.safetensors_files import parameter_shapes as parameter_shapes
from rejoinder.safetensors_files import stored_tensors

Half: TypeAlias = Literal["bfloat16", "float16"]
"""A 16-bit float: 8 bits of precision and the range of float32, or 11 bits and numbers up to
65,504."""

HALVES: Mapping[Half, torch.dtype] = {"bfloat16": torch.bfloat16, "float16": torch.float16}
STEPS = 255  # steps from the lowest of 256 levels to the highest

PIECE_ROWS = 1 << 13  # rows of an 8-bit table turned into floats at once

ROOM_SHARE = 0.1
ROOM_LEAST = 0.01
"""Room of a trained table's levels below and above its values: a share of their range, and the
least (CONVERT)."""

LARGEST = 127  # code of a row of a linear layer's weights
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


@contextmanager
def on_meta_device() -> Iterator[None]:
    """Build networks inside on the meta device.

    They have no initial values and take neither memory nor time. To draw these PyTorch would import
    a symbolic mathematics library: several seconds and 80 MB.
    """
    with torch.device("meta"), _WithoutInitialValues():
        yield


class _WithoutInitialValues(TorchFunctionMode):
    """Leaves out everything of `torch.nn.init`, and drawing random numbers in place."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"]
        if func in (Tensor.normal_, Tensor.uniform_):
            return args[0]
        return func(*args, **kwargs)


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
