"""How well intents are found: accuracy and F1, per intent and over all, with intervals; the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError
from rejoinder.evaluation.bootstrap import RESAMPLES, Estimate, estimates

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class IntentScore:
    """One intent: how many test texts have it, and how well it is found."""

    label: str
    texts: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Quality:
    """What a classifier reached on test texts.

    Attributes:
        accuracy: share of texts whose label, or with several whose very set of labels, is found; the interval
            resamples texts.
        macro_f1: mean over the intents that the test texts have.
        micro_f1: of all decisions together; with one label per text it is the accuracy.
        texts: how many.
        intents: each one's.
    """

    accuracy: Estimate
    macro_f1: float
    micro_f1: float
    texts: int
    intents: tuple[IntentScore, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "accuracy": self.accuracy.to_json(),
            "macro_f1": self.macro_f1,
            "micro_f1": self.micro_f1,
            "texts": self.texts,
            "intents": [vars_of(score) for score in self.intents],
        }


def vars_of(score: IntentScore) -> dict[str, Any]:
    """An intent's score as JSON."""
    names = ("label", "texts", "precision", "recall", "f1")
    return {name: getattr(score, name) for name in names}


def quality(predicted: BoolArray, true: BoolArray, labels: Sequence[str], seed: int = 0) -> Quality:
    """Compare what was predicted with what is true.

    Args:
        predicted: (n, K), True where text i was given label k.
        true: (n, K), True where it has it.
        labels: the K names.
        seed: of the interval.
    """
    if not len(true):
        raise InputError("no texts to test on")
    right = (predicted == true).all(axis=1)
    hits, given, there = (predicted & true).sum(axis=0), predicted.sum(axis=0), true.sum(axis=0)
    precision, recall = hits / np.maximum(given, 1), hits / np.maximum(there, 1)
    f1 = 2 * hits / np.maximum(given + there, 1)
    intents = tuple(
        IntentScore(name, int(there[k]), float(precision[k]), float(recall[k]), float(f1[k]))
        for k, name in enumerate(labels)
    )
    return Quality(
        accuracy=estimates(right[:, None].astype(np.float64), np.arange(len(right)), seed=seed)[0],
        macro_f1=float(f1[there > 0].mean()) if (there > 0).any() else 0.0,
        micro_f1=float(2 * hits.sum() / max(given.sum() + there.sum(), 1)),
        texts=len(right),
        intents=intents,
    )


def confusions(predicted: IntArray, true: IntArray, count: int) -> IntArray:
    """(K, K): how many texts of intent i were taken for intent j."""
    return np.bincount(true * count + predicted, minlength=count * count).reshape(count, count).astype(np.int64)


def crossed_interval(right: BoolArray, seed: int = 0, resamples: int = RESAMPLES) -> Estimate:
    """Mean accuracy of several trainings on the same test texts, with an interval for both sources of chance.

    A resample draws trainings and test texts, each with replacement (the pigeonhole bootstrap, Owen 2007, "The
    pigeonhole bootstrap"): other training texts might have been drawn, and other test texts. With one training only
    the texts are drawn.

    Args:
        right: (trainings, texts), whether a text got its intent.
        seed: of the draws.
        resamples: how many.
    """
    trainings, texts = right.shape
    generator = np.random.default_rng(seed)
    weights = generator.multinomial(trainings, np.full(trainings, 1 / trainings), size=resamples)
    means = np.empty(resamples)
    for row in range(resamples):
        drawn = np.bincount(generator.integers(texts, size=texts), minlength=texts)
        means[row] = weights[row] @ (right @ drawn) / (trainings * texts)
    low, high = np.quantile(means, (0.025, 0.975))
    return Estimate(float(right.mean()), float(low), float(high))
