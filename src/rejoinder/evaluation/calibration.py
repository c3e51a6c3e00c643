"""Are probabilities honest, and what does silence buy?

Calibration error, and a risk-coverage curve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rejoinder.evaluation import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 15
Probabilities = npt.NDArray[np.float64]
Right = npt.NDArray[np.bool_]


class Bin(NamedTuple):
    """Answers of about the same probability."""

    answers: int
    probability: float  # the mean
    right: float  # the share that is right


class Point(NamedTuple):
    """Share of questions answered from a probability on, and their precision."""

    threshold: float
    coverage: float  # share of all that is answered
    precision: float  # share of the answers that is right


def bins(probabilities: Probabilities, right: Right) -> list[Bin]:
    """Return the bins of equal width from 0 to 1 that are not empty, by ascending probability."""
    places = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
    groups = [places == place for place in np.unique(places)]
    return [
        Bin(int(g.sum()), float(probabilities[g].mean()), float(right[g].mean())) for g in groups
    ]


def calibration_error(probabilities: Probabilities, right: Right) -> float:
    """Return the expected calibration error.

    It is the mean distance of shares from probabilities, over all answers. Source: Guo et al., "On
    Calibration of Modern Neural Networks" (2017), section 2, with their 15 bins.
    """
    return sum(
        each.answers * abs(each.right - each.probability) for each in bins(probabilities, right)
    ) / len(right)


def coverage_curve(probabilities: Probabilities, right: Right) -> list[Point]:
    """Return a point for each different probability, descending.

    It says what a threshold there answers, and how well.
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
    """Return what a threshold answers; the precision of no answers is nan."""
    answered = probabilities >= threshold
    precision = float(right[answered].mean()) if answered.any() else float("nan")
    return Point(threshold, float(answered.mean()), precision)


def for_precision(probabilities: Probabilities, right: Right, precision: float) -> Point | None:
    """Return the point of the largest coverage with that precision or more, if any."""
    good = (point for point in coverage_curve(probabilities, right) if point.precision >= precision)
    return max(good, key=lambda point: point.coverage, default=None)


def draw(probabilities: Probabilities, right: Right, title: str) -> Figure:
    """Draw how often answers of a probability are right, and the risk by coverage.

    The risk is the share of wrong answers.
    """
    figure, (reliability, risk) = plots.new_grid(2, 2 * plots.PANEL, plots.PANEL + 0.5)
    colour = plots.COLOURS[0]
    grey = "0.6"
    found = bins(probabilities, right)
    reliability.plot([0, 1], [0, 1], color=grey, linewidth=1)
    sizes = [10 + 150 * each.answers / len(right) for each in found]
    reliability.scatter(
        [each.probability for each in found], [each.right for each in found], s=sizes, color=colour
    )
    error = calibration_error(probabilities, right)
    reliability.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability", ylabel="share that is right")
    reliability.set_title(f"expected calibration error {error:.3f}", fontsize=9)
    curve = coverage_curve(probabilities, right)
    risk.plot(
        [each.coverage for each in curve], [1 - each.precision for each in curve], color=colour
    )
    risk.axhline(1 - right.mean(), color=grey, linewidth=1)
    risk.set(
        xlim=(0, 1),
        ylim=(0, 1),
        xlabel="coverage: share that is answered",
        ylabel="risk: share of answers wrong",
    )
    risk.set_title(f"of {len(right):,} examples", fontsize=9)
    for axis in (reliability, risk):
        axis.tick_params(labelsize=8)
        axis.set_box_aspect(1)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=10)
    return figure
