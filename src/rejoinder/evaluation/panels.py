"""Encoded texts as points, a panel for each model (ACL19, figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rejoinder.evaluation.plots import COLOURS, MARKERS, new_figure
from rejoinder.ranker import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS_A_LINE = 4
PANEL = 3.4
"""Inches of a panel's side."""

_COLOURS = COLOURS[:7]  # the yellow one cannot be seen on white


@dataclass(frozen=True)
class Panel:
    """One model's picture.

    Attributes:
        title: stands above it.
        points: array (n, 2).
        caption: stands below it.
    """

    title: str
    points: FloatArray
    caption: str


def draw_panels(panels: Sequence[Panel], categories: Sequence[str], names: Sequence[str]) -> Figure:
    """All panels with one legend.

    Args:
        panels: of the same texts.
        categories: category of each text.
        names: the categories in the legend's order. Each has its own colour and shape; colours come again from the
            eighth on, with another shape.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    height = -(-len(panels) // PANELS_A_LINE)
    width = -(-len(panels) // height)  # lines of about equal length
    most = max(2, width)  # a single panel still has room for a legend below
    columns = max(1, min(len(names), int(most * PANEL / 2.6)))
    legend = 0.22 * -(-len(names) // columns)
    figure = new_figure(most * PANEL, height * (PANEL + 0.35) + legend + 0.15)
    grid = figure.subplots(height, width, squeeze=False)
    axes: list[Axes] = list(grid.flat)
    for axis, panel in zip(axes, panels, strict=False):
        _draw(axis, panel, categories, names)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    look = {"fontsize": 8, "frameon": False, "markerscale": 1.6}
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, **look)
    return figure


def _draw(axis: Axes, panel: Panel, categories: Sequence[str], names: Sequence[str]) -> None:
    for place, name in enumerate(names):
        rows = [row for row, category in enumerate(categories) if category == name]
        axis.scatter(
            panel.points[rows, 0],
            panel.points[rows, 1],
            s=14,
            color=_COLOURS[place % len(_COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            linewidths=0,
            alpha=0.85,
            label=name.replace("_", " "),
        )
    axis.set_title(panel.title, fontsize=10)
    axis.set_xlabel(panel.caption, fontsize=9)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_box_aspect(1)
    axis.margins(0.04)
    axis.spines[:].set_color("0.7")
