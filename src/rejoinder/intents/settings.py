"""The settings of a classifier: which kind, how it is trained, and the presets of the paper."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from rejoinder.errors import InputError
from rejoinder.files import parse_json

Kind = TypeVar("Kind")
STRICT = ConfigDict(extra="forbid", strict=True)
Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count: TypeAlias = Annotated[int, Field(ge=1)]
Dropout: TypeAlias = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Logistic:
    """Multinomial logistic regression: the mean cross-entropy plus ||W||² / (2 · strength · n), minimised by L-BFGS.

    With several labels per text, one binary regression for each label.
    """

    kind: Literal["logistic"] = "logistic"
    """Which classifier this is."""
    strength: Positive = 30.0
    """Inverse of the regularisation (scikit-learn's C), for standardised vectors of length 1 on average."""
    iterations: Count = 60
    """Steps of L-BFGS at most."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class FeedForward:
    """The paper's feed-forward net on frozen encodings (CONVERT, section 4.3)."""

    kind: Literal["feed-forward"] = "feed-forward"
    """Which classifier this is."""
    hidden_size: Count = 512
    """Size of the hidden layers."""
    hidden_layers: Annotated[int, Field(ge=0, le=8)] = 1
    """How many of them, with ReLU; 0: a linear classifier."""
    input_dropout: Dropout = 0.5
    """Dropout of the encodings."""
    hidden_dropout: Dropout = 0.5
    """Dropout after each hidden layer."""
    optimizer: Literal["sgd", "adam"] = "sgd"
    """What learns."""
    learning_rate: Positive = 0.75
    """At the first step."""
    decay: Literal["constant", "linear"] = "constant"
    """Whether the learning rate falls linearly to 0 over all epochs."""
    batch_size: Count = 32
    """Texts of a step."""
    epochs: Count = 120
    """At most; with sampling, as many steps as that many passes would take."""
    sampling: Literal["pass", "replacement"] = "pass"
    """Every text once an epoch, or drawn at random with replacement."""
    patience: Annotated[int, Field(ge=0)] = 5
    """Epochs without a lower loss on held-out texts after which training ends; the best is kept. 0: all epochs, no
    held-out texts, the last is kept."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of the training texts that is held out for it, where no validation texts are given; one of each intent at
    least that has two or more."""


Settings: TypeAlias = Logistic | FeedForward

PRESETS: Mapping[str, Settings] = {
    "logistic": Logistic(),
    "paper": FeedForward(),
    "original": FeedForward(
        hidden_size=512,
        hidden_layers=1,
        input_dropout=0.75,
        hidden_dropout=0.0,
        learning_rate=0.7,
        decay="linear",
        sampling="replacement",
        patience=0,
    ),
}
"""By name: logistic regression; the paper's net with SGD; the setting of the code that the authors released."""

_adapter: TypeAdapter[Settings] = TypeAdapter(Annotated[Settings, Field(discriminator="kind")])


def parse_settings(preset: str = "logistic", changes: Sequence[str] = ()) -> Settings:
    """A preset, with some of its settings changed.

    Args:
        preset: one of PRESETS.
        changes: such as "hidden_size=256".

    Raises:
        InputError: names the setting, what was given and what is allowed.
    """
    if preset not in PRESETS:
        raise InputError(f"there is no preset {preset!r}; allowed are {', '.join(PRESETS)}")
    return parse_changes(PRESETS[preset], changes, _adapter)


def parse_changes(start: Any, changes: Sequence[str], adapter: TypeAdapter[Kind]) -> Kind:
    """Settings with some changed.

    Args:
        start: a dataclass of settings.
        changes: such as "hidden_size=256".
        adapter: checks them.

    Raises:
        InputError: names the setting, what was given and what is allowed.
    """
    values = dataclasses.asdict(start)
    for change in changes:
        name, equals, value = (part.strip() for part in change.partition("="))
        if not equals or name not in values or name == "kind":
            known = ", ".join(key for key in values if key != "kind")
            raise InputError(f"--set {change}: NAME=VALUE is read, with one of the NAMEs {known}")
        values[name] = _value(value)
    return _checked(values, adapter)


def settings_from(values: Mapping[str, Any]) -> Settings:
    """Settings from JSON values, all checked.

    Raises:
        InputError: names the first that is unknown or has a value that is not allowed.
    """
    return _checked(values, _adapter)


def _checked(values: Mapping[str, Any], adapter: TypeAdapter[Kind]) -> Kind:
    try:
        return adapter.validate_json(json.dumps(dict(values)), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][-1]) if first["loc"] else "kind"
        raise InputError(f"setting {name}: {first['msg']}, given {repr(first['input'])[:60]}") from None


def _value(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text


def paper_grid() -> Iterator[FeedForward]:
    """The paper's whole grid (CONVERT, section 4.3).

    Hidden size 128, 256, 512, 1,024; 0, 1, 2 hidden layers; dropout 0.75, 0.5, 0.25; Adam 4e-4 decaying, or SGD 0.75.
    Without hidden layers their size does not matter, so these are 54 settings, not 72.
    """
    shapes = [(0, 512), *itertools.product((1, 2), (128, 256, 512, 1024))]
    optimizers: tuple[tuple[Literal["sgd", "adam"], float, Literal["constant", "linear"]], ...] = (
        ("sgd", 0.75, "constant"),
        ("adam", 4e-4, "linear"),
    )
    for (layers, size), dropout, (optimizer, rate, decay) in itertools.product(shapes, (0.75, 0.5, 0.25), optimizers):
        yield FeedForward(
            hidden_size=size,
            hidden_layers=layers,
            input_dropout=dropout,
            hidden_dropout=dropout,
            optimizer=optimizer,
            learning_rate=rate,
            decay=decay,
        )
