"""Optimisers with rates per group of parameters, and clipping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from rejoinder.errors import InputError
from rejoinder.models.layers import Encodings
from rejoinder.models.packing import TokenBatch
from rejoinder.training.learned_scale import GROUP, groups_of
from rejoinder.training.recipe import Adadelta, Adagrad, Adam, Optimizer, Sgd, Stage
from rejoinder.training.row_updates import (
    RowAdadelta,
    RowAdagrad,
    RowAdam,
    RowAdamax,
    RowAdamW,
    RowSgd,
    coalesce,
)


class TrainableEncoder(Protocol):
    """All that training knows of a model: a dual encoder whose trunk has blocks that can be skipped."""

    output_size: int
    padding_id: int

    @property
    def blocks(self) -> nn.ModuleList:
        """The trunk's blocks, from below."""
        ...

    @property
    def embedding(self) -> nn.Module:
        """The token table, or tables. A table's gradient may be sparse."""
        ...

    def encode_pairs(self, batch: TokenBatch, pairs: int, histories: Tensor) -> Encodings:
        """Encode K inputs, the histories of the pairs whose numbers are given, and the responses, in this order."""
        ...

    def encode(self, batch: TokenBatch, side: str) -> Tensor:
        """Encode texts of one side, "context" or "response"; rows of unit length."""
        ...

    def set_active_blocks(self, count: int) -> None:
        """Compute and train only the first `count` blocks."""
        ...

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """All parameters, each once, by the part they belong to."""
        ...

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Parameters that weight decay leaves out."""
        ...


def prepare_stage(module: TrainableEncoder, stage: Stage) -> None:
    """Switch blocks on or off and freeze the groups whose rate is 0.

    Raises:
        InputError: the stage names blocks or groups that the model does not have.
    """
    blocks = len(module.blocks)
    if stage.active_blocks != "all" and stage.active_blocks > blocks:
        raise InputError(f"stage '{stage.name}': active_blocks = {stage.active_blocks}, but the model has {blocks}")
    groups = groups_of(module)
    unknown = [name for name in stage.rates if name not in groups]
    if unknown:
        raise InputError(
            f"stage '{stage.name}': no parameters are called '{unknown[0]}' in rates; allowed: {', '.join(groups)}"
        )
    for parameter in (parameter for group in groups.values() for parameter in group):
        parameter.requires_grad_(True)
    module.set_active_blocks(blocks if stage.active_blocks == "all" else stage.active_blocks)
    _freeze_below(module, stage, groups)
    for parameter in (parameter for name in stage.rates if stage.rate(name) == 0 for parameter in groups[name]):
        parameter.requires_grad_(False)


def _freeze_below(module: TrainableEncoder, stage: Stage, groups: Mapping[str, list[nn.Parameter]]) -> None:
    """Freeze everything below the top blocks that the stage trains."""
    if stage.trained_blocks == "all":
        return
    active = len(module.blocks) if stage.active_blocks == "all" else stage.active_blocks
    if stage.trained_blocks > active:
        given = f"trained_blocks = {stage.trained_blocks}"
        raise InputError(f"stage '{stage.name}': {given}, but only {active} are computed")
    module.blocks[: active - stage.trained_blocks].requires_grad_(False)
    for parameter in (parameter for name in ("embedding", "position") for parameter in groups.get(name, ())):
        parameter.requires_grad_(False)


def build_optimizer(module: TrainableEncoder, stage: Stage) -> torch.optim.Optimizer:
    """The stage's optimiser over everything that it trains; each group's `rate` is its factor of the learning rate."""
    excluded = module.no_decay_parameters() | set(groups_of(module).get(GROUP, []))
    groups: list[dict[str, Any]] = []
    for name, parameters in groups_of(module).items():
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        for decayed in (True, False):
            chosen = [parameter for parameter in trained if (parameter not in excluded) == decayed]
            if chosen:
                decay = stage.optimizer.weight_decay if decayed else 0.0
                groups.append({"params": chosen, "rate": stage.rate(name), "weight_decay": decay})
    if not groups:
        raise InputError(f"stage '{stage.name}': all parameters are frozen, so there is nothing to train")
    return _optimizer(stage.optimizer, groups, stage.learning_rate)


def _all_on_cpu(groups: list[dict[str, Any]]) -> bool:
    return all(parameter.device.type == "cpu" for group in groups for parameter in group["params"])


_ADAMS: Mapping[str, Any] = {"adam": RowAdam, "adamw": RowAdamW, "adamax": RowAdamax}


def _optimizer(config: Optimizer, groups: list[dict[str, Any]], rate: float) -> torch.optim.Optimizer:
    match config:
        case Adadelta():
            return RowAdadelta(groups, lr=rate, rho=config.rho, eps=config.epsilon)
        case Adagrad():
            return RowAdagrad(groups, lr=rate, eps=config.epsilon)
        case Sgd():
            return RowSgd(groups, lr=rate, momentum=config.momentum, nesterov=config.nesterov)
        case Adam():
            # PyTorch's one-pass form is five times as fast on a CPU; Adamax has none.
            fused = {"fused": True} if config.kind != "adamax" and _all_on_cpu(groups) else {}
            return _ADAMS[config.kind](groups, lr=rate, betas=config.betas, eps=config.epsilon, **fused)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group the rate times its own factor."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate"]


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float) -> Tensor | None:
    """Scale the gradients down so that their common norm is at most `limit`; a shorter one stays bit-equal.

    Returns:
        The norm before, or None if no parameter has a gradient.
    """
    gradients = [_numbers(parameter) for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return None
    norm = torch.linalg.vector_norm(torch.stack(list(torch._foreach_norm(gradients))))
    if norm.device.type != "cpu":  # no waiting for the device
        torch._foreach_mul_(gradients, (limit / norm).clamp(max=1.0))
    elif norm > limit:
        torch._foreach_mul_(gradients, limit / float(norm))
    return norm


def _numbers(parameter: nn.Parameter) -> Tensor:
    """The gradient of a parameter; of a sparse one its rows, which can be changed in place."""
    assert parameter.grad is not None
    return coalesce(parameter)._values() if parameter.grad.is_sparse else parameter.grad
