"""Candidates by score and words together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rejoinder.errors import InputError
from rejoinder.retrieval.queries import Queries
from rejoinder.retrieval.state import FilteredRows
from rejoinder.stores.runs import Positions
from rejoinder.stores.scan import Found, Scores, exact_scores

MIN_CANDIDATES = 64  # that words and vectors each name, before more are asked for


def find_hybrid(
    filtered: FilteredRows,
    queries: Queries,
    chosen: Sequence[int],
    k: int,
    minimum: float,
    weight: float,
) -> Found:
    """Return the best k by score + weight·BM25, as exactly as those by score are returned.

    The best of each of the two orders are added up, more of them until no other reply can reach the
    k-th best sum (Fagin's threshold algorithm).
    """
    contexts = queries.vectors
    if len(queries.inputs) != len(contexts):
        raise InputError(
            f"{len(contexts)} contexts but {len(queries.inputs)} inputs, their newest messages; "
            "give one for each"
        )
    words, passing = filtered.words()
    done: dict[int, tuple[Positions, Scores]] = {}
    wanted = max(4 * k, MIN_CANDIDATES)
    few = list(chosen)
    while few:
        wanted = min(wanted, filtered.count)
        left = []
        best = filtered.candidates([contexts[i] for i in few], wanted, -np.inf)
        for i, (near, scores) in zip(few, best, strict=True):
            matches = np.where(passing, weight * words.scores(queries.inputs[i]), -np.inf)
            alike = np.argpartition(matches, -wanted)[-wanted:]
            numbers = np.union1d(near, alike)
            sums = exact_scores(contexts[i], filtered.vectors(numbers)) + matches[numbers]
            order = np.lexsort((filtered.positions_of(numbers), -sums))[:k]
            if wanted == filtered.count or sums[order[-1]] > scores[-1] + matches[alike].min():
                order = order[sums[order] >= minimum]
                done[i] = numbers[order], sums[order]
            else:
                left.append(i)
        wanted *= 4
        few = left
    return [done[i] for i in chosen]
