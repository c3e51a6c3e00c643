"""[[stage]].schedule: learning rates over time, as recipes describe them (`schedules` computes them)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rejoinder.settings import Decay, Natural, NotNegative, Share, at_most_one, section


@section
class WarmUp:
    """What every schedule has: a linear warm-up from 0, after which the schedule proper starts."""

    kind: str
    warm_up_steps: Natural = 0
    """Steps that the warm-up takes; or:"""
    warm_up_share: Decay = 0.0
    """Share of the stage that it takes (follows the clock where the budget is in minutes)."""

    def __post_init__(self) -> None:
        at_most_one(self, "warm_up_steps", "warm_up_share")


@section
class Constant(WarmUp):
    """The same rate throughout."""

    kind: Literal["constant"] = "constant"


@section
class Cosine(WarmUp):
    """Half a cosine from the learning rate down to `final_learning_rate` at the end of the stage."""

    kind: Literal["cosine"] = "cosine"
    final_learning_rate: NotNegative = 0.0
    """Rate at the end of the stage."""


@section
class Step(WarmUp):
    """Times `factor` at given shares of the stage (ACL19: times 0.3 at step 3.5M of 4M)."""

    kind: Literal["step"] = "step"
    factor: Annotated[float, Field(gt=0, lt=1)]
    """What the rate is multiplied by at each drop."""
    at: Annotated[tuple[Share, ...], Field(min_length=1)]
    """Shares of the stage at which it drops."""


@section
class InverseSqrt(WarmUp):
    """Learning rate times sqrt(warm-up steps / step) after the warm-up (POLY's pretraining)."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"

    def __post_init__(self) -> None:
        if self.warm_up_steps < 1 or self.warm_up_share:
            raise ValueError("schedule inverse_sqrt needs warm_up_steps of 1 or more (and no warm_up_share)")


@section
class Plateau(WarmUp):
    """Times `factor` whenever the validation loss has stalled (POLY: 0.4, looking every half epoch)."""

    kind: Literal["plateau"] = "plateau"
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.4
    """What the rate is multiplied by at each drop."""
    patience: Natural = 0
    """Validations without a lower loss to wait for before a drop."""


Schedule: TypeAlias = Annotated[Constant | Cosine | Step | InverseSqrt | Plateau, Field(discriminator="kind")]
