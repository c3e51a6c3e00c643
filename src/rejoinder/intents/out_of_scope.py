"""Texts with none of the intents: how unlike the training texts is a text, and from where on is it refused?

| score | of a text with logits z and vector x of unit length | source |
|---|---|---|
| probability | 1 - max softmax(z) | Hendrycks and Gimpel 2017 |
| energy | -log Σ exp z | Liu et al. 2020, "Energy-based Out-of-distribution Detection" |
| distance | 1 - the greatest cosine of x - m with an intent's centroid - m, m the mean of all training vectors | ours |

The higher, the more probably out of scope.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError
from rejoinder.intents.encoders import unit_rows
from rejoinder.intents.fitting import Encoded
from rejoinder.ranker import FloatArray

ScoreName: TypeAlias = Literal["probability", "energy", "distance"]
SCORES: tuple[ScoreName, ...] = get_args(ScoreName)
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Centroids:
    """Where the intents are.

    Attributes:
        mean: of all training vectors, (d,).
        directions: (K, d), unit vectors from there to the intents' means.
    """

    mean: FloatArray
    directions: FloatArray

    @classmethod
    def of(cls, data: Encoded) -> Centroids:
        """Centroids of encoded training texts."""
        mean = data.vectors.mean(axis=0)
        sums = data.targets.T @ (data.vectors - mean)
        return cls(mean, unit_rows(sums))

    def distances(self, vectors: FloatArray) -> Array:
        """1 - the greatest cosine, (n,)."""
        return np.asarray(1.0 - (unit_rows(vectors - self.mean) @ self.directions.T).max(axis=1), dtype=np.float64)


@dataclass(frozen=True)
class Rejection:
    """What is refused: texts whose score is above the threshold."""

    score: ScoreName
    threshold: float


@dataclass(frozen=True)
class OutOfScopeResult:
    """How well texts out of scope are told from those in scope; shares from 0 to 1.

    Attributes:
        score: what decided.
        threshold: from where on.
        in_scope_accuracy: texts in scope that are accepted and get the right intent.
        in_scope_accuracy_unrefused: those that get the right intent when nothing is refused.
        recall: texts out of scope that are refused.
        precision: refused texts that are out of scope; None where none was refused.
        auroc: probability that a text out of scope has a higher score than one in scope; equal scores count half.
        in_scope: number of texts in scope.
        out_of_scope: number of texts out of scope.
    """

    score: ScoreName
    threshold: float
    in_scope_accuracy: float
    in_scope_accuracy_unrefused: float
    recall: float
    precision: float | None
    auroc: float
    in_scope: int
    out_of_scope: int

    def to_json(self) -> dict[str, float | str | None]:
        """All of it."""
        return asdict(self)


def log_sum_exp(logits: FloatArray) -> Array:
    """Log Σ exp of each row, (n,)."""
    top = logits.max(axis=1).astype(np.float64)
    return np.asarray(top + np.log(np.exp(logits - top[:, None]).sum(axis=1)), dtype=np.float64)


def scores(name: ScoreName, logits: FloatArray, vectors: FloatArray, centroids: Centroids) -> Array:
    """One score for each of n texts, (n,).

    Args:
        name: which.
        logits: of the classifier, (n, K).
        vectors: of unit length, (n, d).
        centroids: of the training texts.
    """
    if name == "distance":
        return centroids.distances(vectors)
    energy = -log_sum_exp(logits)
    return energy if name == "energy" else 1.0 - np.exp(logits.max(axis=1) + energy)


def auroc(inside: Array, outside: Array) -> float:
    """Probability that one of `outside` is above one of `inside`; equal ones count half (Mann-Whitney U / nm).

    Raises:
        InputError: one of them is empty.
    """
    if not len(inside) or not len(outside):
        raise InputError("texts in scope and out of scope are needed to tell how well they are told apart")
    ordered = np.sort(inside)
    below, upto = np.searchsorted(ordered, outside, "left"), np.searchsorted(ordered, outside, "right")
    return float((below + upto).mean() / (2 * len(inside)))


def best_threshold(inside: Array, right: npt.NDArray[np.bool_], outside: Array) -> tuple[float, float]:
    """The threshold with the best mean of in-scope accuracy and out-of-scope recall, and that mean.

    Args:
        inside: scores of the texts in scope, (n,).
        right: whether they get the right intent, (n,).
        outside: scores of the texts out of scope, (m,), m at least 1.
    """
    marks = np.unique(np.concatenate([inside, outside]))
    # Between two scores that occur, and beyond the ends: nothing, everything.
    cuts = np.concatenate([[marks[0] - 1.0], (marks[:-1] + marks[1:]) / 2, [marks[-1] + 1.0]])
    accepted = np.searchsorted(np.sort(inside[right]), cuts, "right") / len(inside)
    refused = 1.0 - np.searchsorted(np.sort(outside), cuts, "right") / len(outside)
    best = int(np.argmax(accepted + refused))
    return float(cuts[best]), float((accepted[best] + refused[best]) / 2)


def choose_rejection(
    inside: Mapping[ScoreName, Array], right: npt.NDArray[np.bool_], outside: Mapping[ScoreName, Array]
) -> Rejection:
    """The score and the threshold with the best mean of in-scope accuracy and out-of-scope recall, on validation data.

    Args:
        inside: by score, those of the n texts in scope.
        right: whether these get the right intent, (n,).
        outside: by score, those of the texts out of scope.
    """
    found = {name: best_threshold(inside[name], right, outside[name]) for name in inside}
    best = max(found, key=lambda name: found[name][1])
    return Rejection(best, found[best][0])


def judge(rejection: Rejection, inside: Array, right: npt.NDArray[np.bool_], outside: Array) -> OutOfScopeResult:
    """What a rejection does to test texts; the arguments as in `best_threshold`, of the rejection's score."""
    refused_inside, refused_outside = inside > rejection.threshold, outside > rejection.threshold
    refused = int(refused_inside.sum() + refused_outside.sum())
    return OutOfScopeResult(
        score=rejection.score,
        threshold=rejection.threshold,
        in_scope_accuracy=float((right & ~refused_inside).mean()),
        in_scope_accuracy_unrefused=float(right.mean()),
        recall=float(refused_outside.mean()),
        precision=float(refused_outside.sum() / refused) if refused else None,
        auroc=auroc(inside, outside),
        in_scope=len(inside),
        out_of_scope=len(outside),
    )
