"""Haystack: components that embed a message and documents, and one that ranks documents as replies.

>>> pipeline.add_component("embedder", RejoinderTextEmbedder("bi-small"))        # doctest: +SKIP
>>> pipeline.connect("embedder.embedding", "retriever.query_embedding")          # doctest: +SKIP
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from rejoinder.checks import check_count
from rejoinder.encoders.bundled import DEFAULT
from rejoinder.encoders.protocol import DualEncoder, Ranker
from rejoinder.errors import MissingExtraError
from rejoinder.integrations.models import (
    PlainMessage,
    embed,
    open_embedder,
    open_ranker,
    rank,
    read_history,
)

try:
    from haystack import Document, component
    from haystack.dataclasses import ChatMessage
except ImportError as error:
    raise MissingExtraError("rejoinder.integrations.haystack", "haystack") from error

EarlierMessages: TypeAlias = list[str | dict[str, Any] | ChatMessage]
"""Earlier messages, oldest first."""


class _Embedder:
    """Opens its model when needed; a serialised pipeline holds the model's name."""

    def __init__(self, model: str | Path = DEFAULT) -> None:
        self.model = _written(model)
        self._encoder: DualEncoder | None = None

    def warm_up(self) -> None:
        """Open the model."""
        self._opened()

    def _opened(self) -> DualEncoder:
        if self._encoder is None:
            self._encoder = open_embedder(self.model)
        return self._encoder


@component
class RejoinderTextEmbedder(_Embedder):
    """Embeds a received message.

    `model` is a name, a folder, or an id on the Hugging Face Hub.
    """

    @component.output_types(embedding=list[float])
    def run(self, text: str, history: EarlierMessages | None = None) -> dict[str, list[float]]:
        """Return the vector of `text`; `history` has the earlier messages, oldest first."""
        if not isinstance(text, str):
            raise TypeError(
                "RejoinderTextEmbedder takes a text; for a list of Documents use "
                "RejoinderDocumentEmbedder"
            )
        context = [*read_history(history, _message), text]
        return {"embedding": embed(self._opened(), context).tolist()}


@component
class RejoinderDocumentEmbedder(_Embedder):
    """Embeds documents as possible replies. `model` is as for `RejoinderTextEmbedder`."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Return the documents with their vectors."""
        if not isinstance(documents, list) or not all(
            isinstance(document, Document) for document in documents
        ):
            raise TypeError(
                "RejoinderDocumentEmbedder takes a list of Documents; for a text use "
                "RejoinderTextEmbedder"
            )
        vectors = self._opened().encode_responses(
            [document.content or "" for document in documents]
        )
        pairs = zip(documents, vectors.tolist(), strict=True)
        return {"documents": [replace(document, embedding=vector) for document, vector in pairs]}


@component
class RejoinderRanker:
    """Orders documents by how well they reply to the query, and keeps the best `top_k`.

    Documents without text are last. A cross-encoder does well here.
    """

    def __init__(self, model: str | Path = DEFAULT, top_k: int = 10) -> None:
        check_count("top_k", top_k)
        self.model = _written(model)
        self.top_k = top_k
        self._ranker: Ranker | None = None

    def warm_up(self) -> None:
        """Open the model."""
        self._opened()

    def _opened(self) -> Ranker:
        if self._ranker is None:
            self._ranker = open_ranker(self.model)
        return self._ranker

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        documents: list[Document],
        top_k: int | None = None,
        history: EarlierMessages | None = None,
    ) -> dict[str, list[Document]]:
        """Return the best documents, best first, with their scores.

        `history` has the messages before the query. Of documents with the same id, the one with the
        best score of its own is ranked.
        """
        documents = _distinct(documents)
        texts = [document.content or "" for document in documents]
        context = [*read_history(history, _message), query]
        best = rank(self._opened(), context, texts, self.top_k if top_k is None else top_k)
        return {
            "documents": [replace(documents[position], score=score) for position, score in best]
        }


def _written(model: str | Path) -> str:
    """Return a model as a serialised pipeline names it."""
    return str(model) if isinstance(model, Path) else model


def _message(message: str | Mapping[str, Any] | ChatMessage) -> PlainMessage:
    """Return the role and the texts of a ChatMessage; other messages stay as they are."""
    if not isinstance(message, ChatMessage):
        return message
    content = "\n".join(message.texts)
    calls = {"tool_calls": message.tool_calls} if message.tool_calls else {}
    return {"role": message.role.value, "content": content, **calls}


def _distinct(documents: list[Document]) -> list[Document]:
    """Return documents without those whose id another one with a better score has."""
    best: dict[str, Document] = {}
    for document in documents:
        known = best.get(document.id)
        if known is None or _own_score(document) > _own_score(known):
            best[document.id] = document
    return list(best.values())


def _own_score(document: Document) -> float:
    """Return the score of a document; one without is worse than any, as Haystack has it."""
    return -math.inf if document.score is None else document.score
