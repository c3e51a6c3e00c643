"""Refusing a text that is out of scope: one of three scores is above a threshold.

The higher the score, the more probably a text with logits z and unit vector x is out of scope:

- probability: 1 - max softmax(z) (Hendrycks and Gimpel 2017)
- energy: -log Σ exp z (Liu et al. 2020, "Energy-based Out-of-distribution Detection")
- distance (ours): 1 - the greatest cosine of x - m with an intent's centroid - m, m being the mean
  training vector
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray

ScoreName: TypeAlias = Literal["probability", "energy", "distance"]

SCORES: tuple[ScoreName, ...] = get_args(ScoreName)

Scores = npt.NDArray[np.float64]

BoolArray = npt.NDArray[np.bool_]

REFUSED = 0.05  # share of texts in scope, if everyday messages stand for those out of scope
REFUSED_OUTSIDE = 0.9  # share of texts out of scope, if too few in scope can be held out
MOST_REFUSED = 0.5  # share of the training texts; larger shares are taken for a failed fit

# How a threshold was chosen, as a classifier's card has it.
BY_HELD_OUT = "held-out texts"
BY_OUTSIDE_FEW = "texts out of scope, as too few texts can be held out"
BY_OUTSIDE_MISFIT = "texts out of scope, as the best threshold refuses most training texts"


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

    def rows(self, chosen: npt.NDArray[np.int64]) -> HeldOut:
        """Return these texts in scope, with all texts out of scope."""
        return HeldOut(self.logits[chosen], self.scores[chosen], self.oos_scores)


def scores(logits: FloatArray, distances: FloatArray) -> Scores:
    """Return the scores in the order of `SCORES`, (n, 3)."""
    z = logits.astype(np.float64)
    energy = -np.logaddexp.reduce(z, axis=1)
    probability = 1 - np.exp(z.max(axis=1) + energy)
    return np.stack([probability, energy, distances.astype(np.float64)], axis=1)


def refused_words(score: ScoreName, threshold: float, digits: int) -> tuple[str, str]:
    """Return in words which texts are refused: a quantity, and where it is if they are.

    The quantity of the score `probability` is the highest probability, which predictions show. The
    threshold has so many significant `digits`.
    """
    number = f"{threshold:.{digits}g}"
    if score == "probability":
        return "highest probability", f"below {1 - Decimal(number):f}"
    return score, f"above {number}"


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


def reject_outside(oos_distances: FloatArray, train_distances: FloatArray) -> Rejection:
    """Return a threshold of the distance, chosen without held-out texts in scope.

    It refuses `REFUSED_OUTSIDE` of the texts out of scope (m,), fewer if it would refuse more than
    `REFUSED` of the training texts (n,).
    """
    threshold = max(
        np.quantile(oos_distances, 1 - REFUSED_OUTSIDE),
        np.quantile(train_distances, 1 - REFUSED, method="higher"),
    )
    return Rejection("distance", float(threshold))


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
