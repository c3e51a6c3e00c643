"""Predictions of intent classifiers, refusals, and the ONNX folder.

This module needs only NumPy and onnxruntime.

A text is refused if one of three scores is above a threshold. The higher the score, the more
probably a text with logits z and unit vector x is out of scope:

- probability: 1 - max softmax(z) (Hendrycks and Gimpel 2017)
- energy: -log Σ exp z (Liu et al. 2020, "Energy-based Out-of-distribution Detection")
- distance (ours): 1 - the greatest cosine of x - m with an intent's centroid - m, m being the mean
  training vector
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.conversations import read_texts
from rejoinder.documents import Described
from rejoinder.encoders.onnx import INTENTS, OnnxEncoder, open_program
from rejoinder.encoders.open import text_vectors
from rejoinder.errors import InputError
from rejoinder.text.messages import clean_messages

ScoreName: TypeAlias = Literal["probability", "energy", "distance"]
SCORES: tuple[ScoreName, ...] = get_args(ScoreName)
Scores = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rejection:
    """Score and threshold above which a text is refused."""

    score: ScoreName
    threshold: float

    def refuses(self, logits: FloatArray, distances: FloatArray) -> BoolArray:
        """Return which texts with these logits (n, K) and distances (n,) are refused, (n,)."""
        return scores(logits, distances)[:, SCORES.index(self.score)] > self.threshold


@dataclass(frozen=True)
class HeldOut:
    """Logits (n, K) and scores (n, 3) of texts in scope, and scores (m, 3) of the others.

    No text was trained on.
    """

    logits: FloatArray
    scores: Scores
    oos_scores: Scores


def scores(logits: FloatArray, distances: FloatArray) -> Scores:
    """Return the scores in the order of `SCORES`, (n, 3)."""
    z = logits.astype(np.float64)
    energy = -np.logaddexp.reduce(z, axis=1)
    probability = 1 - np.exp(z.max(axis=1) + energy)
    return np.stack([probability, energy, distances.astype(np.float64)], axis=1)


def choose_rejection(
    held_out: HeldOut, classes: npt.NDArray[np.int64], reject: float | None = None
) -> Rejection:
    """Return the best score and threshold.

    The best have the highest mean of in-scope accuracy and out-of-scope recall. `classes` (n,) are
    the intents of the texts in scope. With `reject`, that share of the texts in scope is refused,
    by the score with the highest recall, or by the energy without texts out of scope.
    """
    inside = held_out.scores
    outside = held_out.oos_scores
    if reject is not None:
        thresholds = np.quantile(inside, 1 - reject, axis=0)
        number = SCORES.index("energy")
        if len(outside):
            number = int(np.argmax((outside > thresholds).mean(axis=0)))
        return Rejection(SCORES[number], float(thresholds[number]))
    right = held_out.logits.argmax(axis=1) == classes
    best = [best_threshold(inside[:, k], right, outside[:, k]) for k in range(len(SCORES))]
    number = max(range(len(SCORES)), key=lambda k: best[k][1])
    return Rejection(SCORES[number], best[number][0])


def best_threshold(inside: Scores, right: BoolArray, outside: Scores) -> tuple[float, float]:
    """Return the best threshold of one score, and its mean of accuracy and recall.

    Accuracy is in scope, recall out of scope.
    """
    values = np.unique(np.concatenate([inside, outside]))
    # Thresholds between two occurring scores, and beyond the ends: refuse nothing, refuse
    # everything.
    between = (values[:-1] + values[1:]) / 2
    thresholds = np.concatenate([[values[0] - 1.0], between, [values[-1] + 1.0]])
    accepted = np.searchsorted(np.sort(inside[right]), thresholds, "right") / len(inside)
    refused = 1.0 - np.searchsorted(np.sort(outside), thresholds, "right") / len(outside)
    best = int(np.argmax(accepted + refused))
    return float(thresholds[best]), float((accepted[best] + refused[best]) / 2)


MIN_PROBABILITY = 0.5  # of an intent that a multi-label classifier assigns


@dataclass(frozen=True)
class Prediction:
    """The intents of a text."""

    labels: tuple[str, ...]
    """One intent, or none if the text is refused; any number for a multi-label classifier."""
    ranking: tuple[tuple[str, float], ...]
    """All intents with their probabilities, the most probable first."""
    out_of_scope: bool | None = None  # None if the classifier refuses nothing


def check_texts(texts: Sequence[str]) -> None:
    """Raise InputError for a blank text."""
    for number, text in enumerate(texts, 1):
        if not text.strip():
            raise InputError(f"text {number} is blank; leave it out")


def decide(
    logits: FloatArray,
    distances: FloatArray,
    labels: Sequence[str],
    multi_label: bool,
    rejection: Rejection | None,
) -> list[Prediction]:
    """Return the intents of texts with these logits (n, K) and distances (n,)."""
    refused: list[bool | None] = [None] * len(logits)
    if rejection is not None:
        refused = rejection.refuses(logits, distances).tolist()
    predictions = []
    for row, out_of_scope in zip(probabilities(logits, multi_label), refused, strict=True):
        ranking = tuple((labels[k], float(row[k])) for k in np.argsort(-row, kind="stable"))
        if out_of_scope:
            chosen: tuple[str, ...] = ()
        elif multi_label:
            chosen = tuple(name for name, probability in ranking if probability >= MIN_PROBABILITY)
        else:
            chosen = (ranking[0][0],)
        predictions.append(Prediction(chosen, ranking, out_of_scope))
    return predictions


def probabilities(logits: FloatArray, multi_label: bool) -> FloatArray:
    """Return the softmax of each row of logits (n, K).

    For a multi-label classifier, it is the logistic function.
    """
    z = logits.astype(np.float64)
    logs = (
        -np.logaddexp(0.0, -z) if multi_label else z - np.logaddexp.reduce(z, axis=1, keepdims=True)
    )
    return np.exp(logs).astype(np.float32)


class OnnxIntents(Described):
    """Classifies as `rejoinder.intents.classifier.load_classifier` does in float32.

    Args:
        folder: the output of `rejoinder intents export`.
        threads: processor threads to use; None leaves onnxruntime's own choice.

    Raises:
        InputError: as for `OnnxEncoder`, or the folder holds no classifier.
    """

    def __init__(self, folder: str | Path, threads: int | None = None) -> None:
        self.encoder = OnnxEncoder(folder, threads)
        if (known := self.encoder.manifest.get("intents")) is None:
            raise InputError(
                f"{folder} is a model without intents;"
                " `rejoinder intents export CLASSIFIER` writes both"
            )
        if "multi_label" not in known:
            raise InputError(
                f"{folder} was written by an earlier version of Rejoinder;"
                " export the classifier again"
            )
        self.labels: tuple[str, ...] = tuple(known["labels"])
        self.multi_label: bool = known["multi_label"]  # a text may have any number of intents
        self.rejection = None if known["rejection"] is None else Rejection(**known["rejection"])
        self._vectors = known["vectors"]
        self._program = open_program(self.encoder.folder / INTENTS, threads)

    def __reduce__(self) -> tuple[type[OnnxIntents], tuple[Path, int | None]]:
        return OnnxIntents, (self.encoder.folder, self.encoder.threads)

    def facts(self) -> Mapping[str, object]:
        """Return the text that shows the classifier."""
        return {
            "folder": self.encoder.name,
            "intents": len(self.labels),
            "multi_label": self.multi_label,
        }

    def predict(self, texts: Sequence[str]) -> list[Prediction]:
        """Return the intents of texts, cleaned as messages; a blank text is an InputError."""
        check_texts(read_texts(texts))
        vectors = unit_rows(text_vectors(self.encoder, clean_messages(texts), self._vectors))
        logits, distances = self._program(vectors=vectors)
        return decide(logits, distances, self.labels, self.multi_label, self.rejection)
