"""Two rankers in a row: a fast one finds some good replies among all, a slow one re-ranks these (POLY, table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from rejoinder.errors import InputError
from rejoinder.ranker import Context, Ranker
from rejoinder.retrieval.index import Reply
from rejoinder.retrieval.reading import Candidate


class Searcher(Protocol):
    """Whatever finds the best replies to a context among all: an `Index`, a `RankerSearch`, a `Cascade`."""

    def __len__(self) -> int:
        """Number of replies."""

    def search(self, contexts: Sequence[Context], k: int = 5, minimum_score: float | None = None) -> list[list[Reply]]:
        """Find the best k replies to each context, best first; fewer where there are fewer or their score is below."""


class RankerSearch:
    """Searches replies, numbered from 0, with a ranker that scores all of them for every context, such as BM25."""

    def __init__(self, ranker: Ranker, replies: Sequence[str | Candidate]) -> None:
        self.ranker = ranker
        self.replies = [Candidate(reply) if isinstance(reply, str) else reply for reply in replies]
        self._texts = [reply.text for reply in self.replies]

    def __len__(self) -> int:
        return len(self.replies)

    def search(self, contexts: Sequence[Context], k: int = 5, minimum_score: float | None = None) -> list[list[Reply]]:
        """Find the best replies to each context (see `Searcher`); equal scores in the order of their positions."""
        _check_count(k)
        replies = [Reply(each.text, 0.0, i, each.payload) for i, each in enumerate(self.replies)]
        return _rank(self.ranker, contexts, [replies] * len(contexts), k, minimum_score, self._texts)


class Cascade:
    """Ranks the `top` best replies of a search again with a slow ranker; no others come out."""

    def __init__(self, first: Searcher, ranker: Ranker, top: int = 50) -> None:
        if top < 1:
            raise InputError(f"top is {top}; rank at least one reply again")
        self.first = first
        self.ranker = ranker
        self.top = top

    def __len__(self) -> int:
        return len(self.first)

    def search(self, contexts: Sequence[Context], k: int = 5, minimum_score: float | None = None) -> list[list[Reply]]:
        """Find the best k replies, at most `top`, with the slow ranker's scores (see `Searcher`).

        Equal scores stay in the order of the first search.
        """
        _check_count(k)
        if k > self.top:
            raise InputError(f"k is {k}, but only the {self.top} best are ranked again; raise top")
        return _rank(self.ranker, contexts, self.first.search(contexts, self.top), k, minimum_score)


def _rank(
    ranker: Ranker,
    contexts: Sequence[Context],
    found: Sequence[Sequence[Reply]],
    k: int,
    minimum_score: float | None,
    texts: Sequence[str] | None = None,
) -> list[list[Reply]]:
    """Return the best k of each context's replies by a ranker; `texts` are theirs where all contexts share them."""
    if not contexts or not found[0]:
        return [[] for _ in contexts]
    lists = [[reply.text for reply in replies] for replies in found] if texts is None else [texts] * len(contexts)
    scores = ranker.score(contexts, lists)
    if scores.shape != (len(contexts), len(found[0])) or not np.isfinite(scores).all():
        raise InputError("the model gives no score for some replies; its training may have diverged, use another one")
    minimum = -np.inf if minimum_score is None else minimum_score
    return [
        [replace(replies[i], score=float(row[i])) for i in np.argsort(-row, kind="stable")[:k] if row[i] >= minimum]
        for replies, row in zip(found, scores, strict=True)
    ]


def _check_count(k: int) -> None:
    if k < 1:
        raise InputError(f"k is {k}; ask for at least one reply")
