"""Where and how a run computes: device, precision, loss scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial

import torch

from rejoinder.errors import InputError
from rejoinder.networks.quantization import Half
from rejoinder.processor import has_fast_bfloat16
from rejoinder.training.distributed import launch_place
from rejoinder.training.recipe import Compute, Quantization


@dataclass(frozen=True)
class Machine:
    """Where and how a run computes."""

    device: torch.device
    precision: str  # "fp32", "bf16" or "fp16"
    scaler: torch.amp.GradScaler  # multiplies the loss in fp16, so that small gradients survive

    autocast: Callable[[], AbstractContextManager[object]] = field(init=False)
    """Casts products to 16 bits, if the precision says so; weights stay float32."""

    def __post_init__(self) -> None:
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.precision)
        cast = nullcontext if dtype is None else partial(torch.autocast, self.device.type, dtype)
        object.__setattr__(self, "autocast", cast)


def set_up(compute: Compute, quantization: Quantization) -> Machine:
    """Resolve device and precision for this process; refuse what the machine cannot do."""
    if compute.threads:
        torch.set_num_threads(compute.threads)
    kind = choose_device(compute.device)
    device = torch.device(kind)
    if kind == "cuda":
        place = launch_place()
        devices = torch.cuda.device_count()
        if place["LOCAL_WORLD_SIZE"] > devices:
            raise InputError(
                f"{place['LOCAL_WORLD_SIZE']} processes were started on this machine with {devices}"
                " CUDA devices; start at most one process for each, or set compute.device = 'cpu'"
            )
        device = torch.device(kind, place["LOCAL_RANK"])
        torch.cuda.set_device(device)
    precision = choose_precision(compute.precision, kind)
    return Machine(device, precision, loss_scaler(kind, precision, quantization))


def choose_device(wanted: str) -> str:
    """Resolve "auto": CUDA where there is a device."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "compute.device = 'cuda', but PyTorch sees no CUDA device; use 'auto' or 'cpu'"
        )
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return wanted


def choose_precision(wanted: str, device: str) -> str:
    """Resolve "auto": the fastest that the device has instructions for."""
    if wanted == "fp16" and device == "cpu":
        raise InputError(
            "compute.precision = 'fp16' needs a CUDA device; on a CPU use 'bf16', 'fp32' or 'auto'"
        )
    if wanted != "auto":
        return wanted
    if device == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    return "bf16" if has_fast_bfloat16() else "fp32"


def loss_scaler(device: str, precision: str, quantization: Quantization) -> torch.amp.GradScaler:
    """Scale the loss in fp16 as PyTorch does.

    With quantisation it starts at the recipe's factor (CONVERT: 128) and falls.
    """
    if precision != "fp16":
        return torch.amp.GradScaler(device, enabled=False)
    if quantization.enabled:
        return torch.amp.GradScaler(
            device, init_scale=quantization.loss_scale, growth_interval=2**31 - 1
        )
    return torch.amp.GradScaler(device)


def choose_half(config: Quantization, precision: str) -> Half:
    """Resolve "auto": bfloat16 for a run in bf16, else float16.

    The former's products round to it anyway.
    """
    if config.half != "auto":
        return config.half
    return "bfloat16" if precision == "bf16" else "float16"


@contextmanager
def without_denormals() -> Iterator[None]:
    """Take denormals for zero.

    Rare tokens' averages decay into them, and computing with them is 20 times slower.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
