"""Ascending positions as text: runs, as "3,7-19,40"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import ranges

Positions: TypeAlias = npt.NDArray[np.int64]


def runs_of(text: str) -> tuple[Positions, Positions]:
    """Return the starts and the counts of runs, as "3,7-19".

    They are ascending and apart, or it is a ValueError.
    """
    runs = [run.partition("-") for run in text.split(",")] if text else []
    starts = np.array([int(start) for start, _, _ in runs], dtype=np.int64)
    lasts = np.array([int(last or start) for start, _, last in runs], dtype=np.int64)
    apart = (lasts >= starts).all() and (starts[1:] > lasts[:-1]).all()
    if not apart or (starts < 0).any() or (lasts > 2**62).any():
        raise ValueError(f"{text[:40]!r} are not runs of ascending positions")
    return starts, lasts - starts + 1


def read_runs(text: str) -> Positions:
    """Return the positions of runs. They take memory: whoever made the text may not be trusted."""
    return ranges(*runs_of(text))


def join_runs(texts: Iterable[str]) -> str:
    """Return as runs what is in any of several runs, none of which share a position."""
    parts = [runs_of(text) for text in ("", *texts)]
    starts = np.concatenate([starts for starts, _ in parts])
    counts = np.concatenate([counts for _, counts in parts])
    order = np.argsort(starts)
    ends = (starts + counts)[order]
    starts = starts[order]
    first = np.concatenate([[True], starts[1:] != ends[:-1]])[: len(starts)]
    lasts = ends[np.roll(first, -1)] - 1
    return _as_text(starts[first], lasts)


def are_in(positions: Positions, text: str) -> npt.NDArray[np.bool_]:
    """Return which positions are in runs."""
    starts, counts = runs_of(text)
    before = np.searchsorted(starts, positions, side="right")
    ends = np.concatenate([[0], starts + counts])
    return positions < ends[before]


def without_positions(text: str, positions: Positions) -> str:
    """Return as runs what is in runs but not among ascending positions."""
    starts, counts = runs_of(text)
    inside = positions[are_in(positions, text)]
    firsts = np.sort(np.concatenate([starts, inside + 1]))
    ends = np.sort(np.concatenate([starts + counts, inside]))
    is_left = firsts < ends
    return _as_text(firsts[is_left], ends[is_left] - 1)


def write_runs(positions: Positions) -> str:
    """Return ascending positions as runs."""
    if not len(positions):
        return ""
    ends = np.flatnonzero(np.diff(positions) != 1)
    return _as_text(positions[[0, *(ends + 1)]], positions[[*ends, -1]])


def write_gaps(positions: Positions) -> str:
    """Return as runs what ascending positions leave out between the first and the last of them."""
    before = np.flatnonzero(np.diff(positions) != 1)
    return _as_text(positions[before] + 1, positions[before + 1] - 1)


def _as_text(firsts: Positions, lasts: Positions) -> str:
    pairs = zip(firsts.tolist(), lasts.tolist(), strict=True)
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in pairs)
