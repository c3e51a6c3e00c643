"""From what a classifier computes to what it says: intents, or a refusal. Without PyTorch.

The higher one of these scores, the more probably a text with logits z and unit vector x is out of scope:

- probability: 1 - max softmax(z) (Hendrycks and Gimpel 2017)
- energy: -log Σ exp z (Liu et al. 2020, "Energy-based Out-of-distribution Detection")
- distance (ours): 1 - the greatest cosine of x - m with an intent's centroid - m, m being the mean training vector
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import unit_rows
from rejoinder.errors import InputError
from rejoinder.models.texts import TextEncoder
from rejoinder.progress import Advance
from rejoinder.ranker import FloatArray

if TYPE_CHECKING:
    from rejoinder.models.joined import JoinedEncoder

CERTAIN = 0.5  # where a text may have several intents, it has those of at least this probability
ScoreName: TypeAlias = Literal["probability", "energy", "distance"]
SCORES: tuple[ScoreName, ...] = get_args(ScoreName)
Scores = npt.NDArray[np.float64]
# Of a Rejoinder model: r, the reduction's output (CONVERT 3.1); h, the encoding of a context; r and then h.
Vectors: TypeAlias = Literal["r", "h", "both"]


@dataclass(frozen=True)
class Prediction:
    """The intents of a text."""

    labels: tuple[str, ...]  # one, or none if the text is refused; any number where texts may have several
    ranking: tuple[tuple[str, float], ...]  # all intents with their probabilities, the most probable first
    out_of_scope: bool | None = None  # None where nothing is refused


@dataclass(frozen=True)
class Rejection:
    """Texts whose score is above the threshold are refused."""

    score: ScoreName
    threshold: float


def check_texts(texts: Sequence[str]) -> None:
    """Raise InputError for a blank text."""
    for number, text in enumerate(texts, 1):
        if not text.strip():
            raise InputError(f"text {number} is blank; leave it out")


def text_vectors(
    model: TextEncoder | JoinedEncoder, texts: Sequence[Any], vectors: Vectors, advance: Advance | None = None
) -> FloatArray:
    """Return what a classifier reads of texts, each the newest message of a conversation without history.

    For `h` there may be conversations among them, as lists of texts.
    """
    if vectors == "r":
        return model.transfer(texts, advance)
    h = model.encode_contexts([[text] if isinstance(text, str) else text for text in texts], advance)
    return h if vectors == "h" else np.hstack([unit_rows(model.transfer(texts)), h])


def decide(
    logits: FloatArray, distances: FloatArray, labels: Sequence[str], several: bool, rejection: Rejection | None
) -> list[Prediction]:
    """Return the intents of texts with these logits (n, K) and distances (n,)."""
    refused, predictions = [None] * len(logits), []
    if rejection is not None:
        refused = (scores(logits, distances)[:, SCORES.index(rejection.score)] > rejection.threshold).tolist()
    for row, out in zip(probabilities(logits, several), refused, strict=True):
        ranking = tuple((labels[k], float(row[k])) for k in np.argsort(-row, kind="stable"))
        chosen = [name for name, p in ranking if p >= CERTAIN] if several else [ranking[0][0]]
        predictions.append(Prediction(() if out else tuple(chosen), ranking, out))
    return predictions


def probabilities(logits: FloatArray, several: bool) -> FloatArray:
    """Return the softmax of each row of logits (n, K); with several labels their logistic function."""
    z = logits.astype(np.float64)
    logs = -np.logaddexp(0.0, -z) if several else z - np.logaddexp.reduce(z, axis=1, keepdims=True)
    return np.exp(logs).astype(np.float32)


def scores(logits: FloatArray, distances: FloatArray) -> Scores:
    """Return the scores in the order of `SCORES`, (n, 3)."""
    z = logits.astype(np.float64)
    energy = -np.logaddexp.reduce(z, axis=1)
    return np.stack([1 - np.exp(z.max(axis=1) + energy), energy, distances.astype(np.float64)], axis=1)
