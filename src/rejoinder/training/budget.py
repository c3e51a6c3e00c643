"""Budgets of stages: in steps, epochs or minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rejoinder.training.recipe import Stage


@dataclass(frozen=True, slots=True)
class Budget:
    """What a stage may use up.

    Attributes:
        amount: steps or seconds.
        in_seconds: which of the two.
    """

    amount: float
    in_seconds: bool

    def share(self, steps: int, seconds: float) -> float:
        """Share of it that is used, at most 1."""
        return min(1.0, (seconds if self.in_seconds else steps) / self.amount)


def stage_budget(stage: Stage, batches_per_epoch: int) -> Budget:
    """The stage's budget; epochs become steps (at least one)."""
    if stage.minutes is not None:
        return Budget(stage.minutes * 60, in_seconds=True)
    if stage.epochs is not None:
        return Budget(max(1, round(stage.epochs * batches_per_epoch)), in_seconds=False)
    assert stage.steps is not None  # the recipe has exactly one
    return Budget(stage.steps, in_seconds=False)


def run_share(budgets: Sequence[Budget], stage: int, share: float) -> float:
    """Share of the whole run that is used.

    A stage that ended early counts in full.

    Args:
        budgets: of all stages, all in seconds or all in steps.
        stage: number of the present one, from 0.
        share: share of its budget that is used.
    """
    amounts = [budget.amount for budget in budgets]
    return (sum(amounts[:stage]) + share * amounts[stage]) / sum(amounts)
