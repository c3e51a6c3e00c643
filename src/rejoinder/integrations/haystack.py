"""Haystack: components that embed a message and documents, and one that ranks documents as replies.

>>> pipeline.add_component("embedder", RejoinderTextEmbedder("bi-small"))        # doctest: +SKIP
>>> pipeline.connect("embedder.embedding", "retriever.query_embedding")          # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import replace

from rejoinder.encoders.bundled import DEFAULT
from rejoinder.encoders.protocol import DualEncoder, Ranker
from rejoinder.errors import MissingExtraError
from rejoinder.integrations.models import embed, open_embedder, open_ranker, rank

try:
    from haystack import Document, component
except ImportError as error:
    raise MissingExtraError("rejoinder.integrations.haystack", "haystack") from error


class _Embedder:
    """Opens its model when needed; a serialised pipeline holds the model's name."""

    def __init__(self, model: str = DEFAULT) -> None:
        self.model = model
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
    def run(self, text: str, history: list[str] | None = None) -> dict[str, list[float]]:
        """Return the vector of `text`; `history` has the earlier messages, oldest first."""
        if not isinstance(text, str):
            raise TypeError(
                "RejoinderTextEmbedder takes a text; for a list of Documents use "
                "RejoinderDocumentEmbedder"
            )
        return {"embedding": embed(self._opened(), [*(history or []), text]).tolist()}


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

    A cross-encoder does well here.
    """

    def __init__(self, model: str = DEFAULT, top_k: int = 10) -> None:
        self.model = model
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
        history: list[str] | None = None,
    ) -> dict[str, list[Document]]:
        """Return the best documents, best first, with their scores.

        `history` has the messages before the query. Of documents with the same id, the one with the
        best score of its own is ranked.
        """
        documents = _distinct(documents)
        texts = [document.content or "" for document in documents]
        best = rank(
            self._opened(), [*(history or []), query], texts, self.top_k if top_k is None else top_k
        )
        return {
            "documents": [replace(documents[position], score=score) for position, score in best]
        }


def _distinct(documents: list[Document]) -> list[Document]:
    """Return documents without those whose id another one with a better score has."""
    best: dict[str, Document] = {}
    for document in documents:
        known = best.get(document.id)
        if known is None or (document.score or 0.0) > (known.score or 0.0):
            best[document.id] = document
    return list(best.values())
