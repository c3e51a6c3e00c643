"""Protocols of all rankers, from BM25 to cross-encoders, and of all encoders.

An encoder of your own inherits `DualEncoder` and gives `name`, `fingerprint`, `encode_contexts` and
`encode_responses`; the rest has defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.conversations import Context, Conversation, read_contexts
from rejoinder.corpora.schema import Example
from rejoinder.encoders.candidates import candidate_lists
from rejoinder.encoders.vectors import ContextVectors, attended, check_vectors
from rejoinder.progress import Advance


@runtime_checkable
class Ranker(Protocol):
    """Scores candidate responses for conversations."""

    def score(
        self, contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]
    ) -> FloatArray:
        """Score each context's own candidates; higher is better: float32 (n, m).

        The n lists have the same length m. They may share texts, and a list may serve several
        contexts.
        """
        ...


@runtime_checkable
class FittedRanker(Ranker, Protocol):
    """A ranker that is fitted to training examples before it can score."""

    def fit(
        self, examples: Sequence[Example], progress: Advance | None = None
    ) -> Mapping[str, Any]:
        """Forget the earlier fit, learn from `examples`, and return facts of JSON types."""
        ...


@runtime_checkable
class DualEncoder(Ranker, Protocol):
    """A ranker that encodes conversations and responses apart.

    Responses can thus be encoded ahead of time. A conversation has one vector, whose products with
    the responses' are the scores, or several (`ContextVectors`).
    """

    @property
    def name(self) -> str:
        """Name or folder that it was opened by."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of weights, configuration and vocabulary: equal ones give equal vectors."""
        ...

    @property
    def unit_length(self) -> bool:
        """Return whether vectors are of unit length, so that scores are cosines."""
        return True

    @property
    def reads_history(self) -> bool:
        """Return whether the input and the history are encoded apart (see `by`)."""
        return False

    @property
    def subject_threshold(self) -> float:
        """Cosine with the earlier messages below which an input begins a new subject.

        The input is compared as a response to them.
        """
        return 0.0

    def encode_contexts(self, contexts: Sequence[Conversation]) -> FloatArray | ContextVectors:
        """Encode conversations: float32 (n, d), or m vectors each.

        Messages may have roles; `conversations.read_contexts` returns the texts.
        """
        ...

    def encode_responses(self, responses: Sequence[str]) -> FloatArray:
        """Encode responses: float32 (n, d)."""
        ...

    def encode_queries(self, contexts: Sequence[Conversation]) -> FloatArray | ContextVectors:
        """Encode conversations as the queries that responses are scored by, with their personas."""
        return self.encode_contexts(read_contexts(contexts))

    def score(
        self, contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]
    ) -> FloatArray:
        """See `Ranker.score`."""
        return cosine_scores(self, contexts, candidates)

    def with_cache(self) -> Self:
        """Return the same encoder, which reads no text twice, if it can."""
        return self

    def with_recent(self) -> Self:
        """Return the same encoder, whose caches know the texts that the ones before read last.

        Whoever answers chats wants it: with each turn the earlier messages come again. Its weights
        may not change. An encoder that gains nothing by it returns itself.
        """
        return self

    def read_ahead(self, contexts: Sequence[Context]) -> None:  # noqa: ARG002 (without a cache)
        """Read the messages of conversations that are about to be encoded, in one pass.

        Into the cache; an encoder that gains nothing by it does nothing.
        """
        return


def cosine_scores(
    encoder: DualEncoder, contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]
) -> FloatArray:
    """Score candidates as `Ranker.score` does, by the product of the two vectors.

    Each text is encoded once.
    """
    lists = candidate_lists(contexts, candidates)
    scores = np.zeros(lists.shape, dtype=np.float32)
    if not scores.size:
        return scores
    responses = check_vectors(encoder.encode_responses(lists.texts), "response", len(lists.texts))
    queries = encode_queries(encoder, read_contexts(contexts))
    for rows, columns in lists.groups:
        own = responses[columns]
        for row in rows:  # one by one: a score does not depend on what else is scored
            if isinstance(queries, ContextVectors):
                products = np.stack([own @ vector for vector in queries[row]], axis=1)
                scores[row] = attended(products, queries.sharpness)
            else:
                scores[row] = own @ queries[row]
    return scores


def encode_queries(
    encoder: DualEncoder, contexts: Sequence[Conversation]
) -> FloatArray | ContextVectors:
    """Return an encoder's queries after checking their number and type."""
    queries: object = encoder.encode_queries(contexts)
    if not isinstance(queries, ContextVectors):
        return check_vectors(queries, "context", len(contexts))
    check_vectors(queries.vectors, "context", len(contexts))
    return queries


def has_unit_vectors(encoder: DualEncoder | None) -> bool:
    """Return whether vectors of another length than 1 are a sign of a diverged training."""
    return encoder is None or encoder.unit_length
