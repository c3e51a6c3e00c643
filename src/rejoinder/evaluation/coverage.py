"""Probabilities of answers beside how many are right: calibration error, coverage, precision."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

BINS = 15
Probabilities = npt.NDArray[np.float64]
Right = npt.NDArray[np.bool_]


class Bin(NamedTuple):
    """Answers with similar probabilities."""

    answers: int
    probability: float  # mean of the answers
    right: float  # share of right answers


class Point(NamedTuple):
    """Share of questions answered from a probability on, and their precision."""

    threshold: float
    coverage: float  # share of answered questions
    precision: float  # share of right answers among them


def bins(probabilities: Probabilities, right: Right) -> list[Bin]:
    """Return the bins of equal width from 0 to 1 that are not empty, by ascending probability."""
    places = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
    groups = [places == number for number in np.unique(places)]
    return [
        Bin(int(g.sum()), float(probabilities[g].mean()), float(right[g].mean())) for g in groups
    ]


def calibration_error(probabilities: Probabilities, right: Right) -> float:
    """Return the expected calibration error.

    It is the mean distance between share and probability over all answers. Source: Guo et al., "On
    Calibration of Modern Neural Networks" (2017), section 2, with their 15 bins.
    """
    return sum(
        group.answers * abs(group.right - group.probability) for group in bins(probabilities, right)
    ) / len(right)


def coverage_curve(probabilities: Probabilities, right: Right) -> list[Point]:
    """Return a point for each different probability, descending.

    It gives coverage and precision with this threshold.
    """
    order = np.argsort(-probabilities, kind="stable")
    ordered = probabilities[order]
    hits = np.cumsum(right[order])
    # equal probabilities are answered together
    last = np.flatnonzero(np.append(np.diff(ordered) != 0, True))
    return [
        Point(float(ordered[i]), (i + 1) / len(order), hits[i] / (i + 1)) for i in last.tolist()
    ]


def at_threshold(probabilities: Probabilities, right: Right, threshold: float) -> Point:
    """Return coverage and precision of a threshold; without answers, precision is NaN."""
    answered = probabilities >= threshold
    precision = float(right[answered].mean()) if answered.any() else float("nan")
    return Point(threshold, float(answered.mean()), precision)


def for_precision(probabilities: Probabilities, right: Right, precision: float) -> Point | None:
    """Return the point of largest coverage with at least this precision, if any.

    Its threshold is the highest of two digits that gives this coverage, if there is one: a lower
    one would let answers pass whose probabilities no example had.
    """
    curve = coverage_curve(probabilities, right)
    good = [number for number, point in enumerate(curve) if point.precision >= precision]
    if not good:
        return None
    point = curve[good[-1]]
    below = curve[good[-1] + 1].threshold if good[-1] + 1 < len(curve) else -1.0
    rounded = min(math.floor(point.threshold * 100 + 1e-9) / 100, point.threshold)
    return point._replace(threshold=rounded) if rounded > below else point
