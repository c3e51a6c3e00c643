"""Pictures: figures of several panels, projections of encodings, plots of probabilities."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.evaluation.coverage import (
    Probabilities,
    Right,
    bins,
    calibration_error,
    coverage_curve,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, "Color Universal Design" (2008), safe for colour-blind readers; darker colours
# first.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
KINDS = ("png", "svg", "pdf")
RESOLUTION = 150  # dots per inch of a png
PANELS_A_LINE = 4
PANEL = 3.4  # inches of a side

# t-SNE (van der Maaten and Hinton 2008), principal components
Method: TypeAlias = Literal["tsne", "pca"]
METHODS: tuple[Method, ...] = get_args(Method)


def require(library: str, feature: str = "a picture") -> None:
    """Raise MissingExtraError before the work if a library that the result needs is missing."""
    try:
        importlib.import_module(library)
    except ImportError as error:
        raise MissingExtraError(feature, "plots") from error


def picture_kind(path: Path) -> str:
    """Return the picture format from a file's name."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        ends = ", ".join(f".{known_kind}" for known_kind in KINDS)
        raise InputError(f"{path}: a picture's name ends in {ends}; change -o")
    return kind


def grid_shape(panels: int) -> tuple[int, int]:
    """Return the number of lines, about equally long, and of panels in each."""
    lines = -(-panels // PANELS_A_LINE)
    return lines, -(-panels // lines)


def new_grid(panels: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure with this number of panels and size in inches.

    It needs no screen and leaves matplotlib's settings alone.
    """
    require("matplotlib.figure")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    rows, columns = grid_shape(panels)
    axes: list[Axes] = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for axis in axes[panels:]:
        axis.set_visible(False)
    return figure, axes[:panels]


def escape_math(name: str) -> str:
    """Return a name to stand in a figure, where matplotlib reads `$...$` as a formula."""
    return name.replace("$", r"\$")


def save_figure(figure: Figure, path: Path, kind: str) -> None:
    """Write a figure; equal figures give equal bytes."""
    import matplotlib

    about: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    # Text stays text in SVG, so that it can be searched and read aloud.
    with matplotlib.rc_context({"svg.hashsalt": "rejoinder", "svg.fonttype": "none"}):
        figure.savefig(path, format=kind, dpi=RESOLUTION, metadata=about)


def project(
    vectors: FloatArray, method: Method = "tsne", *, perplexity: float | None = None, seed: int = 0
) -> FloatArray:
    """Return two coordinates (n, 2) for the direction of each vector (n, d).

    t-SNE starts from the principal ones. `perplexity` is its own; None: 30, of few texts a third of
    their number.
    """
    rows = unit_rows(vectors)
    if len(rows) < 3:
        raise InputError(f"{len(rows)} texts are too few for a picture; give 3 or more")
    if perplexity is None:
        perplexity = min(30.0, len(rows) / 3)
    if method == "tsne" and not 1 <= perplexity < len(rows):
        raise InputError(
            f"t-SNE's perplexity is {perplexity:g};"
            f" with {len(rows)} texts it is 1 or more and below that"
        )
    require("sklearn", "a projection of encodings")
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    if method == "tsne":
        projection = TSNE(2, perplexity=perplexity, init="pca", random_state=seed)
    else:
        projection = PCA(2, svd_solver="full")
    return np.asarray(projection.fit_transform(rows), dtype=np.float32)


def draw_calibration(probabilities: Probabilities, right: Right, title: str) -> Figure:
    """Draw the share of right answers by probability, and the risk by coverage.

    The risk is the share of wrong answers.
    """
    figure, (reliability, risk) = new_grid(2, 2 * PANEL, PANEL + 0.5)
    colour = COLOURS[0]
    grey = "0.6"
    groups = bins(probabilities, right)
    reliability.plot([0, 1], [0, 1], color=grey, linewidth=1)
    sizes = [10 + 150 * group.answers / len(right) for group in groups]
    reliability.scatter(
        [group.probability for group in groups],
        [group.right for group in groups],
        s=sizes,
        color=colour,
    )
    error = calibration_error(probabilities, right)
    reliability.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability", ylabel="share of right answers")
    reliability.set_title(f"expected calibration error {error:.3f}", fontsize=9)
    curve = coverage_curve(probabilities, right)
    risk.plot(
        [point.coverage for point in curve], [1 - point.precision for point in curve], color=colour
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
    figure.suptitle(escape_math(title), fontsize=10)
    return figure
