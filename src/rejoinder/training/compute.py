"""Device and precision: what the recipe asks for, resolved for this machine, through Lightning Fabric."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from rejoinder.errors import InputError, MissingExtraError
from rejoinder.processor import has_fast_bfloat16
from rejoinder.training.distributed import started_with
from rejoinder.training.recipe import Compute

PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
"""Fabric's names: bf16 and fp16 keep float32 weights and cast for the products."""


def choose_device(wanted: str) -> str:
    """Resolve "auto", "cpu" or "cuda"; "auto" is CUDA where there is a device.

    Raises:
        InputError: CUDA is asked for and there is none.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError("compute.device = 'cuda', but PyTorch sees no CUDA device; use 'auto' or 'cpu'")
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return wanted


def choose_precision(wanted: str, device: str) -> str:
    """Resolve "auto", "fp32", "bf16" or "fp16"; "auto" is the fastest that the device has instructions for.

    Raises:
        InputError: fp16 is asked for on a CPU, where products of half floats have no loss scaling to rely on.
    """
    if wanted == "fp16" and device == "cpu":
        raise InputError("compute.precision = 'fp16' needs a CUDA device; on a CPU use 'bf16', 'fp32' or 'auto'")
    if wanted != "auto":
        return wanted
    if device == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    return "bf16" if has_fast_bfloat16() else "fp32"


def set_up(compute: Compute) -> tuple[Any, str]:
    """A Fabric for one process, and the name of the precision it computes in.

    Raises:
        MissingExtraError: lightning-fabric is not installed.
        InputError: the machine cannot do what the recipe asks for.
    """
    try:
        from lightning_fabric import Fabric
    except ImportError:
        raise MissingExtraError("training", "train") from None
    if compute.threads:
        torch.set_num_threads(compute.threads)
    device = choose_device(compute.device)
    precision = choose_precision(compute.precision, device)
    return Fabric(accelerator=device, devices=_devices(device), precision=PRECISIONS[precision]), precision


def _devices(device: str) -> int | list[int]:
    """Which device of its kind this process computes on, as Fabric takes it."""
    place = started_with()
    if device == "cpu" or place["WORLD_SIZE"] == 1:
        return 1
    here, there_are = place["LOCAL_WORLD_SIZE"], torch.cuda.device_count()
    if here > there_are:
        raise InputError(
            f"{here} processes were started on this machine, but PyTorch sees {there_are} CUDA devices there; start at "
            "most one process for each, or set compute.device = 'cpu'"
        )
    return [place["LOCAL_RANK"]]


@contextmanager
def without_denormals() -> Iterator[None]:
    """Take numbers too small for a full mantissa for zero while training.

    The running averages of rare tokens' gradients decay through that range for hundreds of steps, and processors
    compute with such numbers twenty times more slowly.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
