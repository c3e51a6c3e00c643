"""The pictures of a report: the confusion matrix and the learning curve (extra `plots`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.errors import MissingExtraError
from rejoinder.files import atomic_file
from rejoinder.intents.learning_curve import LearningCurve

IntArray = npt.NDArray[np.int64]

MOST_INTENTS = 30
"""Rows of a confusion matrix that can be read; of more intents, those with the most confusions are shown."""

SHADE_LIMIT = 0.5
"""Share of a row above which a cell is so dark that its number is white."""


def check_plots() -> None:
    """Refuse pictures where the library is absent, before any work is done for them.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("pictures (or leave them out: --no-pictures)", "plots")


def shown_intents(matrix: IntArray, most: int = MOST_INTENTS) -> IntArray:
    """The intents to show, (k,): all, or those with the most confusions, confused ones next to each other."""
    wrong = matrix * (1 - np.eye(len(matrix), dtype=np.int64))
    both = wrong + wrong.T
    chosen = np.argsort(-both.sum(axis=1), kind="stable")[:most] if len(matrix) > most else np.arange(len(matrix))
    order, left = [int(chosen[0])], {int(i) for i in chosen[1:]}
    while left:  # next: the one that is confused most with the last one
        nearest = max(left, key=lambda i: (both[order[-1], i], -i))
        order.append(nearest)
        left.remove(nearest)
    return np.array(order)


def draw_confusions(matrix: IntArray, labels: Sequence[str], path: Path) -> None:
    """Write the confusion matrix as PNG: rows true, columns predicted, each row shaded by its shares.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    chosen = shown_intents(matrix)
    part = matrix[np.ix_(chosen, chosen)]
    shares = part / np.maximum(matrix[chosen].sum(axis=1, keepdims=True), 1)
    side = 2.5 + 0.32 * len(chosen)
    figure, axes = _figure((side + 1.5, side))
    axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    for i, j in zip(*np.nonzero(part), strict=True):
        colour = "white" if shares[i, j] > SHADE_LIMIT else "black"
        axes.text(j, i, str(part[i, j]), ha="center", va="center", fontsize=6, color=colour)
    names = [labels[i] for i in chosen]
    axes.set_xticks(range(len(chosen)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(chosen)), names, fontsize=7)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    total = f"the {len(chosen)} of {len(matrix)} intents with the most confusions" if len(chosen) < len(matrix) else ""
    axes.set_title(total or f"{len(matrix)} intents", fontsize=9)
    _write(figure, path)


def draw_curve(curve: LearningCurve, path: Path) -> None:
    """Write the learning curve as PNG: measured, and beyond that predicted.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure, axes = _figure((6.0, 4.0))
    measured = [(point.texts, point.accuracy) for point in curve.points]
    predicted = [(each.texts, each.accuracy) for each in curve.predicted]
    for rows, name, style in ((measured, "measured", "o-"), (measured[-1:] + predicted, "predicted", "s--")):
        sizes = np.array([size for size, _ in rows])
        values = np.array([(e.value, e.value - e.low, e.high - e.value) for _, e in rows]) * 100
        axes.errorbar(sizes, values[:, 0], yerr=np.maximum(values[:, 1:].T, 0), fmt=style, capsize=3, label=name)
    axes.set_xscale("log")
    axes.set_xlabel("training texts")
    axes.set_ylabel("accuracy, %")
    axes.grid(alpha=0.3)
    axes.legend()
    _write(figure, path)


def _figure(size: tuple[float, float]) -> tuple[Any, Any]:
    check_plots()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=120, layout="constrained")
    FigureCanvasAgg(figure)  # no window, whatever the surroundings are set to
    return figure, figure.add_subplot()


def _write(figure: Any, path: Path) -> None:
    with atomic_file(path) as part:
        figure.savefig(part, format="png")
