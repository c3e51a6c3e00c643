"""The recipe of a training run, as frozen dataclasses that `recipe_files` reads TOML into."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from rejoinder.documents import Described
from rejoinder.encoders.open import is_library
from rejoinder.settings import (
    Count,
    Decay,
    Natural,
    NotNegative,
    Positive,
    Share,
    at_most_one,
    exactly_one,
    non_default_fields,
    section,
)
from rejoinder.text.tokenizer import Cut
from rejoinder.training.recipe.stages import Plateau, Stage

NO_START = (
    "give a model to start from (--init MODEL, or init.model), a transformer for its parts"
    " (init.transformer), or [vocabulary] and [model] to train one from scratch"
)


@section
class Init:
    """[init]: a trained model to start from, whose weights, vocabulary and structure are taken.

    [vocabulary] is left out, and [model] may give nothing but what no weight depends on (see
    `initialisation`).
    """

    model: str = ""
    """Folder, bundled name or Hugging Face id; empty: random weights. `--init` overrides it."""
    transformer: str = ""
    """Or a transformer on which [model] builds: a folder of `transformers` or a pretraining run, an
    id, or "minilm"."""
    blocks: tuple[Natural, ...] = ()
    """Of the transformer, the blocks that are taken, from 0, ascending; empty: all."""
    anchor: NotNegative = 0.0
    """Weight of 1 - cos(r, r at the start) of newest messages and responses, whose trunk learns;
    earlier messages are then read once, at the start (multi-context-bi-encoder)."""
    fingerprint: str = ""
    """Of the model, filled in when the recipe is read; if given, no other model is taken."""
    quantized: bool = False
    """Start from the rounded weights of a quantised model; filled in as well."""
    words: str = ""
    """Or a sentence encoder (folder, id, "minilm") from whose vectors of subwords the embedding
    starts (`prepare`)."""

    def __post_init__(self) -> None:
        at_most_one(self, "model", "transformer", "words")
        if self.fingerprint and not self.given:
            raise ValueError("fingerprint is given, but no model that it belongs to")
        if self.quantized and not self.model:
            raise ValueError("quantized is given, but no model that it describes")
        if self.anchor and not self.given:
            raise ValueError("anchor is given, but no model to start from that it holds to")
        if self.blocks and not self.transformer:
            raise ValueError("blocks are given, but no transformer that has them")

    @property
    def given(self) -> bool:
        """Return whether training starts from something trained."""
        return bool(self.model or self.transformer)


@section
class Mixed:
    """[[data.mix]]: further examples that are in every batch (ACL19, FT-MIXED)."""

    train: str = ""
    """Folder or file; its training split is used. `--general` overrides it."""
    share: Annotated[float, Field(gt=0, lt=1)]
    """Of the pairs of every batch, rounded to whole pairs."""


@section
class Data:
    """[data]: the examples."""

    train: str = ""
    """Folder or file, relative to the current folder; validated on as well. `--data` overrides
    it."""
    mix: tuple[Mixed, ...] = ()
    """Further sets of examples; what their shares leave of a batch comes from `train`."""
    cache: str = ""
    """Folder for vocabularies and token arrays, shared between runs; empty: `tokens` in the
    run's."""

    def __post_init__(self) -> None:
        if sum(mixed.share for mixed in self.mix) >= 1:
            shares = " + ".join(str(mixed.share) for mixed in self.mix)
            raise ValueError(
                f"the shares of mix must leave something of a batch to data.train; given: {shares}"
            )

    @property
    def shares(self) -> tuple[float, ...]:
        """Return the share of each set in every batch, `train` first."""
        mixed = [entry.share for entry in self.mix]
        return (1 - sum(mixed), *mixed)


@section
class SubwordVocabulary:
    """[vocabulary] of kind "subwords" (the default), from the training split (CONVERT 3.1)."""

    kind: Literal["subwords"] = "subwords"
    target_size: Annotated[int, Field(ge=100)] | None = None
    """Number of subwords to aim at (within 1 %)."""
    minimum_count: Count | None = None
    """Or how often one must be seen (paper: 250)."""
    iterations: Count = 4
    """Rounds of segmenting with the vocabulary so far and counting again."""
    max_bytes: Count = 20
    """Longest subword, in UTF-8 bytes."""
    max_digits: Count = 4
    """Longest run of digits within a subword."""
    buckets: Count = 1000
    """Rows shared by the characters that are in no subword."""
    sample: Count = 10_000_000
    """Inputs and responses to count, drawn at random if there are more."""

    def __post_init__(self) -> None:
        exactly_one(self, "target_size", "minimum_count")


@section
class NGramVocabulary:
    """[vocabulary] of kind "ngrams": words and pairs of words (ACL19, section 3)."""

    kind: Literal["ngrams"]
    minimum_count: Count = 10
    """How often a word must be seen."""
    bigrams: Natural = 200_000
    """Number of pairs of known words, the most frequent ones."""
    buckets: Count = 50_000
    """Rows shared by unknown words and unknown pairs."""
    sample: Count = 1_000_000
    """Inputs and responses to count, drawn at random if there are more."""


@section
class BpeVocabulary:
    """[vocabulary] of kind "bpe": byte pair encoding of lower-cased text (POLY 4.1).

    It is for transformers from scratch.
    """

    kind: Literal["bpe"]
    merges: Count = 30_000
    """Number of merges to learn (paper: 30,000)."""
    minimum_count: Count = 2
    """How often a pair must be seen to be merged."""
    sample: Count = 10_000_000
    """Inputs and responses to learn from, drawn at random if there are more."""
    data: tuple[str, ...] = ()
    """Folders to learn from, so that several runs share it; empty: what is trained on."""


Vocabulary: TypeAlias = Annotated[
    SubwordVocabulary | NGramVocabulary | BpeVocabulary, Field(discriminator="kind")
]


@section
class Text:
    """[text]: how a message becomes tokens."""

    max_length: Count = 60
    """Tokens of a message; where contexts are read whole (model.context_length), of a response and
    its two marks."""
    cut: Cut | None = None
    """Truncated part of a longer message: "end" (CONVERT) or "middle"; else as in `init.model`."""


@section
class History:
    """[history]: changes to histories, so that the newest message always suffices.

    CONVERT has none.
    """

    left_out: Share = 0.0
    """Share of the pairs that lose theirs."""
    swapped: Share = 0.0
    """Share that get another pair's; such a one is not ranked by."""
    new_subject: Share = 0.0
    """Of the pairs without a history, which open their dialogues, share that get another's."""

    def __post_init__(self) -> None:
        if self.left_out + self.swapped > 1:
            raise ValueError("left_out and swapped together are more than all pairs")


@section
class Loss:
    """[loss]: softmax over the batch's responses (see `losses`)."""

    smoothing: Decay = 0.2
    """Share of the probability that the other responses of the batch get, evenly."""
    mask_equal_responses: bool = True
    """Leave a response out of another's negatives if both have the same tokens."""


@section
class Scale:
    """[scale]: the factor c of the score c · cos, annealed or learned.

    Annealed it goes from `first` to `last`, and stays.
    """

    learned: bool = False
    """Learn c (ACL19), in 0 to `last`, from `first` or `init.model`'s on; its group is "scale"."""
    first: Positive = 1.0
    """At the first step."""
    last: Positive | Literal["sqrt(d)"] = "sqrt(d)"
    """After the annealing; d: the encodings' size (22.6 at 512)."""
    steps: Natural | None = None
    """Steps that the annealing takes (paper: 10,000)."""
    share: Share | None = None
    """Or the share of the whole run; all stages must then have a budget in minutes, or none."""

    def __post_init__(self) -> None:
        if not self.learned:
            exactly_one(self, "steps", "share")
        elif non_default_fields(self, "steps", "share"):
            raise ValueError(
                "a learned scale is not annealed: leave steps and share out, or learned = true"
            )


@section
class Distillation:
    """[distillation]: learning to score as a better model does, beside the examples.

    See `distillation`.
    """

    teacher: str = ""
    """Any ranker, by folder or Hugging Face id: mostly a cross- or poly-encoder."""
    encoder: str = ""
    """Teacher whose cosines over the whole batch are the scores: a model that encodes both sides,
    by folder or name; or, for single texts, "minilm", "use", "e5" or "st:NAME"."""
    sharpness: Positive | None = None
    """With `encoder`: factor of its cosines; 20 if not given."""
    vectors: NotNegative = 0.0
    """With `encoder`: weight of 1 - cos of its vectors and a linear map's of the model's own."""
    fingerprint: str = ""
    """Of the model, filled in when the recipe is read; if given, no other is taken."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Weight in the loss; the rest is that of the ranking loss."""
    sample: Count | None = None
    """With `encoder`: training examples that it reads, drawn at random; else all."""
    candidates: Annotated[int, Field(ge=2)] | None = None
    """With `teacher`: of each context, in the batch; else 16."""

    def __post_init__(self) -> None:
        exactly_one(self, "teacher", "encoder")
        if self.encoder and non_default_fields(self, "candidates"):
            raise ValueError("candidates belongs to a teacher; an encoder compares the whole batch")
        if is_library(self.encoder) and self.fingerprint:
            raise ValueError(
                f"fingerprint belongs to a model of Rejoinder; {self.encoder} has none"
            )
        if self.teacher and non_default_fields(self, "sharpness", "sample", "vectors"):
            raise ValueError(
                "sharpness, sample and vectors belong to an encoder;"
                " a teacher scores batches as it does"
            )


@section
class Validation:
    """[validation]: 1-of-N on the validation split, at the end of each stage at least.

    The best model is kept. Best is by recall at 1, then by the mean reciprocal rank; of fewer than
    1,000 examples by the latter first.
    """

    every_steps: Count | None = None
    """Steps from one validation to the next."""
    every_epochs: Positive | None = None
    """Passes over the training split; where both are given, whichever comes first."""
    every_seconds: Positive | None = None
    """Seconds, in place of both."""
    examples: Natural = 5_000
    """At most; 0: none, and the last model is kept."""
    candidates: Annotated[int, Field(ge=2)] = 100
    """N: each response is a candidate for all N contexts of its group."""
    patience: Natural = 0
    """Validations without gain after which a stage ends early; 0: never."""
    data: tuple[str, ...] = ()
    """Further folders that are validated on alone; figures are means over all of them."""

    def __post_init__(self) -> None:
        at_most_one(self, "every_steps", "every_seconds")
        at_most_one(self, "every_epochs", "every_seconds")
        if self.data and not self.examples:
            raise ValueError(
                "data is given, but examples = 0 validates on nothing; leave one of them out"
            )


@section
class Checkpoint:
    """[checkpoint]: how often everything needed to continue is written.

    It is written after a gain and after mining too.
    """

    every_steps: Count | None = None
    """Steps from one to the next."""
    every_seconds: Positive | None = 300.0
    """Seconds; both may be given."""


@section
class Log:
    """[log]: what metrics.jsonl and TensorBoard get."""

    every_steps: Count = 10
    """Steps from one line to the next; loss and accuracy are means over them."""


@section
class Compute:
    """[compute]: where and in which precision."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """"auto": the first CUDA device if there is one, else the CPU."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """"auto": bf16 where processor or GPU have instructions for it, fp16 with loss scaling on other
    GPUs, else fp32."""
    threads: Natural = 0
    """CPU threads; 0: PyTorch chooses."""


@section
class Quantization:
    """[quantization]: training for 8-bit embeddings and 16 bits for everything else.

    See the room `networks/quantization`.
    """

    enabled: bool = False
    """Compute with rounded copies of the parameters, for export in few bits."""
    half: Literal["auto", "bfloat16", "float16"] = "auto"
    """Of all that is not an embedding; "auto": bfloat16 where the run computes in bf16, else
    float16, more precise."""
    range_every: Count = 100
    """Steps from one fitting of the 8-bit ranges to the next; at once if a value leaves one."""
    loss_scale: Positive = 128.0
    """In fp16: factor of the loss, not of updates; it halves, and the step is left out, if a
    gradient overflows."""

    def __post_init__(self) -> None:
        if not self.enabled and (changed := non_default_fields(self)):
            raise ValueError(f"{changed[0]} is given, but nothing is quantised; add enabled = true")


@section
class Recipe(Described):
    """A training run, fully described."""

    name: str
    """What the run is called."""
    description: str = ""
    """What it is for, or the number it gives."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of weights, dropout and the order of examples."""
    init: Init = Field(default_factory=Init)
    data: Data = Field(default_factory=Data)
    vocabulary: Vocabulary | None = None
    """Settings of the tokenizer; omitted if `init` gives it."""
    text: Text = Field(default_factory=Text)
    model: dict[str, Any]
    """`kind` and the fields of that model's configuration."""
    history: History = Field(default_factory=History)
    loss: Loss = Field(default_factory=Loss)
    scale: Scale
    distillation: Distillation | None = None
    """A better model to learn from."""
    validation: Validation = Field(default_factory=Validation)
    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
    log: Log = Field(default_factory=Log)
    compute: Compute = Field(default_factory=Compute)
    quantization: Quantization = Field(default_factory=Quantization)
    stage: Annotated[tuple[Stage, ...], Field(min_length=1)]
    """In order."""

    __repr__ = Described.__repr__

    def facts(self) -> Mapping[str, object]:
        """Return what differs from the defaults, by dotted key."""
        from rejoinder.encoders.families import family

        defaults = {
            field.name: field.default
            for field in dataclasses.fields(family(self.model["kind"]).config)
        }
        model = {
            f"model.{key}": value
            for key, value in self.model.items()
            if (key, value) not in defaults.items()
        }
        return {**dict(_changed(self)), **model, "model.kind": self.model["kind"]}

    def __post_init__(self) -> None:
        if not self.init.given and self.vocabulary is None:
            raise ValueError(NO_START)
        if self.distillation is not None and self.data.mix:
            raise ValueError("distillation learns from data.train alone; leave data.mix out")
        repeated = self.validation.examples and non_default_fields(
            self.validation, "every_steps", "every_seconds", "every_epochs"
        )
        if any(isinstance(stage.schedule, Plateau) for stage in self.stage) and not repeated:
            raise ValueError(
                "schedule plateau needs validations; give validation.every_epochs (paper: 0.5)"
            )
        clocked = [stage.minutes is not None for stage in self.stage]
        if self.scale.share is not None and any(clocked) and not all(clocked):
            steps = [f"stage.{number}.steps" for number, timed in enumerate(clocked) if timed]
            raise ValueError(
                "scale.share needs stages that all have a budget in minutes, or none; give"
                f" {' and '.join(steps)} too, or scale.steps"
            )


def _changed(section: Any, above: str = "") -> Iterator[tuple[str, object]]:
    """Yield key and value of a section's non-default fields, without the model's table."""
    for name, field in section.__pydantic_fields__.items():
        value = getattr(section, name)
        key = f"{above}{name}"
        if value == field.get_default(call_default_factory=True) or key == "model":
            continue
        several = isinstance(value, tuple) and dataclasses.is_dataclass(next(iter(value), None))
        parts = (
            [(f"{key}.{number}", item) for number, item in enumerate(value)]
            if several
            else [(key, value)]
        )
        for dotted, part in parts:
            yield from (
                _changed(part, f"{dotted}.") if dataclasses.is_dataclass(part) else [(dotted, part)]
            )
