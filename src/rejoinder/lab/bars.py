"""The chart of a table: recall at 1 with its interval, a panel for each data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rejoinder.evaluation import plots
from rejoinder.lab.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAR = 0.28  # inches of the chart for each system, and for each data set
PANEL = 2.9


def draw_bars(table: Table) -> Figure:
    """Draw a panel for each data set.

    R@1 is a bar for each system with its 95 % interval, or a dash.
    """
    height, width = plots.grid_shape(len(table.columns))
    names = max(map(len, table.systems)) * 0.075
    figure, axes = plots.new_grid(
        len(table.columns),
        width=names + PANEL * width + 0.3,
        height=(BAR * len(table.systems) + 0.8) * height + 0.7,
        sharey=True,
    )
    groups = dict.fromkeys(table.systems.values())  # the last ones may share a colour
    colours = {
        group: plots.COLOURS[min(number, len(plots.COLOURS) - 1)]
        for number, group in enumerate(groups)
    }
    for axis, column in zip(axes, table.columns, strict=True):
        _draw_column(axis, table, column, colours)
    title = plots.escape_math(table.name)
    figure.suptitle(f"{title}: R@1 in %, 95 % intervals", fontsize=11)
    if len(colours) > 1:
        from matplotlib.patches import Patch

        patches = [
            Patch(color=colour, label=plots.escape_math(group or "other"))
            for group, colour in colours.items()
        ]
        look = {
            "loc": "outside lower center",
            "ncols": min(len(patches), 6),
            "fontsize": 8,
            "frameon": False,
        }
        figure.legend(handles=patches, **look)
    return figure


def _draw_column(axis: Axes, table: Table, column: str, colours: Mapping[str, str]) -> None:
    """Draw the bars of a column, with their intervals."""
    highest = 0.0
    for position, (system, group) in enumerate(table.systems.items()):
        cell = table.cell(system, column)
        if cell.result is None:
            axis.text(
                0.6, position, "-" if cell.missing else "", va="center", fontsize=8, color="0.4"
            )
            continue
        estimate = cell.result.recall[1]
        value = 100 * estimate.value
        low = 100 * estimate.low
        high = 100 * estimate.high
        highest = max(highest, high)
        axis.barh(position, value, color=colours[group], height=0.7)
        axis.errorbar(
            value,
            position,
            xerr=[[value - low], [high - value]],
            color="0.15",
            capsize=2,
            linewidth=1,
        )
        axis.text(high + 1, position, f"{value:.1f}", va="center", fontsize=7)
    highest = highest if table.results(column) else 100.0
    axis.set_title(plots.escape_math(column), fontsize=9, loc="left")
    systems = [plots.escape_math(system) for system in table.systems]
    axis.set_yticks(range(len(systems)), systems, fontsize=8)
    axis.set_ylim(len(table.systems) - 0.4, -0.6)  # the first system on top
    # with room for the number beside the longest interval
    axis.set_xlim(0, max(1.15 * highest, highest + 3))
    axis.tick_params(axis="x", labelsize=7)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="x", color="0.9")
    axis.set_axisbelow(True)
