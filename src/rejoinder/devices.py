"""Devices that networks compute on: their names, precision, layout of batches, and copies to them.

A processor and a card want different batches. On a processor padding costs more than another call,
on a card a call costs more than padding, and waiting for it more than both (`networks.packing`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from rejoinder.errors import InputError
from rejoinder.forks import compute_alone_in_children

compute_alone_in_children()  # here since every model that PyTorch computes needs this module

T = TypeVar("T")

CPU = torch.device("cpu")
PROCESSOR_TOKENS = 4096  # computed at once: full speed, and the activations stay in the cache
CARD_TOKENS = 1 << 17  # computed at once: a few gigabytes of activations of BERT-base
ALIGNED = 16  # bytes to which each tensor of a copied batch is aligned


def find_device(name: str) -> torch.device:
    """Return a device by its name in PyTorch, or the best one for "auto".

    Raises:
        InputError: it has no such name, or this machine, or this build of PyTorch, has none.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise InputError(
            f"device {name!r} cannot be used:"
            " it is none of PyTorch's, such as 'auto', 'cpu', 'cuda', 'cuda:1', 'mps'"
        ) from None
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        # PyTorch's, built without it or where there is none
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} cannot be used: {reason}; 'cpu' always can") from error
    return device


def half_precision(device: torch.device) -> str:
    """Return the 16-bit type that a card multiplies in hardware: "bf16", else "fp16"."""
    if device.type != "cuda":
        return "fp16"
    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"


def uses_segments(device: torch.device) -> bool:
    """Return whether texts are cut into segments of one length; see `networks.packing`."""
    return device.type == "cpu"


def segment_cost(device: torch.device, tokens: int) -> int | None:
    """Return what `packing.pack` takes: on a processor the cost of a segment in tokens."""
    return tokens if uses_segments(device) else None


def chunk_tokens(device: torch.device) -> int:
    """Return how many tokens are encoded at once."""
    return PROCESSOR_TOKENS if device.type == "cpu" else CARD_TOKENS


def runs_ahead(device: torch.device) -> bool:
    """Return whether a device still computes when a call has returned."""
    return device.type != "cpu"


def synchronize(device: torch.device) -> None:
    """Wait until a device has done its work, copies to the CPU included."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def move(batch: T, device: torch.device) -> T:
    """Return a batch, of frozen dataclasses, with all its tensors on a device.

    They are copied together, from pinned memory, and nothing waits for the copy.
    """
    if device.type == "cpu":
        return batch
    tensors = list(_tensors(batch))
    ends = []
    size = 0
    for tensor in tensors:
        size += -(-tensor.nbytes // ALIGNED) * ALIGNED
        ends.append(size)
    buffer = torch.empty(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
    for tensor, view in zip(tensors, _views(buffer, tensors, ends), strict=True):
        view.copy_(tensor)
    copied = buffer.to(device, non_blocking=True)
    moved: T = _with_tensors(batch, iter(_views(copied, tensors, ends)))
    return moved


def fill(batch: T, other: T) -> None:
    """Copy the tensors of a batch into those of another one with the same shapes, on a device."""
    torch._foreach_copy_(list(_tensors(batch)), list(_tensors(other)))  # one call for each type


def shapes(batch: object) -> tuple[tuple[object, ...], ...]:
    """Return shape and type of each of a batch's tensors."""
    return tuple((*tensor.shape, tensor.dtype) for tensor in _tensors(batch))


def _views(buffer: Tensor, tensors: list[Tensor], ends: list[int]) -> list[Tensor]:
    """Return the places of tensors in a buffer of bytes, in their types and shapes."""
    views = []
    start = 0
    for tensor, end in zip(tensors, ends, strict=True):
        piece = buffer[start : start + tensor.nbytes]
        views.append(piece.view(tensor.dtype).view(tensor.shape))
        start = end
    return views


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _tensors(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _tensors(item)


def _with_tensors(value: Any, tensors: Iterator[Tensor]) -> Any:
    """Return a value whose tensors are replaced, in the order of `_tensors`."""
    if isinstance(value, Tensor):
        return next(tensors)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        fields = {name: _with_tensors(getattr(value, name), tensors) for name in names}
        return dataclasses.replace(value, **fields)
    if isinstance(value, Mapping):
        return {name: _with_tensors(item, tensors) for name, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_with_tensors(item, tensors) for item in value)
    return value
