"""Two rankers in a row: an index finds some good replies among all, a slow ranker re-ranks these (POLY, table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.conversations import Context, Conversation, check_count, check_minimum, is_whole
from rejoinder.encoders.protocol import Ranker
from rejoinder.errors import InputError
from rejoinder.retrieval.postprocess import Reply
from rejoinder.retrieval.search import Searcher, Where


class Cascade:
    """Ranks the `top` best replies of a search again with a slow ranker; no others come out."""

    def __init__(self, first: Searcher | Cascade, ranker: Ranker, top: int = 50) -> None:
        check_count("top", top)
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
        hybrid: float = 0.0,
    ) -> list[list[Reply]]:
        """Find the best k replies, at most `top`, with the slow ranker's scores; see `Index.search`.

        Equal scores stay in the order of the first search.
        """
        check_minimum(minimum_score)
        if not (is_whole(k) and 1 <= k <= self.top):
            raise InputError(f"k is {k}; {self.top} replies are ranked again (top), so 1 to {self.top} is allowed")
        options: dict[str, Any] = {"no_repeat": no_repeat, "distinct": distinct, "where": where, "hybrid": hybrid}
        found = self.first.search(contexts, self.top, history=history, **options)
        return self.rank(self.read(contexts, history), found, k, minimum_score)

    def read(self, contexts: Sequence[Conversation], history: int | None) -> list[Context]:
        """Return what of conversations is read, by both rankers."""
        return self.first.read(contexts, history)

    def rank(
        self, contexts: Sequence[Context], found: Sequence[list[Reply]], k: int, minimum_score: float | None = None
    ) -> list[list[Reply]]:
        """Order the replies found for each context by the slow ranker's scores, and keep the best k."""
        minimum = -np.inf if minimum_score is None else minimum_score
        scores = score_lists(self.ranker, contexts, [[each.text for each in replies] for replies in found])
        return [
            [replace(replies[i], score=float(own[i])) for i in np.argsort(-own, kind="stable")[:k] if own[i] >= minimum]
            for replies, own in zip(found, scores, strict=True)
        ]


def score_lists(ranker: Ranker, contexts: Sequence[Context], lists: Sequence[Sequence[str]]) -> list[FloatArray]:
    """Return the scores of each context's own texts, of which contexts may have different numbers."""
    scores = [np.zeros(0, dtype=np.float32)] * len(lists)
    for size in {len(texts) for texts in lists if texts}:  # a ranker takes lists of one length
        rows = [row for row, texts in enumerate(lists) if len(texts) == size]
        own = np.asarray(ranker.score([contexts[row] for row in rows], [lists[row] for row in rows]))
        if own.shape != (len(rows), size) or own.dtype.kind not in "fiu" or not np.isfinite(own).all():
            raise InputError("the model gives no score for some replies; its training may have diverged")
        for row, values in zip(rows, own, strict=True):
            scores[row] = values
    return scores
