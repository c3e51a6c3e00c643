"""[[stage]].schedule: learning rates over time, as recipes describe them (`schedules` computes them)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field
from pydantic.dataclasses import dataclass

from rejoinder.training.recipe_types import STRICT, Decay, NotNegative, Share


@dataclass(frozen=True, kw_only=True, config=STRICT)
class WarmUp:
    """Fields that every schedule has: linear warm-up from 0; the schedule proper starts after it."""

    kind: str
    """Which schedule this is."""
    warm_up_steps: Annotated[int, Field(ge=0)] = 0
    """Steps that the warm-up takes; or:"""
    warm_up_share: Decay = 0.0
    """Share of the stage that it takes (follows the clock where the budget is in minutes)."""

    def __post_init__(self) -> None:
        if self.warm_up_steps and self.warm_up_share:
            raise ValueError("give at most one of warm_up_steps, warm_up_share; given: both")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Constant(WarmUp):
    """The same rate throughout."""

    kind: Literal["constant"] = "constant"
    """Which schedule this is."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Cosine(WarmUp):
    """Half a cosine from the learning rate down to `final_learning_rate` at the end of the stage."""

    kind: Literal["cosine"] = "cosine"
    """Which schedule this is."""
    final_learning_rate: NotNegative = 0.0
    """Rate at the end of the stage."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Step(WarmUp):
    """Times `factor` at given shares of the stage (ACL19: times 0.3 at step 3.5M of 4M)."""

    kind: Literal["step"] = "step"
    """Which schedule this is."""
    factor: Annotated[float, Field(gt=0, lt=1)]
    """What the rate is multiplied by at each drop."""
    at: Annotated[tuple[Share, ...], Field(min_length=1)]
    """Shares of the stage at which it drops."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class InverseSqrt(WarmUp):
    """Learning rate times sqrt(warm-up steps / step) after the warm-up (POLY's pretraining)."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    """Which schedule this is."""

    def __post_init__(self) -> None:
        if self.warm_up_steps < 1 or self.warm_up_share:
            raise ValueError("schedule inverse_sqrt needs warm_up_steps of 1 or more (and no warm_up_share)")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Plateau(WarmUp):
    """Times `factor` whenever the validation loss has stalled (POLY: 0.4, looking every half epoch)."""

    kind: Literal["plateau"] = "plateau"
    """Which schedule this is."""
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.4
    """What the rate is multiplied by at each drop."""
    patience: Annotated[int, Field(ge=0)] = 0
    """Validations without a lower loss that are waited for before a drop."""


Schedule: TypeAlias = Annotated[Constant | Cosine | Step | InverseSqrt | Plateau, Field(discriminator="kind")]
