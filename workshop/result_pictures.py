"""Pictures of figures: panels of a page of results (see `results`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from rejoinder.evaluation import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Json: TypeAlias = Mapping[str, Any]

SYSTEMS = {  # of quality.json, with R@1 of DATA19 and CONVERT on Reddit
    "tfidf": ("TF-IDF", "26.4"),
    "bm25": ("BM25", "27.5"),
    "sim:use": ("USE, cosine", "36.6"),
    "sim:minilm": ("MiniLM, newest message", ""),
    "sim-history:minilm": ("MiniLM, with history", ""),
    "sim-history:st:minilm-static": ("MiniLM's subwords (Model2Vec), with history", ""),
    "sim-history:st:all-mpnet-base-v2": ("mpnet, with history", ""),
    "demo/scratch/model": ("ConveRT from scratch, 1.5 minutes", "68.2"),
    "convert-small": ("`convert-small`, as it comes", ""),
    "demo/tuned-convert-small/model": ("`convert-small`, fine-tuned", ""),
    "bi-small": ("`bi-small`, as it comes", ""),
    "demo/tuned/model": ("`bi-small`, fine-tuned", ""),
    "bi-base": ("`bi-base`, as it comes", ""),
    "bi-large": ("`bi-large`, as it comes", ""),
}


def systems(figures: Json) -> dict[str, Json]:
    """Return the rows of quality.json by the systems' names, in the order of `SYSTEMS`."""
    names = {name: SYSTEMS.get(name, (name, ""))[0] for name in figures["rows"]}
    order = [
        *(name for name in SYSTEMS if name in names),
        *(name for name in names if name not in SYSTEMS),
    ]
    return {names[name]: figures["rows"][name] for name in order}


def against(key: str, label: str, factor: float) -> Callable[[Axes, Json], None]:
    """Return what draws R@1 of each system against one of its figures."""

    def draw(axis: Axes, figures: Json) -> None:
        shown = {name: row for name, row in systems(figures).items() if row[key]}
        for place, (name, row) in enumerate(shown.items()):
            colour = plots.COLOURS[place % 7]
            axis.scatter(
                row[key] * factor,
                row["recall"]["1"][0],
                color=colour,
                marker=plots.MARKERS[place % 8],
                label=name.replace("`", ""),
            )
        # whole decades: their ticks have room
        ends = [math.log10(row[key] * factor) for row in shown.values()]
        limits = 10.0 ** math.floor(min(ends)), 10.0 ** math.ceil(max(ends))
        axis.set(xlabel=label, xscale="log", xlim=limits, ylabel="R@1, %", ylim=(0, None))
        axis.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)

    return draw


def curves(axis: Axes, figures: Json) -> None:
    """Draw recall in validation over the steps."""
    for place, (name, points) in enumerate(figures["curves"].items()):
        steps = [point["steps"] for point in points]
        recall = [point["recall"] for point in points]
        axis.plot(
            steps, recall, color=plots.COLOURS[place], marker=plots.MARKERS[place], label=name
        )
    axis.set(xlabel="steps", ylabel="R@1 in validation, %", ylim=(0, None))
    axis.legend(fontsize=7)


def recall_latency(axis: Axes, figures: Json) -> None:
    """Draw the recall of searches over their median time."""
    for place, row in enumerate(figures["rows"]):
        colour = plots.COLOURS[place]
        marker = plots.MARKERS[place]
        axis.scatter(row["ms"], row["recall"], color=colour, marker=marker, label=row["search"])
    axis.set(
        xscale="log", xlabel="ms, median", ylabel=f"recall of the 30 best of {figures['replies']:,}"
    )
    axis.legend(fontsize=7)


def limit(axis: Axes, figures: Json) -> None:
    """Draw the share of the machine's own limit that each row reaches."""
    rows = figures["rows"]
    axis.barh(
        list(rows), [100 * row["limit_share"] for row in rows.values()], color=plots.COLOURS[0]
    )
    axis.set(xlim=(0, 100), xlabel="% of what the machine's products could do")
    axis.invert_yaxis()
