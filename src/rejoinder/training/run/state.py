"""The state of a run: where it stands, and what is due."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from rejoinder.training.recipe.settings import Checkpoint, Validation

# validation examples below which recall@1 moves by luck, so that the finer mrr chooses the model
FEW = 1_000


@dataclass
class RunState:
    """State of a run; the examples of the next batch follow from it."""

    step: int = 0  # batches done in all stages
    stage: int = 0  # number of the stage, from 0; the number of stages once the last one is done
    stage_step: int = 0  # batches done in this stage
    stage_seconds: float = 0.0  # spent in this stage while a process lived
    seconds: float = 0.0  # spent in all stages
    examples: int = 0  # pairs trained on, repeated ones counted again
    tokens: int = 0  # real tokens of those pairs
    best: float | None = None
    """Best recall@1 in validation so far, mrr where there are few examples."""
    best_step: int = 0
    without_gain: int = 0  # validations of this stage since its best one
    stage_best: float | None = None  # the same of this stage
    stage_loss: float | None = None  # lowest validation loss of this stage
    stalled: int = 0
    """Validations since the lowest loss, or since the last drop of the learning rate."""
    drops: int = 0  # of the learning rate in this stage, where its schedule has them
    validated_at: float = 0.0  # `seconds` at the last validation
    validated_step: int = 0
    saved_at: float = 0.0  # `seconds` at the last checkpoint
    saved_step: int | None = None
    validation: dict[str, float] = dataclasses.field(default_factory=dict)
    """Figures of the best one."""
    sums: dict[str, float] = dataclasses.field(default_factory=dict)
    """Of what is logged, since the last line."""
    summed: int = 0  # batches in those sums
    data: str = ""  # digest of the examples

    def validation_due(self, config: Validation, batches_per_epoch: int) -> bool:
        """Return whether validation is due."""
        if config.every_steps is not None and self.step % config.every_steps == 0:
            return True
        if config.every_epochs is not None:
            return self.stage_step % max(1, round(config.every_epochs * batches_per_epoch)) == 0
        return (
            config.every_seconds is not None
            and self.seconds - self.validated_at >= config.every_seconds
        )

    def checkpoint_due(self, config: Checkpoint) -> bool:
        """Return whether a checkpoint is due."""
        if config.every_steps is not None and self.step % config.every_steps == 0:
            return True
        return (
            config.every_seconds is not None
            and self.seconds - self.saved_at >= config.every_seconds
        )

    def record_validation(self, figures: dict[str, float], patience: int | None) -> bool:
        """Count a validation and return whether it is the best so far.

        `patience` is that of a plateau schedule.
        """
        self._record_loss(figures["loss"], patience)
        self.validated_step = self.step
        self.validated_at = self.seconds
        chosen_by = ("mrr", "recall@1") if figures["examples"] < FEW else ("recall@1", "mrr")
        score = figures[chosen_by[0]]
        tie = figures[chosen_by[1]]
        if self.stage_best is None or score > self.stage_best:
            self.stage_best = score
            self.without_gain = 0
        else:
            self.without_gain += 1
        if self.best is not None and (score, tie) <= tuple(
            self.validation[name] for name in chosen_by
        ):
            return False
        self.best = score
        self.best_step = self.step
        self.validation = figures
        return True

    def _record_loss(self, loss: float, patience: int | None) -> None:
        if self.stage_loss is None or loss < self.stage_loss:
            self.stage_loss = loss
            self.stalled = 0
            return
        self.stalled += 1
        if patience is not None and self.stalled > patience:
            self.drops = self.drops + 1
            self.stalled = 0

    def enter_next_stage(self) -> None:
        """Reset what is counted by stage."""
        self.stage += 1
        self.stage_step = 0
        self.stage_seconds = 0.0
        self.stage_best = None
        self.without_gain = 0
        self.stage_loss = None
        self.stalled = 0
        self.drops = 0
