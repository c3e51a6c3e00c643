"""Scores of examples by a head that was fitted without them, and what is chosen by these."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray
from rejoinder.blas import threads_for
from rejoinder.retrieval.encoding.density import FittedDensity
from rejoinder.retrieval.encoding.familiarity import WORD_WEIGHT, ViewWords
from rejoinder.retrieval.encoding.scoring import TEXT_WEIGHT, fit
from rejoinder.retrieval.encoding.views import Views
from rejoinder.stores.scan import Scores

TEXT_WEIGHTS = (TEXT_WEIGHT, 0.5, 0.0, 1.0)
"""The best of them is taken where enough examples can be left out."""
FOLDS = 5
LEAST_HELD_OUT = 50
ENOUGH = 1000
REFUSED_EXAMPLES = 0.05
CHANGES_MAY_COST = 0.05
"""Of the share of background messages that are refused; words or densities that cost more do not
count."""
_PRODUCTS_AT_ONCE = 1 << 20  # 4 MB: more are read again from memory, fewer multiply more slowly


class HeldOutScores(NamedTuple):
    """Scores of a head on examples and background messages that it was not fitted to."""

    text_weight: float  # with which most examples found their reply
    best: Scores  # (n,) greatest score of each message, the examples' first
    gap: Scores  # (n,) to the second
    right: npt.NDArray[np.bool_]  # (n,) whether the first is the example's reply
    is_own: npt.NDArray[np.bool_]  # (n,) whether the message is an example
    found: npt.NDArray[np.int64]  # (n,) the reply of the greatest score
    rows: npt.NDArray[np.int64]  # (n,) the message's row among the views; -1 for the background
    owners: npt.NDArray[np.int64]  # (n,) the reply that it is an example of; -1 for the background
    moves: FloatArray  # of the last fit, see `FittedHead`
    word_weight: float = 0.0  # of the overlap of words in `best`; see `familiarity`
    has_density: bool = False  # whether the density counts in `best`; see `density`

    @property
    def minimum_score(self) -> float:
        """The score that all but a twentieth of the examples reach, at most 0.

        Each reply counts alike.
        """
        order = np.argsort(self.best[self.is_own])
        owners = self.owners[self.is_own][order]
        shares = 1 / np.bincount(owners)[owners]
        below = int(np.searchsorted(np.cumsum(shares), REFUSED_EXAMPLES * shares.sum()))
        return min(float(self.best[self.is_own][order][below]), 0.0)

    @property
    def refused(self) -> float:
        """The share of background messages below the minimum score."""
        return float((self.best[~self.is_own] < self.minimum_score).mean())

    def better(self, changed: HeldOutScores) -> HeldOutScores:
        """Return changed scores, unless they refuse clearly fewer background messages."""
        return changed if changed.refused >= self.refused - CHANGES_MAY_COST else self


def hold_out(
    views: Views,
    background: FloatArray,
    responses: FloatArray,
    words: ViewWords | None = None,
    density: FittedDensity | None = None,
    *,
    lone: bool = False,
) -> HeldOutScores | None:
    """Leave out a fifth of the examples at a time, of replies that have others.

    None where these are too few. After `ENOUGH` examples the other fifths are not tried. With
    `lone` the only examples of replies are left out as well: none of these can be right, but their
    scores are much like those of other messages for the replies. `density` and `words` count
    unless clearly fewer background messages are refused with them.
    """
    folds = _folds(views, lone=lone)
    if (folds >= 0).sum() < LEAST_HELD_OUT:
        return None
    text_weights = TEXT_WEIGHTS[:1] if lone else TEXT_WEIGHTS
    parts: list[list[tuple[Scores, Scores, npt.NDArray[np.int64]]]] = [[] for _ in text_weights]
    rows: list[npt.NDArray[np.int64]] = []
    tried: list[tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]] = []
    for fold in range(FOLDS):
        out = folds == fold
        apart = np.arange(len(background)) % FOLDS == fold
        fitted = fit(views.without(out), background[~apart], len(responses))
        queries = np.concatenate([views.vectors[out], background[apart]])
        rows.append(np.concatenate([np.flatnonzero(out), np.full(apart.sum(), -1)]))
        tried.append((out, np.flatnonzero(apart)))
        with threads_for(len(queries) * responses.size):
            taught = replace(fitted.head, text_weight=0.0).vectors(fitted.weights, responses)
            for text_weight, scored in zip(text_weights, parts, strict=True):
                vectors = taught + np.float32(text_weight) * responses
                scored.append(_best_two(queries, vectors))
        if sum((numbers >= 0).sum() for numbers in rows) >= ENOUGH:
            break
    views_rows = np.concatenate(rows)
    is_own = views_rows >= 0
    targets = np.where(is_own, views.owners[views_rows], -1)
    joined = [[np.concatenate(part) for part in zip(*scored, strict=True)] for scored in parts]
    right = [replies == targets for _, _, replies in joined]
    chosen = int(np.argmax([flags.sum() for flags in right]))  # the first of equal ones
    best, gap, nearest = joined[chosen]
    plain = HeldOutScores(
        text_weights[chosen],
        best,
        gap,
        right[chosen],
        is_own,
        nearest,
        views_rows,
        targets,
        fitted.moves,
    )
    chosen_scores = plain
    if density is not None:
        changes = [np.append(density.views[out], density.background[apart]) for out, apart in tried]
        dense = plain._replace(best=best + np.concatenate(changes), has_density=True)
        chosen_scores = dense if lone else plain.better(dense)
    if words is not None:
        changes = [
            words.changes(np.flatnonzero(out), apart, replies, out)
            for (out, apart), (_, _, replies) in zip(tried, parts[chosen], strict=True)
        ]
        worded = chosen_scores.best + np.concatenate(changes)
        chosen_scores = chosen_scores.better(
            chosen_scores._replace(best=worded, word_weight=WORD_WEIGHT)
        )
    return chosen_scores


def _folds(views: Views, *, lone: bool) -> npt.NDArray[np.int64]:
    """Return the fifth with which each view is left out; negative: with none.

    Equal examples of a reply are left out together.
    """
    is_example = views.weights >= 1
    owners = views.owners[is_example]
    different: dict[int, dict[bytes, int]] = {}  # examples of each reply, with their numbers
    ranks = np.empty(len(owners), np.int64)
    for row, (owner, vector) in enumerate(
        zip(owners.tolist(), views.vectors[is_example], strict=True)
    ):
        own = different.setdefault(owner, {})
        ranks[row] = own.setdefault(vector.tobytes(), len(own))
    folds = np.full(len(views.owners), -1)
    folds[is_example] = (ranks + owners) % FOLDS
    if not lone:
        has_one = [len(different[owner]) < 2 for owner in owners.tolist()]
        folds[is_example] -= np.where(has_one, FOLDS, 0)
    return folds


def _best_two(
    queries: FloatArray, vectors: FloatArray
) -> tuple[Scores, Scores, npt.NDArray[np.int64]]:
    """Return the greatest score of each query, its gap to the second, and whose it is."""
    best = np.empty(len(queries))
    gap = np.empty(len(queries))
    nearest = np.empty(len(queries), np.int64)
    step = max(1, _PRODUCTS_AT_ONCE // len(vectors))
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        scores = queries[part] @ vectors.T
        nearest[part] = scores.argmax(axis=1)
        best[part] = scores.max(axis=1)
        gap[part] = best[part] - np.partition(scores, -2, axis=1)[:, -2] if len(vectors) > 1 else 0
    return best, gap, nearest
