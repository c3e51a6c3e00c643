"""Heads on frozen encodings: their settings and weights, on numpy alone.

`fitting` trains them: logistic regression, or a feed-forward network (CONVERT 4.3).
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import numpy as np
from pydantic import Field

from rejoinder.arrays import FloatArray, IntArray, unit_rows
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.settings import Count, Decay, Natural, Positive, parse_setting, section, validate

Kind = TypeVar("Kind")


@section
class Logistic:
    """Multinomial logistic regression, fitted by L-BFGS.

    It minimises the mean cross-entropy plus ||W||² / (2 · strength · n). A multi-label classifier
    has one binary regression for each label.
    """

    kind: Literal["logistic"] = "logistic"
    strength: Positive = 30.0  # scikit-learn's C, for standardised vectors of length 1 on average
    iterations: Count = 60  # maximum of L-BFGS steps


@section
class FeedForward:
    """The paper's feed-forward network on frozen encodings (CONVERT, section 4.3)."""

    kind: Literal["feed-forward"] = "feed-forward"
    hidden_size: Count = 512
    hidden_layers: Annotated[int, Field(ge=0, le=8)] = 1  # with ReLU; 0: a linear classifier
    input_dropout: Decay = 0.5  # dropout of the encodings
    hidden_dropout: Decay = 0.5  # dropout after each hidden layer
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: Positive = 0.75  # learning rate of the first step
    decay: Literal["constant", "linear"] = "constant"
    """Linear: the learning rate falls to 0 over all epochs."""
    batch_size: Count = 32  # texts per step
    epochs: Count = 120  # maximum; with replacement, as many steps as this number of passes takes
    sampling: Literal["pass", "replacement"] = "pass"
    """Every text once an epoch, or drawn with replacement."""
    patience: Natural = 5
    """Epochs without a lower held-out loss before training ends; the best network is kept. 0: all
    epochs, no held-out texts, and the last network is kept."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of each intent's training texts to hold out if there are no validation texts: at least
    one, never all."""


Settings: TypeAlias = Logistic | FeedForward
SETTINGS: Any = Annotated[Settings, Field(discriminator="kind")]

# Logistic regression; the paper's network with SGD; the setting in the authors' released code.
PRESETS: Mapping[str, Settings] = {
    "logistic": Logistic(),
    "paper": FeedForward(),
    "original": FeedForward(
        input_dropout=0.75,
        hidden_dropout=0.0,
        learning_rate=0.7,
        decay="linear",
        sampling="replacement",
        patience=0,
    ),
}


def parse_settings(preset: str = "logistic", changes: Sequence[str] = ()) -> Settings:
    """Return a preset with some of its settings changed, such as "hidden_size=256"."""
    if preset == "logistic":
        sklearn("linear_model")  # fail before the (slow) encoding
    return change_settings(PRESETS[preset], changes)


def change_settings(start: Kind, changes: Sequence[str]) -> Kind:
    """Return settings with some of them changed; see `parse_settings`."""
    values: dict[str, Any] = dataclasses.asdict(start)  # type: ignore[call-overload]
    for change in changes:
        name, value = parse_setting(change, "NAME=VALUE")
        values[name] = value
    return validate(type(start), values, "--set")


def sklearn(module: str) -> Any:
    """Import a module of scikit-learn, or raise MissingExtraError."""
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError:
        raise MissingExtraError("training or evaluating an intent classifier", "intents") from None


@dataclasses.dataclass(frozen=True)
class Encoded:
    """Texts (n,), their vectors (n, d), and targets (n, K), 1 where a text has a label.

    A row has one label unless `multi_label`; rows out of scope have none.
    """

    texts: tuple[str, ...]  # equal ones are held out together
    vectors: FloatArray
    targets: FloatArray
    multi_label: bool = False
    seconds: float = 0.0  # seconds of encoding the whole set that these rows come from

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def classes(self) -> IntArray:
        """The (first) label of each text, (n,)."""
        return np.asarray(self.targets.argmax(axis=1), dtype=np.int64)

    def rows(self, chosen: IntArray) -> Encoded:
        """Return the texts at these positions."""
        return dataclasses.replace(
            self,
            texts=tuple(self.texts[i] for i in chosen),
            vectors=self.vectors[chosen],
            targets=self.targets[chosen],
        )


@dataclasses.dataclass(frozen=True)
class Head:
    """Linear layers with ReLU between them: vectors (n, d) to logits (n, K)."""

    weights: tuple[FloatArray, ...]  # (size out, size in) each
    biases: tuple[FloatArray, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes d, ..., K between the layers."""
        return (self.weights[0].shape[1], *(len(weight) for weight in self.weights))

    def logits(self, vectors: FloatArray) -> FloatArray:
        """Return the logits (n, K) of vectors (n, d).

        They are computed in float64: in float32 a text's last digits depend on the other texts of
        its batch.
        """
        x = vectors.astype(np.float64)
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if number:
                x = np.maximum(x, 0)
            x = x @ weight.T.astype(np.float64) + bias
        return np.asarray(x, dtype=np.float32)

    def tensors(self) -> dict[str, FloatArray]:
        """Return the weights by their names in a classifier's folder."""
        named = {}
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            named[f"layers.{number}.weight"] = weight
            named[f"layers.{number}.bias"] = bias
        return named


def head_from(tensors: Mapping[str, FloatArray]) -> Head:
    """Return the head with these weights (`Head.tensors`); wrong ones are an InputError."""
    count = len(tensors) // 2
    named = range(count)
    weights = tuple(_float32(tensors.get(f"layers.{number}.weight")) for number in named)
    biases = tuple(_float32(tensors.get(f"layers.{number}.bias")) for number in named)
    pairs = zip(weights, biases, strict=True)
    fits = count > 0 and len(tensors) == 2 * count
    fits = fits and all(weight.ndim == 2 for weight in weights)
    fits = fits and all(bias.shape == (len(weight),) for weight, bias in pairs)
    if not fits or any(a.shape[0] != b.shape[1] for a, b in itertools.pairwise(weights)):
        raise InputError(
            "the classifier's weights do not fit a feed-forward network; copy its folder again"
        )
    return Head(weights, biases)


def _float32(values: FloatArray | None) -> FloatArray:
    return np.ascontiguousarray(() if values is None else values, dtype=np.float32)


@dataclasses.dataclass(frozen=True)
class Centroids:
    """Mean of all training vectors (d,), and directions to the intents' means (K, d).

    The directions are unit vectors.
    """

    mean: FloatArray
    directions: FloatArray

    @classmethod
    def of(cls, data: Encoded) -> Centroids:
        """Return the centroids of encoded training texts."""
        mean = data.vectors.mean(axis=0)
        return cls(mean, unit_rows(data.targets.T @ (data.vectors - mean)))

    def distances(self, vectors: FloatArray) -> FloatArray:
        """Return the distances (n,) of unit vectors (n, d) to the nearest centroid's direction."""
        nearest: FloatArray = (unit_rows(vectors - self.mean) @ self.directions.T).max(axis=1)
        return 1 - nearest


def accuracy(head: Head, data: Encoded) -> float:
    """Return the share of texts whose label, or exact set of labels, is predicted."""
    logits = head.logits(data.vectors)
    if data.multi_label:
        return float(((logits > 0) == (data.targets > 0)).all(axis=1).mean())
    return float((logits.argmax(axis=1) == data.classes).mean())
