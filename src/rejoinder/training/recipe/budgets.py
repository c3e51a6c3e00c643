"""Budgets of stages, in steps or seconds, and what their warm-ups take of them."""

from __future__ import annotations

import math
from typing import NamedTuple

from rejoinder.training.recipe.stages import Stage

WARM_UP_SHARE = 0.1  # of a budget in seconds, at most


class Budget(NamedTuple):
    """Budget of a stage: steps, or seconds."""

    amount: float
    in_seconds: bool


def stage_budget(stage: Stage, batches_per_epoch: int) -> Budget:
    """Return the stage's budget; epochs become steps, at least one."""
    if stage.minutes is not None:
        return Budget(stage.minutes * 60, in_seconds=True)
    if stage.epochs is not None:
        return Budget(max(1, round(stage.epochs * batches_per_epoch)), in_seconds=False)
    assert stage.steps is not None  # the recipe has exactly one
    return Budget(stage.steps, in_seconds=False)


def repeating_settings(number: int, stage: Stage, steps: int) -> str:
    """Return the options that repeat a stage of minutes, which had so many steps.

    Where the clock ended its warm-up, they say so in steps, too.
    """
    options = f"--set stage.{number}.steps={steps}"
    warm_up = math.ceil(WARM_UP_SHARE * steps)
    if warm_up >= stage.schedule.warm_up_steps:
        return options
    return f"{options} --set stage.{number}.schedule.warm_up_steps={warm_up}"


def warm_up_note(stage: Stage, budget: Budget) -> str:
    """Return what is to be said of a stage that ends within its warm-up; empty: nothing."""
    steps = stage.schedule.warm_up_steps
    if budget.in_seconds or budget.amount >= steps:
        return ""
    return (
        f"stage '{stage.name}': {budget.amount:,.0f} steps are fewer than those of its warm-up"
        f" ({steps:,}), so the learning rate stays below {stage.learning_rate:g}"
    )
