"""The history that each example gets: its own, another one or none, as [history] says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from rejoinder.arrays import Ids
from rejoinder.training.data.tokens import TokenRows
from rejoinder.training.recipe.settings import History

HistorySource: TypeAlias = Callable[[TokenRows], TokenRows]
"""n examples -> whose history each of them gets, -1: none (n,)."""
HISTORY_STREAM = 1 << 22  # tells these draws from others of the same seed


class ChangedHistorySource:
    """Source of histories that are changed as a recipe's [history] says.

    The seed and the batch's examples alone decide.
    """

    def __init__(
        self, changes: History, counts: Callable[[TokenRows], Ids], seed: tuple[int, ...]
    ) -> None:
        self._changes = changes
        self._counts = counts
        self._seed = seed

    def __call__(self, rows: TokenRows) -> TokenRows:
        """Return whose history each of n examples gets, -1: none (n,)."""
        changes = self._changes
        drawn = np.random.default_rng([*self._seed, HISTORY_STREAM, *rows.tolist()])
        swap, begin = drawn.random((2, len(rows)))
        has_earlier = self._counts(rows) > 0
        earlier = np.where(swap < changes.left_out + changes.swapped, np.roll(rows, 1), rows)
        if has_earlier.any():
            others = np.resize(rows[has_earlier], len(rows))
            earlier = np.where(~has_earlier & (begin < changes.new_subject), others, earlier)
        return np.where(swap < changes.left_out, -1, earlier)
