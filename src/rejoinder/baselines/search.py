"""The best of many scores: what searching a whole index and ranking lists of candidates have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError
from rejoinder.ranker import Context

IntArray = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]

CELLS = 1 << 23
"""Most scores held at once while an index is searched: 64 MB."""


class Hits(NamedTuple):
    """The best texts of an index for n contexts, best first; texts of equal score in their order in the index."""

    positions: IntArray
    """(n, k): places in the index."""
    scores: Scores
    """(n, k)."""


def best(scores: Scores, k: int) -> Hits:
    """The k highest of each row; of equal ones those that stand first. All of a row that has fewer than k."""
    n, width = scores.shape
    k = min(k, width)
    if k == width:
        order = np.argsort(-scores, axis=1, kind="stable")
        return Hits(order, np.take_along_axis(scores, order, axis=1))
    # What is above the k-th highest is in; of what equals it, the first ones fill the rest.
    edge = -np.partition(-scores, k - 1, axis=1)[:, k - 1 : k]
    above, equal = scores > edge, scores == edge
    room = k - np.count_nonzero(above, axis=1, keepdims=True)
    chosen = above | (equal & (np.cumsum(equal, axis=1) <= room))
    places = np.nonzero(chosen)[1].reshape(n, k)
    found = np.take_along_axis(scores, places, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    return Hits(np.take_along_axis(places, order, axis=1), np.take_along_axis(found, order, axis=1))


def check_k(k: int) -> None:
    """Refuse a number of results below 1."""
    if k < 1:
        raise InputError(f"a search gives 1 result or more, not {k}")


def rows_of_each_list(candidates: Sequence[Sequence[str]]) -> dict[int, list[int]]:
    """The places at which each list stands, by the list's `id`: lists are shared between contexts."""
    rows: dict[int, list[int]] = {}
    for row, texts in enumerate(candidates):
        rows.setdefault(id(texts), []).append(row)
    return rows


def number_texts(candidates: Sequence[Sequence[str]]) -> tuple[list[str], dict[int, IntArray]]:
    """The distinct texts, and for each list, by its `id`, the numbers of its texts among them."""
    numbers: dict[str, int] = {}
    columns: dict[int, IntArray] = {}
    for texts in candidates:
        if id(texts) not in columns:
            found = (numbers.setdefault(text, len(numbers)) for text in texts)
            columns[id(texts)] = np.fromiter(found, dtype=np.int64, count=len(texts))
    return list(numbers), columns


def common_length(contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> int:
    """The length of all lists.

    Raises:
        InputError: not one list for each context, or lists of different lengths.
    """
    if len(contexts) != len(candidates):
        raise InputError(f"{len(contexts)} contexts, but {len(candidates)} lists of candidates; give one list for each")
    lengths = {len(texts) for texts in candidates}
    if len(lengths) > 1:
        raise InputError(f"lists of {min(lengths)} to {max(lengths)} candidates in one call; give lists of one length")
    return lengths.pop() if lengths else 0


def newest_message(context: Context) -> str:
    """What the other party said last; nothing where there is no message."""
    return context[-1] if context else ""


def query_text(context: Context, whole: bool) -> str:
    """What keywords are taken from: every message, or the newest one alone."""
    return " ".join(context) if whole else newest_message(context)
