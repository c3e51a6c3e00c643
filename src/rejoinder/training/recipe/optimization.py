"""Optimisation of a stage: its parameters, the optimiser, clipping and the learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from rejoinder.errors import InputError
from rejoinder.networks.layers import TRAINING_PREFIX
from rejoinder.training.recipe.budgets import WARM_UP_SHARE
from rejoinder.training.recipe.stages import (
    Cosine,
    InverseSqrt,
    Plateau,
    Schedule,
    Stage,
    Step,
)

RULES: dict[str, Any] = {
    "adadelta": torch.optim.Adadelta,
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adamax": torch.optim.Adamax,
}


def prepare_stage(module: Any, stage: Stage) -> None:
    """Switch blocks on or off and freeze what the stage does not train."""
    blocks = len(module.blocks)
    active = blocks if stage.active_blocks == "all" else stage.active_blocks
    if active > blocks:
        raise InputError(
            f"stage '{stage.name}': active_blocks = {active}, but the model has {blocks}"
        )
    groups = _groups(module)
    unknown = [name for name in stage.rates if name not in groups]
    if unknown:
        raise InputError(
            f"stage '{stage.name}': no parameters are called '{unknown[0]}' in rates;"
            f" allowed: {', '.join(groups)}"
        )
    _learn(groups.values(), True)
    module.set_active_blocks(active)
    if stage.trained_blocks != "all":
        if stage.trained_blocks > active:
            raise InputError(
                f"stage '{stage.name}': trained_blocks = {stage.trained_blocks},"
                f" but only {active} are computed"
            )
        module.blocks[: active - stage.trained_blocks].requires_grad_(False)
        _learn((groups.get(name, []) for name in ("embedding", "position")), False)
    _learn((groups[name] for name in stage.rates if stage.rate(name) == 0), False)


def _learn(groups: Iterable[Iterable[nn.Parameter]], wanted: bool) -> None:
    for group in groups:
        for parameter in group:
            parameter.requires_grad_(wanted)


def _groups(module: Any) -> dict[str, list[nn.Parameter]]:
    training_only = _of_training(module)
    # a model whose last group is "all the others" counts them too
    theirs = set().union(*training_only.values())
    own = {
        name: [p for p in parameters if p not in theirs]
        for name, parameters in module.parameter_groups().items()
    }
    return own | training_only


def _of_training(module: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Return the parameters of training alone by their names in `rates`: "scale", "vectors"."""
    children = (
        (name, child) for name, child in module.named_children() if name.startswith(TRAINING_PREFIX)
    )
    return {
        name.removeprefix(TRAINING_PREFIX): list(child.parameters()) for name, child in children
    }


def build_optimizer(module: Any, stage: Stage) -> torch.optim.Optimizer:
    """Build the stage's optimiser over what it trains.

    Each group's `rate` is its factor of the learning rate.
    """
    excluded = module.no_decay_parameters().union(*_of_training(module).values())
    alike: dict[tuple[float, float], list[nn.Parameter]] = {}  # fewer groups are fewer calls
    for name, parameters in _groups(module).items():
        for parameter in parameters:
            decay = 0.0 if parameter in excluded else stage.optimizer.weight_decay
            if parameter.requires_grad:
                alike.setdefault((stage.rate(name), decay), []).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": chosen, "rate": rate, "weight_decay": decay}
        for (rate, decay), chosen in alike.items()
    ]
    if not groups:
        raise InputError(
            f"stage '{stage.name}': all parameters are frozen, so there is nothing to train"
        )
    rule = RULES[stage.optimizer.kind]
    options = {
        field: value for field, value in vars(stage.optimizer).items() if field in ("rho", "betas")
    }
    devices = {parameter.device.type for group in groups for parameter in group["params"]}
    if stage.optimizer.kind in ("adam", "adamw") and devices <= {"cpu", "cuda"}:
        # one call on a card, five times as fast on a CPU; others have no such form, and PyTorch
        # updates all their parameters together on a card
        options["fused"] = True
    by_rows: Any = type(f"Row{rule.__name__}", (_RowUpdates, rule), {"rule": rule})
    return by_rows(groups, lr=stage.learning_rate, **options)


class _RowUpdates(torch.optim.Optimizer):
    """Updates a table with a sparse gradient in the rows of the batch alone.

    Mixed in before one of PyTorch's rules. The rows are copied out, updated by the rule as if they
    were the whole parameter, and written back. The running averages of a row, and its weight decay,
    stand still while the row is in no batch ("lazy" updates). `torch.optim.SparseAdam`, for Adam
    without decay, takes 1.3 to 1.6 times as long (60,000 rows of 128).
    """

    rule: type[Any]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update all parameters that have a gradient.

        The sparse ones' gradients are gone afterwards.
        """
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    self._update_rows(group, parameter)
                    parameter.grad = None  # which PyTorch's optimisers pass over
        super().step()
        return loss

    def _update_rows(self, group: dict[str, Any], table: nn.Parameter) -> None:
        """Update only the rows of a table that have a gradient."""
        assert table.grad is not None
        gradient = table.grad.coalesce()
        rows = gradient.indices()[0]
        part = nn.Parameter(table[rows])
        part.grad = gradient.values()
        small = self.rule([{**group, "params": [part]}])
        whole = self.state[table]
        if whole:
            small.state[part] = {
                key: value[rows] if _like(value, table) else value for key, value in whole.items()
            }
        small.step()
        table[rows] = part.detach()
        for key, value in small.state[part].items():
            if _like(value, part):
                if key not in whole:  # no setdefault, which would fill a new table at every step
                    whole[key] = torch.zeros_like(table)
                whole[key][rows] = value
            elif value is not None:
                whole[key] = value


def _like(value: object, parameter: Tensor) -> bool:
    return isinstance(value, Tensor) and value.shape == parameter.shape


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group the rate times its own factor."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate"]


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float) -> Tensor | None:
    """Scale gradients, sparse ones too, down to a common norm of at most `limit`.

    Return the norm before, if any.
    """
    learning = [parameter for parameter in parameters if parameter.grad is not None]
    if not learning:
        return None
    sparse = any(p.grad is not None and p.grad.is_sparse for p in learning)
    gradients = [_numbers(parameter) for parameter in learning]
    norm = torch.nn.utils.get_total_norm(gradients)
    if norm.device.type == "cuda" and not sparse:
        # all in a few calls, and nothing waits for the norm
        torch.nn.utils.clip_grads_with_norm_(learning, limit, norm)
    elif norm.device.type != "cpu" or norm > limit:
        factor = (limit / norm).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor)
    return norm


def _numbers(parameter: nn.Parameter) -> Tensor:
    """Return the gradient of a parameter.

    Of a sparse one it is its rows, which can be changed in place.
    """
    assert parameter.grad is not None
    if not parameter.grad.is_sparse:
        return parameter.grad
    parameter.grad = parameter.grad.coalesce()
    return parameter.grad.values()


def learning_rate(
    schedule: Schedule,
    rate: float,
    step: int,
    share: float,
    drops: int = 0,
    *,
    in_seconds: bool = False,
) -> float:
    """Return the learning rate of the next step.

    `share` of the stage's budget is used, `drops` count stalls. With a budget `in_seconds` the
    warm-up ends at `WARM_UP_SHARE` of it, on machines too slow for all of its steps.
    """
    longest = WARM_UP_SHARE if in_seconds else 1.0
    if step < schedule.warm_up_steps and share < longest:
        return rate * max(
            (step + 1) / schedule.warm_up_steps, share / longest if in_seconds else 0.0
        )
    factor = 1.0
    match schedule:
        case Cosine():
            # In a stage of minutes the share at which the warm-up ended is estimated from the speed
            # so far.
            start = min(schedule.warm_up_steps * share / max(step, 1), longest)
            part = max(0.0, share - start) / (1 - start) if start < 1 else 1.0
            last = schedule.final_learning_rate / rate
            factor = last + (1 - last) * (1 + math.cos(math.pi * part)) / 2
        case Step():
            factor = schedule.factor ** sum(drop <= share for drop in schedule.at)
        case Plateau():
            factor = schedule.factor**drops
        case InverseSqrt():
            # The steps of a warm-up that the clock has ended are estimated as well.
            taken = longest / share * (step + 1) if share >= longest else math.inf
            factor = math.sqrt(min(schedule.warm_up_steps, taken) / (step + 1))
    return rate * factor
