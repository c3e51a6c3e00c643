"""An intent classifier as its users meet it: texts in, intents out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rejoinder.errors import InputError
from rejoinder.intents.data import IntentData
from rejoinder.intents.encoders import Advance, SentenceEncoder, unit_rows
from rejoinder.intents.fitting import Encoded, fit
from rejoinder.intents.heads import Head
from rejoinder.intents.out_of_scope import Centroids, Rejection, log_sum_exp, scores
from rejoinder.intents.settings import Logistic, Settings
from rejoinder.ranker import FloatArray

CERTAIN = 0.5
"""Where a text may have several intents: from which probability on it has one."""


@dataclass(frozen=True)
class Prediction:
    """What a classifier says of a text.

    Attributes:
        labels: its intents: one, none if it is refused as out of scope; several or none where texts may have several.
        ranking: all intents with their probabilities, the most probable first.
        out_of_scope: whether it is refused; None where nothing is.
    """

    labels: tuple[str, ...]
    ranking: tuple[tuple[str, float], ...]
    out_of_scope: bool | None = None


@dataclass(frozen=True)
class IntentClassifier:
    """A trained head on an encoder.

    Attributes:
        encoder: what encodes the texts; its vectors are brought to unit length.
        labels: the K intents.
        head: vectors to logits.
        centroids: of the training texts, for out-of-scope scores.
        settings: how it was trained.
        several: whether a text may have several intents.
        rejection: what is refused as out of scope; None: nothing.
        trained: facts of the training, for the card.
    """

    encoder: SentenceEncoder
    labels: tuple[str, ...]
    head: Head
    centroids: Centroids
    settings: Settings
    several: bool = False
    rejection: Rejection | None = None
    trained: dict[str, Any] = field(default_factory=dict)

    def vectors(self, texts: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """Vectors of unit length, (n, d)."""
        return unit_rows(self.encoder.encode(texts, advance))

    def probabilities(self, texts: Sequence[str]) -> FloatArray:
        """Of each intent for each of n texts, (n, K): rows sum to 1, unless texts may have several."""
        return probabilities(self.head.logits(self.vectors(texts)), self.several)

    def predict(self, texts: Sequence[str], advance: Advance | None = None) -> list[Prediction]:
        """Intents of texts.

        Raises:
            InputError: a text is blank.
        """
        for number, text in enumerate(texts, 1):
            if not text.strip():
                raise InputError(f"text {number} is blank; leave it out")
        vectors = self.vectors(texts, advance)
        return self.predict_vectors(vectors)

    def predict_vectors(self, vectors: FloatArray) -> list[Prediction]:
        """Intents of texts by their vectors of unit length, (n, d)."""
        logits = self.head.logits(vectors)
        chances = probabilities(logits, self.several)
        refused = self.refused(logits, vectors)
        order = np.argsort(-chances, axis=1, kind="stable")
        return [
            self._prediction(row, places, None if refused is None else bool(refused[i]))
            for i, (row, places) in enumerate(zip(chances, order, strict=True))
        ]

    def refused(self, logits: FloatArray, vectors: FloatArray) -> Any:
        """Whether each of n texts is out of scope, (n,) of bool; None where nothing is refused."""
        if self.rejection is None:
            return None
        return scores(self.rejection.score, logits, vectors, self.centroids) > self.rejection.threshold

    def _prediction(self, chances: FloatArray, places: Any, out: bool | None) -> Prediction:
        ranking = tuple((self.labels[place], float(chances[place])) for place in places.tolist())
        chosen = [name for name, chance in ranking if chance >= CERTAIN] if self.several else [ranking[0][0]]
        return Prediction(() if out else tuple(chosen), ranking, out)


def probabilities(logits: FloatArray, several: bool) -> FloatArray:
    """Softmax of each row of logits (n, K), or with several labels the logistic function of each."""
    exact = logits.astype(np.float64)
    shifted = -np.logaddexp(0.0, -exact) if several else exact - log_sum_exp(logits)[:, None]
    return np.exp(shifted).astype(np.float32)


def encode_data(
    encoder: SentenceEncoder,
    data: IntentData,
    labels: Sequence[str],
    *,
    several: bool = False,
    advance: Advance | None = None,
) -> Encoded:
    """Encode texts and number their labels.

    Raises:
        InputError: a label is not among `labels`.
    """
    return Encoded(unit_rows(encoder.encode(data.texts, advance)), targets_of(data, labels), several)


def targets_of(data: IntentData, labels: Sequence[str]) -> FloatArray:
    """(n, K): 1 where a text has a label.

    Raises:
        InputError: a label is not among `labels`.
    """
    places = {name: place for place, name in enumerate(labels)}
    targets = np.zeros((len(data), len(labels)), dtype=np.float32)
    for row, names in enumerate(data.labels):
        for name in names:
            if name not in places:
                said = f"the label {name!r} ({data.texts[row][:40]!r})"
                raise InputError(f"{said} is not among the {len(labels)} trained")
            targets[row, places[name]] = 1.0
    return targets


def train_classifier(
    encoder: SentenceEncoder,
    data: IntentData,
    *,
    settings: Settings | None = None,
    valid: IntentData | None = None,
    several: bool = False,
    seed: int = 0,
    advance: Advance | None = None,
) -> IntentClassifier:
    """Train a classifier; the encoder stays as it is.

    Args:
        encoder: any.
        data: texts in scope with their intents.
        settings: how; None: logistic regression.
        valid: for early stopping; None: a part of `data`.
        several: whether texts may have several intents.
        seed: of everything random.
        advance: called with the number of texts encoded.

    Raises:
        InputError: fewer than two intents, or labels of `valid` that are not in `data`.
    """
    settings, start = settings or Logistic(), time.perf_counter()
    encoded = encode_data(encoder, data, data.names, several=several, advance=advance)
    encoding = time.perf_counter() - start
    checked = None if valid is None else encode_data(encoder, valid, data.names, several=several)
    return from_encoded(encoder, data.names, encoded, settings, valid=checked, seed=seed, encoding_seconds=encoding)


def from_encoded(
    encoder: SentenceEncoder,
    labels: tuple[str, ...],
    encoded: Encoded,
    settings: Settings,
    *,
    valid: Encoded | None = None,
    seed: int = 0,
    encoding_seconds: float = 0.0,
) -> IntentClassifier:
    """As `train_classifier`, of texts that are encoded already."""
    start = time.perf_counter()
    fitted = fit(settings, encoded, valid=valid, seed=seed)
    trained = {
        "texts": len(encoded),
        "epochs": fitted.epochs,
        "held_out_accuracy": fitted.validation,
        "encoding_seconds": round(encoding_seconds, 3),
        "training_seconds": round(time.perf_counter() - start, 3),
    }
    return IntentClassifier(
        encoder, labels, fitted.head, Centroids.of(encoded), settings, encoded.several, trained=trained
    )
