"""A cascade: a slow ranker orders the best replies of a search again (POLY, table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rejoinder.checks import check_count
from rejoinder.conversations import Context, Conversation
from rejoinder.encoders.protocol import Ranker
from rejoinder.errors import InputError
from rejoinder.retrieval.options import RERANKED, SearchOptions
from rejoinder.retrieval.replies import Reply
from rejoinder.retrieval.search import Searchable, Searcher
from rejoinder.retrieval.turns import Reading
from rejoinder.stores.scan import Scores


class Cascade(Searchable):
    """Ranks the `rerank` best replies of a search again with a slow ranker; no others come out."""

    def __init__(self, first: Searcher | Cascade, ranker: Ranker, rerank: int = RERANKED) -> None:
        check_count("rerank", rerank)
        self.first = first
        self.ranker = ranker
        self.rerank = rerank

    def __len__(self) -> int:
        return len(self.first)

    def find(self, contexts: Sequence[Conversation], options: SearchOptions) -> list[list[Reply]]:
        """Find the best k replies with the slow ranker's scores; see `search`.

        Equal scores stay in the order of the first search. Without `options.rerank` its own number
        of them is ranked again.
        """
        options = replace(options, rerank=options.rerank or self.rerank)
        first = self.first.find(contexts, options.first_search)
        readings = self.read(contexts, options.history)
        return self.rank(answered(readings, first), first, options)

    def read(self, contexts: Sequence[Conversation], history: int | None) -> list[Reading]:
        """Return what of conversations is read, by both rankers."""
        return self.first.read(contexts, history)

    def rank(
        self, contexts: Sequence[Context], first: Sequence[list[Reply]], options: SearchOptions
    ) -> list[list[Reply]]:
        """Order the replies to each context by the slow ranker's scores, and keep the best k."""
        minimum = -np.inf if options.minimum_score is None else options.minimum_score
        scores = score_lists(
            self.ranker, contexts, [[reply.text for reply in replies] for replies in first]
        )
        ranked = []
        for replies, own in zip(first, scores, strict=True):
            order = np.argsort(-own, kind="stable")[: options.k]
            ranked.append(
                [replace(replies[i], score=float(own[i])) for i in order if own[i] >= minimum]
            )
        return ranked


def answered(readings: Sequence[Reading], found: Sequence[list[Reply]]) -> list[Context]:
    """Return each conversation with the part of its newest message that the best reply answers."""
    return [
        reading.contexts[replies[0].part] if replies else reading.context
        for reading, replies in zip(readings, found, strict=True)
    ]


def score_lists(
    ranker: Ranker, contexts: Sequence[Context], lists: Sequence[Sequence[str]]
) -> list[Scores]:
    """Return the scores of each context's own texts, whose numbers may differ."""
    scores = [np.zeros(0)] * len(lists)
    for size in {len(texts) for texts in lists if texts}:  # a ranker takes lists of one length
        rows = [row for row, texts in enumerate(lists) if len(texts) == size]
        own = np.asarray(
            ranker.score([contexts[row] for row in rows], [lists[row] for row in rows])
        )
        if (
            own.shape != (len(rows), size)
            or own.dtype.kind not in "fiu"
            or not np.isfinite(own).all()
        ):
            raise InputError(
                "the model gives no score for some replies; its training may have diverged"
            )
        for row, values in zip(rows, own, strict=True):
            scores[row] = values.astype(np.float64)  # others are ordered wrongly by `-values`
    return scores
