"""Accuracy with few texts of each intent, and the learning curve."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rejoinder.errors import InputError
from rejoinder.evaluation.bootstrap import RESAMPLES, Estimate
from rejoinder.intents.fitting import fit
from rejoinder.intents.heads import Encoded, FeedForward, Settings
from rejoinder.intents.refusal import BoolArray
from rejoinder.intents.sampling import draw
from rejoinder.progress import Advance, silent

SHOTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000)
CURVE_POINTS = 6
MIN_CURVE_POINTS = 3


@dataclass(frozen=True)
class FewShot:
    """Accuracy with `shots` texts of each intent; None: all."""

    shots: int | None
    accuracy: Estimate  # the mean over trainings and test texts; see `crossed_interval`
    trainings: int
    texts: int  # of one training
    seconds: float  # mean of one training, without encoding
    each: tuple[float, ...]
    right: BoolArray  # whether each text got its intent, (trainings, test texts)


def crossed_interval(right: BoolArray, seed: int = 0) -> Estimate:
    """Return the mean of `right` (trainings, texts).

    Resamples draw both (Owen 2007, "The pigeonhole bootstrap").
    """
    trainings, texts = right.shape
    generator = np.random.default_rng(seed)
    weights = generator.multinomial(trainings, np.full(trainings, 1 / trainings), size=RESAMPLES)
    means = np.empty(RESAMPLES)
    for row in range(RESAMPLES):
        drawn = np.bincount(generator.integers(texts, size=texts), minlength=texts)
        means[row] = weights[row] @ (right @ drawn) / (trainings * texts)
    low, high = np.quantile(means, (0.025, 0.975))
    return Estimate(float(right.mean()), float(low), float(high))


def seeds_used(how: Settings, shots: int | None, seeds: Sequence[int]) -> Sequence[int]:
    """Return the seeds to train with: the first alone where a training involves no randomness."""
    is_random = shots is not None or how.kind != "logistic"
    return seeds if is_random else seeds[:1]


def count_trainings(how: Settings, sizes: Iterable[int | None], seeds: Sequence[int]) -> int:
    """Return the number of trainings of `few_shot` at these sizes."""
    return sum(len(seeds_used(how, shots, seeds)) for shots in sizes)


def few_shot(
    how: Settings,
    train: Encoded,
    test: Encoded,
    shots: int | None,
    seeds: Sequence[int],
    advance: Advance = silent,
) -> FewShot:
    """Train once for each seed on a draw of the training texts, and test all on the same texts."""
    if train.multi_label:
        raise InputError(
            "the few-shot protocol draws texts of each intent, so a text must have one intent"
        )
    if not seeds:
        raise InputError("no seeds; give one or more")
    seeds = seeds_used(how, shots, seeds)
    right = []
    seconds = 0.0
    texts = 0
    for seed in seeds:
        part = train.rows(draw(train.classes, shots, seed))
        start = time.perf_counter()
        head = fit(how, part, seed=seed).head
        seconds = seconds + time.perf_counter() - start
        texts = len(part)
        right.append(head.logits(test.vectors).argmax(axis=1) == test.classes)
        advance(1)
    outcomes = np.array(right)
    accuracies = tuple(float(row.mean()) for row in outcomes)
    return FewShot(
        shots,
        crossed_interval(outcomes),
        len(seeds),
        texts,
        seconds / len(seeds),
        accuracies,
        outcomes,
    )


def curve_shots(how: Settings, train: Encoded) -> list[int | None]:
    """Return the sizes of a learning curve, evenly spaced on a logarithmic scale.

    The last size is all texts (None). Of one text an intent none can be held out, as early stopping
    does.
    """
    counts = np.bincount(train.classes, minlength=train.targets.shape[1])
    least = 2 if isinstance(how, FeedForward) and how.patience else 1
    most = np.median(counts[counts > 0]) * 0.8
    below = [shots for shots in SHOTS if least <= shots < most]
    places = np.linspace(0, len(below) - 1, min(CURVE_POINTS - 1, len(below))).round().astype(int)
    return [*(below[row] for row in np.unique(places)), None]


def learning_curve(
    settings: Settings,
    train: Encoded,
    test: Encoded,
    *,
    seeds: Sequence[int],
    advance: Advance = silent,
) -> tuple[FewShot, ...]:
    """Train at several sizes, from small to large, and test all on the same texts."""
    sizes = curve_shots(settings, train)
    if len(sizes) < MIN_CURVE_POINTS:
        raise InputError(
            f"{len(train)} texts are too few for a learning curve; most intents need four"
        )
    return tuple(few_shot(settings, train, test, shots, seeds, advance) for shots in sizes)
