"""What all pictures share: matplotlib without a screen, colours that colour-blind people can tell apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rejoinder.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")
"""Okabe and Ito, "Color Universal Design" (2008), the darker ones first."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Shapes, for what colours alone do not tell apart."""

KINDS = ("png", "svg", "pdf")
"""Kinds of picture, by the end of a file's name."""

RESOLUTION = 150
"""Dots per inch of a png."""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches. It draws without a screen and changes no setting of matplotlib's.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    check_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def check_matplotlib() -> None:
    """Raise MissingExtraError if matplotlib is not installed: before work whose result it is to draw."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("a picture", "plots") from error


def picture_kind(path: Path) -> str:
    """The kind of picture that a file's name asks for.

    Raises:
        InputError: it is none that can be written.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        ends = ", ".join(f".{each}" for each in KINDS)
        raise InputError(f"{path}: a picture's name ends in {ends}; give -o such a name")
    return kind


def save_figure(figure: Figure, path: Path, kind: str) -> None:
    """Write a figure. The same figure gives the same bytes: no date in it, no random ids."""
    import matplotlib

    about: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    # Text stays text in SVG, so that it can be searched and read aloud.
    with matplotlib.rc_context({"svg.hashsalt": "rejoinder", "svg.fonttype": "none"}):
        figure.savefig(path, format=kind, dpi=RESOLUTION, metadata=about)
