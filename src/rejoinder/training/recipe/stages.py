"""Settings of a recipe's stages: optimisers, schedules, hard negatives."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rejoinder.settings import (
    Count,
    Decay,
    Natural,
    NotNegative,
    Positive,
    Share,
    at_most_one,
    exactly_one,
    section,
)


@section
class Decayed:
    """Settings of every optimiser."""

    weight_decay: NotNegative = 0.0
    """L2 on all but layer norms, added to the gradient (adamw: off the weight)."""


@section
class Adadelta(Decayed):
    """Adadelta, the optimiser of CONVERT."""

    kind: Literal["adadelta"] = "adadelta"
    rho: Decay = 0.9
    """Decay of the running averages of squared gradients and squared updates."""


@section
class Sgd(Decayed):
    """Stochastic gradient descent."""

    kind: Literal["sgd"] = "sgd"


@section
class Adam(Decayed):
    """Adam, AdamW and Adamax."""

    kind: Literal["adam", "adamw", "adamax"]
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    """Decay of the averages of gradients, and squared (adamax: largest) ones."""


Optimizer: TypeAlias = Annotated[Adadelta | Sgd | Adam, Field(discriminator="kind")]


@section
class WarmUp:
    """Settings of every schedule: a linear warm-up from 0, then the schedule proper."""

    kind: str
    warm_up_steps: Natural = 0
    """Steps that the warm-up takes."""


@section
class Constant(WarmUp):
    """The same rate throughout."""

    kind: Literal["constant"] = "constant"


@section
class Cosine(WarmUp):
    """Half a cosine from the learning rate to `final_learning_rate` at the stage's end."""

    kind: Literal["cosine"] = "cosine"
    final_learning_rate: NotNegative = 0.0
    """Learning rate at the end of the stage."""


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
        if self.warm_up_steps < 1:
            raise ValueError("schedule inverse_sqrt needs warm_up_steps of 1 or more")


@section
class Plateau(WarmUp):
    """Times `factor` whenever the validation loss has stalled (POLY: 0.4).

    POLY looks every half epoch.
    """

    kind: Literal["plateau"] = "plateau"
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.4
    """What the rate is multiplied by at each drop."""
    patience: Natural = 0
    """Validations without a lower loss to wait for before a drop."""


Schedule: TypeAlias = Annotated[
    Constant | Cosine | Step | InverseSqrt | Plateau, Field(discriminator="kind")
]


@section
class HardNegatives:
    """[stage.hard_negatives]: wrong responses that the model ranks high (see `negatives`)."""

    per_pair: Count = 1
    """K: hard negatives of each pair of a batch; each is a negative of every context of the
    batch."""
    pool: Annotated[int, Field(ge=2)] = 20_000
    """Examples whose responses are searched, drawn anew, by the shares of mix."""
    margin: float | None = None
    """Leave out, as right, what scores (by cosine) this above the pair's own response."""
    share: Annotated[float, Field(gt=0, le=1)] | None = None
    """Or leave out what scores above this share of its score. Neither: leave out equal texts and
    known answers only."""
    every_steps: Count | None = None
    """Steps from one mining to the next; not given: once, when the stage begins."""

    def __post_init__(self) -> None:
        at_most_one(self, "margin", "share")


@section
class Stage:
    """[[stage]]: one part of the run; its optimiser, schedule and data order start afresh."""

    name: str
    """What progress and metrics call it."""
    active_blocks: Natural | Literal["all"] = "all"
    """Blocks that are computed and trained; skipped ones cost nothing."""
    trained_blocks: Count | Literal["all"] = "all"
    """Top blocks; a number freezes those below and the embeddings."""
    batch_size: Annotated[int, Field(ge=2)]
    """K: pairs of all processes; the others' responses are the negatives."""
    batch_tokens: Natural = 0
    """Pretraining: most tokens of up to batch_size pairs of like lengths (POLY: 32,000)."""
    micro_batch: Natural = 0
    """Pairs encoded at once: less memory, a second forward pass, same gradients; 0: all."""
    steps: Count | None = None
    """Budget: batches."""
    epochs: Positive | None = None
    """Or passes over the training split (the last incomplete batch of each is dropped)."""
    minutes: Positive | None = None
    """Or minutes of the clock, which the schedule follows, validation and checkpoints included."""
    optimizer: Optimizer
    """A name, or a table of a kind and its parameters."""
    learning_rate: Positive
    """After warm-up, before decay."""
    schedule: Schedule = Field(default_factory=Constant)
    """A name, or a table of a kind and its parameters."""
    rates: dict[str, NotNegative | Literal["batch_size"]] = Field(default_factory=dict)
    """Factors of the learning rate by group ("embedding", "blocks", ...); 0 freezes it,
    "batch_size" is K (ACL19)."""
    clip_norm: NotNegative = 0.0
    """Largest norm of all gradients together; longer ones are scaled to it. 0: no limit."""
    clip_embedding_norm: NotNegative = 0.0
    """The same of the subword embedding's alone, applied before `clip_norm`."""
    hard_negatives: HardNegatives | None = None
    """Negatives that the model itself ranks high."""
    negatives: Natural = 0
    """Responses drawn at random from the training split for each pair: all negatives of a
    cross-encoder (POLY: 15)."""
    given_negatives: bool = False
    """Take the wrong candidates that the data gives with each example (ConvAI2: 19)."""
    input_negatives: bool = False
    """Take the newest messages: a reply must not repeat what it answers."""

    def __post_init__(self) -> None:
        exactly_one(self, "steps", "epochs", "minutes")
        at_most_one(self, "negatives", "hard_negatives", "given_negatives", "input_negatives")

    def rate(self, group: str) -> float:
        """Return the factor of the learning rate for a group of parameters."""
        factor = self.rates.get(group, 1.0)
        return float(self.batch_size) if factor == "batch_size" else float(factor)
