"""Two rankers in a row: an index finds some good replies among all, a slow ranker re-ranks these (POLY, table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rejoinder.errors import InputError
from rejoinder.ranker import Conversation, Ranker
from rejoinder.retrieval.choice import Reply, newest
from rejoinder.retrieval.index import Index, Where


class Cascade:
    """Ranks the `top` best replies of a search again with a slow ranker; no others come out."""

    def __init__(self, first: Index | Cascade, ranker: Ranker, top: int = 50) -> None:
        if top < 1:
            raise InputError(f"top is {top}; rank at least one reply again")
        self.first, self.ranker, self.top = first, ranker, top

    def __len__(self) -> int:
        return len(self.first)

    def search(
        self,
        contexts: Sequence[Conversation],
        k: int = 5,
        minimum_score: float | None = None,
        *,
        history: int | None = None,
        no_repeat: bool = False,
        distinct: bool = False,
        where: Where | None = None,
    ) -> list[list[Reply]]:
        """Find the best k replies, at most `top`, with the slow ranker's scores; see `Index.search`.

        Equal scores stay in the order of the first search.
        """
        if not 1 <= k <= self.top:
            raise InputError(f"k is {k}; {self.top} replies are ranked again (top), so 1 to {self.top} is allowed")
        found = self.first.search(
            contexts, self.top, history=history, no_repeat=no_repeat, distinct=distinct, where=where
        )
        read = newest(contexts, history)
        minimum = -np.inf if minimum_score is None else minimum_score
        ranked: list[list[Reply]] = [[] for _ in found]
        for size in {len(replies) for replies in found if replies}:  # a ranker takes lists of one length
            rows = [row for row, replies in enumerate(found) if len(replies) == size]
            scores = self.ranker.score(
                [read[row] for row in rows], [[each.text for each in found[row]] for row in rows]
            )
            if scores.shape != (len(rows), size) or not np.isfinite(scores).all():
                raise InputError("the model gives no score for some replies; its training may have diverged")
            for row, own in zip(rows, scores, strict=True):
                best = [i for i in np.argsort(-own, kind="stable")[:k] if own[i] >= minimum]
                ranked[row] = [replace(found[row][i], score=float(own[i])) for i in best]
        return ranked
