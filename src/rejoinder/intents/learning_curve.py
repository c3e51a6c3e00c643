"""How accuracy grows with the training texts, and what more of them would bring, with the uncertainty of that.

The error on new texts mostly falls as a power of the number of training texts n, towards a floor (Hestness et al.
2017, "Deep Learning Scaling is Predictable, Empirically"):

    error(n) = floor + a · n^(-b),  b > 0

The curve is fitted to the sizes measured, again for every resample of trainings and test texts, which gives intervals.
They cover chance, not a wrong form of the curve; so the largest size is also predicted from the smaller ones, to be
seen beside what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError
from rejoinder.evaluation.bootstrap import Estimate
from rejoinder.intents.fitting import Encoded
from rejoinder.intents.protocol import FewShot, few_shot
from rejoinder.intents.settings import Settings

Array = npt.NDArray[np.float64]

SHOTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000)
LEAST_POINTS = 3
FLOORS = 25
RESAMPLES = 300


@dataclass(frozen=True)
class Extrapolation:
    """An accuracy that the curve predicts.

    Attributes:
        factor: times the training texts there are.
        texts: how many these are.
        accuracy: with its interval.
    """

    factor: float
    texts: int
    accuracy: Estimate


@dataclass(frozen=True)
class LearningCurve:
    """What was measured at several sizes, and what follows.

    Attributes:
        points: the sizes measured, from small to large.
        predicted: beyond them.
        check: the largest size as predicted from the smaller ones; None where there are too few.
    """

    points: tuple[FewShot, ...]
    predicted: tuple[Extrapolation, ...]
    check: Extrapolation | None

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "points": [point.to_json() for point in self.points],
            "predicted": [asdict(each) for each in self.predicted],
            "check": None if self.check is None else asdict(self.check),
        }


def curve_shots(train: Encoded, most: int = 6) -> list[int | None]:
    """Sizes to measure: at most so many, roughly evenly spaced as powers, the last one all texts (None)."""
    counts = np.bincount(train.classes, minlength=train.targets.shape[1])
    below = [shots for shots in SHOTS if shots < np.median(counts[counts > 0]) * 0.8]
    places = np.linspace(0, len(below) - 1, min(most - 1, len(below))).round().astype(int)
    return [*(below[place] for place in np.unique(places)), None]


def learning_curve(
    settings: Settings,
    train: Encoded,
    test: Encoded,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    factors: Sequence[float] = (2.0, 4.0),
    shots: Sequence[int | None] | None = None,
    advance: Callable[[int], None] | None = None,
) -> LearningCurve:
    """Train at several sizes and extrapolate.

    Args:
        settings: of the classifier.
        train: all training texts.
        test: what accuracy is measured on.
        seeds: of the draws at each size.
        factors: for how many times the texts there are accuracy is predicted.
        shots: texts of each intent at each size, ascending, None for all; None: chosen by the data.
        advance: called with 1 after each training.

    Raises:
        InputError: the texts are too few for three sizes.
    """
    sizes = curve_shots(train) if shots is None else list(shots)
    if len(sizes) < LEAST_POINTS:
        raise InputError(f"{len(train)} texts are too few for a learning curve; four of most intents are needed")
    points = tuple(few_shot(settings, train, test, shots=s, seeds=seeds, advance=advance) for s in sizes)
    wanted = [factor * len(train) for factor in factors]
    predicted = [
        Extrapolation(factor, round(size), estimate)
        for factor, size, estimate in zip(factors, wanted, extrapolate(points, wanted), strict=True)
    ]
    check = None
    if len(points) > LEAST_POINTS:
        check = Extrapolation(1.0, points[-1].texts, extrapolate(points[:-1], [points[-1].texts])[0])
    return LearningCurve(points, tuple(predicted), check)


def extrapolate(points: Sequence[FewShot], sizes: Sequence[float], seed: int = 0) -> list[Estimate]:
    """Accuracy at other sizes, with 95 % intervals over trainings and test texts."""
    n = np.array([point.texts for point in points], dtype=np.float64)
    wanted = np.array(sizes, dtype=np.float64)
    measured = np.array([1.0 - point.right.mean() for point in points])
    central = 1.0 - predict_errors(n, measured, wanted)
    generator = np.random.default_rng(seed)
    draws = np.array([1.0 - predict_errors(n, _resampled(points, generator), wanted) for _ in range(RESAMPLES)])
    low, high = np.quantile(draws, (0.025, 0.975), axis=0)
    return [Estimate(float(v), float(min(a, v)), float(max(b, v))) for v, a, b in zip(central, low, high, strict=True)]


def _resampled(points: Sequence[FewShot], generator: np.random.Generator) -> Array:
    """Errors of the sizes in one resample: the same test texts for all, other trainings for each."""
    texts = points[0].right.shape[1]
    drawn = generator.integers(texts, size=texts)
    errors = []
    for point in points:
        trainings = generator.integers(len(point.right), size=len(point.right))
        errors.append(1.0 - point.right[np.ix_(trainings, drawn)].mean())
    return np.array(errors)


def predict_errors(n: Array, errors: Array, wanted: Array) -> Array:
    """Fit floor + a·n^(-b) by least squares and give its errors at other sizes.

    For each of some floors the line log(error - floor) = log a - b log n is fitted, where a point weighs as much as an
    error of its own size allows; the floor whose curve is nearest to the measured errors is taken.

    Args:
        n: sizes measured, (s,).
        errors: at these, (s,).
        wanted: other sizes, (t,).
    """
    errors = np.maximum(errors, 1e-6)
    best, found = np.inf, np.full(len(wanted), errors.min())
    for floor in np.linspace(0.0, 0.95, FLOORS) * errors.min():
        slope, offset = np.polyfit(np.log(n), np.log(errors - floor), 1, w=errors - floor)
        slope = min(slope, 0.0)  # more texts never hurt, as far as this curve knows
        offset = np.average(np.log(errors - floor) - slope * np.log(n), weights=(errors - floor) ** 2)
        residual = float(np.square(floor + np.exp(offset + slope * np.log(n)) - errors).sum())
        if residual < best:
            best, found = residual, floor + np.exp(offset + slope * np.log(wanted))
    return np.minimum(found, 1.0)
