"""The state of a run in one file of tensors and JSON.

It is replaced in one step, so that killing the process at any moment loses only what came after the last checkpoint.
Random generators are not in it: dropout and the order of examples are functions of the seed and the step.
"""

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

from rejoinder.errors import InputError
from rejoinder.files import DIGEST, atomic_file, parse_json
from rejoinder.training.state import RunState

FORMAT = 3
UNSIGNED = 2
"""Format of checkpoints without a digest, which earlier versions wrote."""


def save_checkpoint(
    path: Path,
    state: RunState,
    module: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    scaler: Mapping[str, Any],
) -> None:
    """Write all that is needed to go on bit for bit.

    Args:
        path: the file; the one before stays until this one is whole.
        state: where the run stands.
        module: its parameters and buffers are written.
        optimizer: its state is written; None between stages.
        scaler: state of the loss scaling, empty without.
    """
    tensors = {f"weights/{name}": value for name, value in _named(module).items()}
    if optimizer is not None:
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        for parameter, values in optimizer.state.items():
            tensors |= {
                f"optimizer/{key}/{names[id(parameter)]}": value
                for key, value in values.items()
                if isinstance(value, Tensor)
            }
    content = {"format": FORMAT, "state": dataclasses.asdict(state), "scaler": dict(scaler)}
    whole = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    text = json.dumps(content)
    with atomic_file(path) as part:
        save_file(whole, part, {"checkpoint": text, DIGEST: tensor_digest(whole, text)})


def tensor_digest(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """SHA-256 of a text and of tensors in main memory: names, types, shapes and numbers."""
    digest = hashlib.sha256(text.encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


@dataclass
class LoadedCheckpoint:
    """A checkpoint that has been read.

    Attributes:
        state: where the run stood.
        tensors: by name, see `save_checkpoint`.
        scaler: state of the loss scaling.
    """

    state: RunState
    tensors: dict[str, Tensor]
    scaler: dict[str, Any]

    def restore_module(self, module: nn.Module) -> None:
        """Give the module its parameters and buffers back."""
        with torch.no_grad():
            for name, value in _named(module).items():
                value.copy_(self.tensors[f"weights/{name}"])

    def restore_optimizer(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Give a new optimiser the state of the old one."""
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        order = [names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in self.tensors.items():
            kind, _, rest = key.partition("/")
            if kind == "optimizer":
                entry, _, name = rest.partition("/")
                state.setdefault(order.index(name), {})[entry] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def load_checkpoint(path: Path) -> LoadedCheckpoint | None:
    """Read a checkpoint; None if there is none.

    Raises:
        InputError: the file is damaged, or of another version.
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            content = parse_json(metadata["checkpoint"])
            if content["format"] not in (FORMAT, UNSIGNED):
                raise ValueError(f"format {content['format']}, this version reads {FORMAT}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        unsigned = content["format"] == UNSIGNED and DIGEST not in metadata
        if not unsigned and metadata[DIGEST] != tensor_digest(tensors, metadata["checkpoint"]):
            raise ValueError("it was altered after it was written")
        return LoadedCheckpoint(RunState(**content["state"]), tensors, content["scaler"])
    except (SafetensorError, ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{path}: not a whole checkpoint ({error}); delete the run's folder to start again") from None


def _named(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, those that several parts share once."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}
