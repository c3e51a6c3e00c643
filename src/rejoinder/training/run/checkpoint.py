"""Checkpoints of a run: all that is needed to go on bit for bit, in one file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from rejoinder.digests import DIGEST
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.json_parsing import parse_json
from rejoinder.training.run.state import RunState

_FORMAT = 3


@dataclass
class LoadedCheckpoint:
    """A checkpoint in memory."""

    state: RunState
    tensors: dict[str, Tensor]  # "weights/NAME" and "optimizer/ENTRY/NAME"
    scaler: dict[str, Any]  # state of the loss scaling

    def restore_module(self, module: nn.Module) -> None:
        """Copy parameters and buffers into the module."""
        with torch.no_grad():
            for name, value in named_tensors(module).items():
                value.copy_(self.tensors[f"weights/{name}"])

    def restore_optimizer(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Give a new optimiser the state of the old one."""
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        order = [
            names[id(parameter)]
            for group in optimizer.param_groups
            for parameter in group["params"]
        ]
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in self.tensors.items():
            kind, _, rest = key.partition("/")
            if kind == "optimizer":
                entry, _, name = rest.partition("/")
                state.setdefault(order.index(name), {})[entry] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def save_checkpoint(
    path: Path,
    state: RunState,
    module: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    scaler: Mapping[str, Any],
) -> None:
    """Write all that is needed to go on bit for bit; between stages there is no optimiser."""
    tensors = {f"weights/{name}": value for name, value in named_tensors(module).items()}
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    for parameter, values in optimizer.state.items() if optimizer is not None else ():
        for key, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer/{key}/{names[id(parameter)]}"] = value
    whole = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    text = json.dumps(
        {"format": _FORMAT, "state": dataclasses.asdict(state), "scaler": dict(scaler)}
    )
    with atomic_file(path) as part:
        save_file(whole, part, {"checkpoint": text, DIGEST: _digest(whole, text)})


def load_checkpoint(path: Path) -> LoadedCheckpoint | None:
    """Read a checkpoint, if there is one; refuse a damaged one, and those of other versions."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            content = parse_json(metadata["checkpoint"])
            if content["format"] != _FORMAT:
                raise ValueError(f"format {content['format']}, this version reads {_FORMAT}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        if metadata[DIGEST] != _digest(tensors, metadata["checkpoint"]):
            raise ValueError("it was altered after it was written")
        return LoadedCheckpoint(RunState(**content["state"]), tensors, content["scaler"])
    except (SafetensorError, ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(
            f"{path}: not a whole checkpoint ({error}); delete the run's folder to start again"
        ) from None


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """Return the SHA-256 of a text and of tensors in main memory."""
    digest = hashlib.sha256(text.encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name, shared ones once."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}
