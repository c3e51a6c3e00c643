"""Pictures of encodings, a panel for each model (ACL19, figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rejoinder.arrays import FloatArray
from rejoinder.evaluation.plots import COLOURS, MARKERS, PANEL, escape_math, grid_shape, new_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Panel:
    """One model's points (n, 2), with what stands above and below them."""

    title: str
    points: FloatArray
    caption: str


def draw_panels(panels: Sequence[Panel], categories: Sequence[str], names: Sequence[str]) -> Figure:
    """Draw panels of the same texts, coloured by category, with one ordered legend."""
    lines, width = grid_shape(len(panels))
    most = max(2, width)  # a single panel still has room for a legend below
    columns = max(1, min(len(names), int(most * PANEL / 2.6)))
    legend = 0.22 * -(-len(names) // columns)
    figure, axes = new_grid(len(panels), most * PANEL, lines * (PANEL + 0.35) + legend + 0.15)
    for axis, panel in zip(axes, panels, strict=True):
        _draw_panel(axis, panel, categories, names)
    handles, labels = axes[0].get_legend_handles_labels()
    look = {"fontsize": 8, "frameon": False, "markerscale": 1.6}
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, **look)
    return figure


def _draw_panel(axis: Axes, panel: Panel, categories: Sequence[str], names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        points = panel.points[[row for row, category in enumerate(categories) if category == name]]
        colour = COLOURS[number % 7]  # the eighth colour, yellow, is invisible on white
        look: dict[str, Any] = {
            "color": colour,
            "marker": MARKERS[number % len(MARKERS)],
            "s": 14,
            "alpha": 0.85,
        }
        label = escape_math(name.replace("_", " "))
        axis.scatter(points[:, 0], points[:, 1], linewidths=0, label=label, **look)
    axis.set_title(escape_math(panel.title), fontsize=10)
    axis.set_xlabel(panel.caption, fontsize=9)
    axis.set(xticks=[], yticks=[], box_aspect=1)
    axis.margins(0.04)
    axis.spines[:].set_color("0.7")
