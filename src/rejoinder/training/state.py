"""Where a run stands."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass


@dataclass
class RunState:
    """Where a run stands. The examples of the next batch follow from the stage and its step."""

    step: int = 0
    """Batches done in all stages."""
    stage: int = 0
    """Number of the stage, from 0; the number of stages once the last one is done."""
    stage_step: int = 0
    """Batches done in this stage."""
    stage_seconds: float = 0.0
    """Seconds spent in this stage, while the process lived."""
    seconds: float = 0.0
    """Seconds spent in all stages."""
    examples: int = 0
    """Pairs trained on, repeated ones counted again."""
    tokens: int = 0
    """Real tokens of those pairs."""
    best: float | None = None
    """Best validation so far, by the recipe's metric."""
    best_step: int = 0
    """When that was."""
    without_gain: int = 0
    """Validations of this stage since its best one."""
    stage_best: float | None = None
    """Best validation of this stage."""
    stage_loss: float | None = None
    """Lowest validation loss of this stage."""
    stalled: int = 0
    """Validations since that one, or since the last drop of the learning rate."""
    drops: int = 0
    """Drops of the learning rate in this stage, where its schedule has them."""
    validated_at: float = 0.0
    """Value of `seconds` at the last validation."""
    validated_step: int = 0
    """Value of `step` at the last validation."""
    validation: dict[str, float] = dataclasses.field(default_factory=dict)
    """Figures of the best validation."""
    sums: dict[str, float] = dataclasses.field(default_factory=dict)
    """Sums of loss, accuracy and what else is logged, since the last line of metrics."""
    summed: int = 0
    """Batches in those sums."""
    data: str = ""
    """Digest of the examples."""

    def enter_next_stage(self) -> None:
        """Count from 0 again what is counted by stage."""
        self.stage += 1
        self.stage_step, self.stage_seconds = 0, 0.0
        self.stage_best, self.without_gain = None, 0
        self.stage_loss, self.stalled, self.drops = None, 0, 0

    def see_loss(self, loss: float, patience: int | None) -> None:
        """Count a validation loss; `patience` is the schedule's, None where it does not look at it."""
        if self.stage_loss is None or loss < self.stage_loss:
            self.stage_loss, self.stalled = loss, 0
            return
        self.stalled += 1
        if patience is not None and self.stalled > patience:
            self.drops, self.stalled = self.drops + 1, 0

    def spend(self, seconds: float) -> None:
        """Count time."""
        self.stage_seconds += seconds
        self.seconds += seconds
