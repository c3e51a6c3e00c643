"""The few-shot protocol: so many texts of each intent, drawn with several seeds, one test set."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError
from rejoinder.evaluation.bootstrap import Estimate
from rejoinder.intents.fitting import Encoded, fit
from rejoinder.intents.metrics import crossed_interval
from rejoinder.intents.settings import Settings

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FewShot:
    """What was reached with so many texts of each intent.

    Attributes:
        shots: texts of each intent; None: all there are.
        accuracy: mean over trainings and test texts; the interval draws both (see `metrics.crossed_interval`).
        trainings: how many.
        texts: training texts of one.
        seconds: mean time to train the classifier once, without encoding.
        each: accuracy of each training.
        right: (trainings, test texts), whether each text got its intent.
    """

    shots: int | None
    accuracy: Estimate
    trainings: int
    texts: int
    seconds: float
    each: tuple[float, ...]
    right: npt.NDArray[np.bool_] = field(compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """All of it, but the single texts."""
        return {
            "shots": self.shots,
            "accuracy": self.accuracy.to_json(),
            "trainings": self.trainings,
            "texts": self.texts,
            "seconds": self.seconds,
            "each": list(self.each),
        }


def draw(classes: IntArray, shots: int | None, seed: int) -> IntArray:
    """Numbers of training texts, ascending: `shots` of each class at random, all where it has no more.

    A class's draw of 5 is a part of its draw of 10 with the same seed.
    """
    if shots is None:
        return np.arange(len(classes))
    chosen = []
    for number in np.unique(classes):
        generator = np.random.default_rng((seed, int(number)))
        chosen.append(generator.permutation(np.flatnonzero(classes == number))[:shots])
    return np.sort(np.concatenate(chosen))


def few_shot(
    settings: Settings,
    train: Encoded,
    test: Encoded,
    *,
    shots: int | None,
    seeds: Sequence[int],
    advance: Callable[[int], None] | None = None,
) -> FewShot:
    """Train once for each seed on a draw of the training texts, and test all on the same texts.

    With all texts there is one draw: then the seeds differ in the classifier's own chance alone, and one that has
    none (logistic regression) is trained once.

    Raises:
        InputError: texts may have several intents; or there is no seed.
    """
    if train.several:
        raise InputError("the few-shot protocol draws texts of each intent, so a text must have one intent")
    if not seeds:
        raise InputError("no seeds; give one at least")
    if shots is None and settings.kind == "logistic":
        seeds = seeds[:1]
    right, seconds, texts = [], 0.0, 0
    for seed in seeds:
        part = train.rows(draw(train.classes, shots, seed))
        start = time.perf_counter()
        head = fit(settings, part, seed=seed).head
        seconds, texts = seconds + time.perf_counter() - start, len(part)
        right.append(head.logits(test.vectors).argmax(axis=1) == test.classes)
        if advance is not None:
            advance(1)
    found = np.array(right)
    each = tuple(float(row.mean()) for row in found)
    return FewShot(shots, crossed_interval(found), len(seeds), texts, seconds / len(seeds), each, found)
