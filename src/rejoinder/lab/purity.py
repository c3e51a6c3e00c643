"""Purity of the neighbourhoods of encodings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.errors import InputError

NEIGHBOURS = 10  # k of the purity
_BLOCK = 1024


def neighbour_purity(
    vectors: FloatArray, categories: Sequence[str], neighbours: int = NEIGHBOURS
) -> float:
    """Return the share of a text's nearest neighbours in its category.

    Neighbours are nearest by cosine; the share is the mean over all texts.
    """
    if not 1 <= neighbours < len(vectors):
        raise InputError(
            f"the purity of {neighbours} neighbours needs more texts than these {len(vectors)};"
            f" give {neighbours + 1} or more"
        )
    rows = unit_rows(vectors)
    numbers = np.unique(np.asarray(categories), return_inverse=True)[1]
    hits = 0
    for start in range(0, len(rows), _BLOCK):
        cosines = rows[start : start + _BLOCK] @ rows.T
        own = np.arange(start, start + len(cosines))
        cosines[np.arange(len(cosines)), own] = -np.inf  # a text is not its own neighbour
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :neighbours]
        hits += int(np.count_nonzero(numbers[nearest] == numbers[own][:, None]))
    return hits / (len(rows) * neighbours)
