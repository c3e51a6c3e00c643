"""The chart of a table: recall at 1 of every system on every data set, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rejoinder.evaluation.plots import COLOURS, new_figure
from rejoinder.evaluation.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS_A_LINE = 4
BAR = 0.28
"""Inches for each system."""
PANEL = 2.9
"""Inches for each data set."""


def draw_bars(table: Table) -> Figure:
    """A panel for each data set, a bar for each system, its 95 % interval over it; a dash where nothing was measured.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    count = len(table.columns)
    height = -(-count // PANELS_A_LINE)
    width = -(-count // height)  # lines of about equal length
    names = max(len(line.name) for line in table.lines.values()) * 0.075
    figure = new_figure(names + PANEL * width + 0.3, (BAR * len(table.lines) + 0.8) * height + 0.7)
    grid = figure.subplots(height, width, squeeze=False, sharey=True)
    colours = _colours(table)
    axes: list[Axes] = list(grid.flat)
    for axis, column in zip(axes, table.columns, strict=False):
        _draw_column(axis, table, column, colours)
    for axis in axes[count:]:
        axis.set_visible(False)
    figure.suptitle(f"{table.name}: R@1 in %, 95 % intervals", fontsize=11)
    if len(colours) > 1:
        _draw_legend(figure, colours)
    return figure


def _draw_column(axis: Axes, table: Table, column: str, colours: dict[str, str]) -> None:
    for place, (key, line) in enumerate(table.lines.items()):
        cell = table.cell(key, column)
        if cell.result is None:
            axis.text(0.6, place, "-" if cell.missing else "", va="center", fontsize=8, color="0.4")
            continue
        estimate = cell.result.recall[1]
        value, low, high = 100 * estimate.value, 100 * estimate.low, 100 * estimate.high
        axis.barh(place, value, color=colours[line.group], height=0.7)
        axis.errorbar(value, place, xerr=[[value - low], [high - value]], color="0.15", capsize=2, linewidth=1)
        axis.text(high + 1, place, f"{value:.1f}", va="center", fontsize=7)
    axis.set_title(table.columns[column].name, fontsize=9, loc="left")
    axis.set_yticks(range(len(table.lines)), [line.name for line in table.lines.values()], fontsize=8)
    axis.set_ylim(len(table.lines) - 0.4, -0.6)  # the first system on top
    axis.set_xlim(0, _limit(table, column))
    axis.tick_params(axis="x", labelsize=7)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="x", color="0.9")
    axis.set_axisbelow(True)


def _limit(table: Table, column: str) -> float:
    """Where the axis of a panel ends: beyond the longest interval, with room for the number beside it."""
    results = [table.cell(line, column).result for line in table.lines]
    highest = max((100 * result.recall[1].high for result in results if result), default=100.0)
    return max(1.15 * highest, highest + 3)


def _colours(table: Table) -> dict[str, str]:
    """A colour for each group, in the order in which they come; the last ones share if there are too many."""
    groups = dict.fromkeys(line.group for line in table.lines.values())
    return {group: COLOURS[min(place, len(COLOURS) - 1)] for place, group in enumerate(groups)}


def _draw_legend(figure: Figure, colours: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    patches = [Patch(color=colour, label=group or "other") for group, colour in colours.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=min(len(patches), 6), fontsize=8, frameon=False)
