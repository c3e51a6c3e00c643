"""Two rankers in a row: an index finds some good replies among all, a slow ranker re-ranks these (POLY, table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rejoinder.errors import InputError
from rejoinder.ranker import Context, Ranker
from rejoinder.retrieval.index import Index, Reply


class Cascade:
    """Ranks the `top` best replies of a search again with a slow ranker; no others come out."""

    def __init__(self, first: Index | Cascade, ranker: Ranker, top: int = 50) -> None:
        if top < 1:
            raise InputError(f"top is {top}; rank at least one reply again")
        self.first, self.ranker, self.top = first, ranker, top

    def __len__(self) -> int:
        return len(self.first)

    def search(self, contexts: Sequence[Context], k: int = 5, minimum_score: float | None = None) -> list[list[Reply]]:
        """Find the best k replies, at most `top`, with the slow ranker's scores; see `Index.search`.

        Equal scores stay in the order of the first search.
        """
        if not 1 <= k <= self.top:
            raise InputError(f"k is {k}; {self.top} replies are ranked again (top), so 1 to {self.top} is allowed")
        found = self.first.search(contexts, self.top)
        if not contexts or not found[0]:
            return [[] for _ in contexts]
        scores = self.ranker.score(contexts, [[reply.text for reply in replies] for replies in found])
        if scores.shape != (len(contexts), len(found[0])) or not np.isfinite(scores).all():
            raise InputError("the model gives no score for some replies; its training may have diverged, use another")
        minimum = -np.inf if minimum_score is None else minimum_score
        return [
            [replace(replies[i], score=float(row[i])) for i in np.argsort(-row, kind="stable")[:k] if row[i] >= minimum]
            for replies, row in zip(found, scores, strict=True)
        ]
