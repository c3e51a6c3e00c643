"""Predictions of intent classifiers: labels, probabilities, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.conversations import read_texts
from rejoinder.errors import InputError
from rejoinder.intents.refusal import Rejection

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
    """Raise InputError for a single text in place of a list, and for a blank text."""
    for number, text in enumerate(read_texts(texts), 1):
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
