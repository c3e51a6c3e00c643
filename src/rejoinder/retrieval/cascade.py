"""Two rankers in a row: a fast one finds some good replies among all, a slow one ranks these again.

A cross-encoder needs seconds for a thousand replies (POLY, table 5), so it can only choose among those that something
faster found: an index, or words in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from rejoinder.errors import InputError
from rejoinder.ranker import Context, Ranker
from rejoinder.retrieval.candidates import Candidate
from rejoinder.retrieval.index import Reply


class Searcher(Protocol):
    """Whatever finds the best replies to a context among all: an `Index`, a `RankerSearch`, a `Cascade`."""

    def __len__(self) -> int:
        """Number of replies."""
        ...

    def search(
        self, contexts: Sequence[Context], k: int = 5, minimum_score: float | None = None
    ) -> list[list[Reply]]:
        """The best k replies to each context, best first; fewer where there are fewer or their score is below."""
        ...


class RankerSearch:
    """Searches replies with a ranker that scores all of them for every context: BM25, say.

    Args:
        ranker: what ranks.
        replies: texts, or texts with payloads; a reply's position is its number among them, from 0.
    """

    def __init__(self, ranker: Ranker, replies: Sequence[str | Candidate]) -> None:
        self.ranker = ranker
        self.replies = [Candidate(reply) if isinstance(reply, str) else reply for reply in replies]
        self._texts = [reply.text for reply in self.replies]

    def __len__(self) -> int:
        """Number of replies."""
        return len(self.replies)

    def search(
        self, contexts: Sequence[Context], k: int = 5, minimum_score: float | None = None
    ) -> list[list[Reply]]:
        """The best replies to each context (see `Searcher`); equal scores in the order of their positions."""
        check_count(k)
        replies = [Reply(each.text, 0.0, i, each.payload) for i, each in enumerate(self.replies)]
        return rank(self.ranker, contexts, [replies] * len(contexts), k, minimum_score, self._texts)


class Cascade:
    """Ranks the best replies of a search again.

    Args:
        first: the fast search over all replies.
        ranker: the slow ranker: a poly- or cross-encoder, say.
        top: how many of the best replies are ranked again; the others cannot come out.
    """

    def __init__(self, first: Searcher, ranker: Ranker, top: int = 50) -> None:
        if top < 1:
            raise InputError(f"top is {top}; rank at least one reply again")
        self.first = first
        self.ranker = ranker
        self.top = top

    def __len__(self) -> int:
        """Number of replies that are searched."""
        return len(self.first)

    def search(
        self, contexts: Sequence[Context], k: int = 5, minimum_score: float | None = None
    ) -> list[list[Reply]]:
        """The best replies to each context by the slow ranker's scores, among the `top` best of the first search.

        Args:
            contexts: conversations, each a list of messages, oldest first.
            k: how many, at most `top`.
            minimum_score: leave out replies that the slow ranker scores below.

        Returns:
            For each context its replies with the slow ranker's scores, best first; equal scores in the order of the
            first search.

        Raises:
            InputError: k is below 1 or above `top`, or the ranker gives no scores.
        """
        check_count(k)
        if k > self.top:
            raise InputError(f"k is {k}, but only the {self.top} best are ranked again; raise top")
        return rank(self.ranker, contexts, self.first.search(contexts, self.top), k, minimum_score)


def rank(
    ranker: Ranker,
    contexts: Sequence[Context],
    found: Sequence[Sequence[Reply]],
    k: int,
    minimum_score: float | None,
    texts: Sequence[str] | None = None,
) -> list[list[Reply]]:
    """The best k of each context's replies by a ranker; equal scores in the order in which the replies stand.

    Args:
        ranker: what ranks.
        contexts: conversations.
        found: replies to each, the same number to all.
        k: how many.
        minimum_score: smallest score that counts; None: all do.
        texts: the texts of the replies where all contexts share them.

    Raises:
        InputError: the ranker's scores are of the wrong shape or not finite.
    """
    if not contexts or not found[0]:
        return [[] for _ in contexts]
    lists = [[reply.text for reply in replies] for replies in found] if texts is None else [texts] * len(contexts)
    scores = ranker.score(contexts, lists)
    if scores.shape != (len(contexts), len(found[0])) or not np.isfinite(scores).all():
        raise InputError("the model gives no score for some replies; its training may have diverged, use another one")
    return [_best(replies, row.tolist(), k, minimum_score) for replies, row in zip(found, scores, strict=True)]


def _best(replies: Sequence[Reply], scores: Sequence[float], k: int, minimum: float | None) -> list[Reply]:
    order = sorted(range(len(replies)), key=lambda i: -scores[i])[:k]
    return [
        Reply(replies[i].text, scores[i], replies[i].position, replies[i].payload)
        for i in order
        if minimum is None or scores[i] >= minimum
    ]


def check_count(k: int) -> None:
    """Refuse to find no reply.

    Raises:
        InputError: k is below 1.
    """
    if k < 1:
        raise InputError(f"k is {k}; ask for at least one reply")
