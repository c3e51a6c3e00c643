"""Learning rates and the scale of the cosine as functions of how far the training has come."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rejoinder.training.recipe import Scale
from rejoinder.training.recipe_schedules import Constant, Cosine, InverseSqrt, Plateau, Schedule, Step


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage, or a run, has come.

    Attributes:
        step: batches done so far.
        share: share of the budget that is used, from 0 to 1: of the steps, or of the time.
        drops: how often the validation loss has stalled.
    """

    step: int
    share: float
    drops: int = 0


def learning_rate(schedule: Schedule, rate: float, progress: Progress) -> float:
    """Learning rate of the next step of a stage.

    During the warm-up it rises linearly, from rate/(warm-up steps) at the first step; afterwards the schedule runs
    over the rest of the stage.

    Args:
        schedule: the stage's.
        rate: its learning rate.
        progress: how far the stage has come.
    """
    if progress.step < schedule.warm_up_steps:
        return rate * (progress.step + 1) / schedule.warm_up_steps
    if progress.share < schedule.warm_up_share:
        return rate * progress.share / schedule.warm_up_share
    return rate * _factor(schedule, rate, progress)


def _factor(schedule: Schedule, rate: float, progress: Progress) -> float:
    """What is left of the rate after the warm-up."""
    match schedule:
        case Constant():
            return 1.0
        case Cosine():
            last = schedule.final_learning_rate / rate
            return last + (1 - last) * (1 + math.cos(math.pi * _after_warm_up(schedule, progress))) / 2
        case Step():
            return schedule.factor ** sum(share <= progress.share for share in schedule.at)
        case Plateau():
            return schedule.factor**progress.drops
        case InverseSqrt():
            return math.sqrt(schedule.warm_up_steps / (progress.step + 1))


def _after_warm_up(schedule: Schedule, progress: Progress) -> float:
    """Share of what follows the warm-up that is used.

    A warm-up in steps ends at an unknown share when the budget is in minutes; it is taken from the speed so far.
    """
    start = schedule.warm_up_share
    if schedule.warm_up_steps and progress.step:
        start = min(schedule.warm_up_steps * progress.share / progress.step, 1.0)
    return min(1.0, max(0.0, progress.share - start) / (1 - start)) if start < 1 else 1.0


def last_scale(scale: Scale, output_size: int) -> float:
    """The number that `scale.last` stands for: "sqrt(d)" is the root of the encodings' size d."""
    return math.sqrt(output_size) if scale.last == "sqrt(d)" else float(scale.last)


def score_scale(scale: Scale, output_size: int, progress: Progress) -> float:
    """The factor c of c · cos at the next step (CONVERT 3: from 1 to sqrt(d) over 10,000 steps, then constant).

    Only for one that is not learned.

    Args:
        scale: the recipe's.
        output_size: d.
        progress: how far the run has come.
    """
    last = last_scale(scale, output_size)
    done, length = (progress.step, scale.steps) if scale.steps is not None else (progress.share, scale.share)
    assert length is not None  # the recipe has exactly one
    part = 1.0 if done >= length else done / length
    return scale.first + (last - scale.first) * part
