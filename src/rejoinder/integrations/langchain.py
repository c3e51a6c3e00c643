"""LangChain: embeddings for its vector stores, a retriever over an index, and a reranker.

>>> retriever = RejoinderRetriever(index=rejoinder.Index.open("faq"), k=3)  # doctest: +SKIP
>>> retriever.invoke("When will it come?", history=["I sent money.", "Where?"])  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ConfigDict, Field, field_validator

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
from rejoinder.retrieval.cascade import Cascade
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.replies import Reply

try:
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
        Callbacks,
    )
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.messages import BaseMessage
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import run_in_executor
except ImportError as error:
    raise MissingExtraError("rejoinder.integrations.langchain", "langchain") from error

ChainMessage: TypeAlias = str | Mapping[str, Any] | tuple[str, str] | BaseMessage
"""A message as chains have it: a text, role and content, or one of LangChain's own."""

PAIR = ("role", "content")
ROLES = {"human": "user", "ai": "assistant"}
"""LangChain's names of roles, and those of chat APIs."""


class RejoinderEmbeddings(Embeddings):
    """Vectors of a model, given by name or already opened.

    A query is the other side's message, a document a possible reply.
    """

    def __init__(self, model: str | Path | DualEncoder = DEFAULT) -> None:
        self.encoder = open_embedder(model)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of replies."""
        vectors: list[list[float]] = self.encoder.encode_responses(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a message."""
        vector: list[float] = embed(self.encoder, [text]).tolist()
        return vector


class RejoinderRetriever(BaseRetriever):
    """Retrieves the best replies of an index as documents.

    Their metadata have the fields of the payload, score, position and any title; with
    `search_kwargs={"why": True}` also the reason for each. If a field has one of these names,
    `payload` has all fields. A text in the field `id` is the document's id.
    """

    index: Index | Cascade
    k: int = 5  # number of replies
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of `Index.search`; a `k` among them takes the place of the field."""

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002
        history: Sequence[ChainMessage] | None = None,
        k: int | None = None,
        **search_kwargs: Any,
    ) -> list[Document]:
        """Find replies to a message; `history` has the earlier messages, oldest first.

        `k` and further arguments of `Index.search` stand for one call in place of the retriever's.
        """
        options = {"k": self.k, **self.search_kwargs, **search_kwargs}
        if k is not None:
            options["k"] = k
        context = [*read_history(history, _message), query]
        [replies] = self.index.search([context], **options)
        return [_document(reply) for reply in replies]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        """Find replies in a thread; `options` as above: `history`, `k` and further arguments."""
        return await run_in_executor(
            None,
            self._get_relevant_documents,
            query,
            run_manager=run_manager.get_sync(),
            **options,
        )


class RejoinderReranker(BaseDocumentCompressor):
    """Orders documents by how well they reply to the query.

    Those without text are last. Their metadata get a `relevance_score`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    ranker: str | Path | Ranker  # a model's name, a model, or any ranker
    top_n: int | None = None  # documents to keep; None: all

    @field_validator("ranker", mode="before")
    @classmethod
    def _open(cls, model: Any) -> Ranker:
        return open_ranker(model)

    @field_validator("top_n")
    @classmethod
    def _check_count(cls, top_n: int | None) -> int | None:
        if top_n is not None:
            check_count("top_n", top_n)
        return top_n

    def compress_documents(
        self,
        documents: Sequence[Document],
        query: str,
        callbacks: Callbacks | None = None,  # noqa: ARG002
    ) -> list[Document]:
        """Return the best documents, best first."""
        texts = [document.page_content for document in documents]
        best = rank(open_ranker(self.ranker), [query], texts, self.top_n)
        return [
            documents[position].model_copy(
                update={"metadata": {**documents[position].metadata, "relevance_score": score}}
            )
            for position, score in best
        ]


def _message(message: ChainMessage) -> PlainMessage:
    """Return the role and the content of a message as chat APIs have them; a text stays one."""
    if isinstance(message, BaseMessage):
        calls = getattr(message, "tool_calls", None)
        role = getattr(message, "role", message.type)  # ChatMessage has a role of its own
        called = {"tool_calls": calls} if calls else {}
        return _renamed({"role": role, "content": message.content, **called})
    if isinstance(message, tuple):
        is_pair = len(message) == len(PAIR)  # any other is refused as a content
        return _renamed(dict(zip(PAIR, message, strict=True))) if is_pair else {"content": message}
    return _renamed(message) if isinstance(message, Mapping) else message


def _renamed(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message whose role has the name that chat APIs give it."""
    role = message.get("role")
    return {**message, "role": ROLES[role]} if role in ROLES else message


def _document(reply: Reply) -> Document:
    facts = reply.to_json()
    text = facts.pop("text")
    payload = facts.pop("payload")
    name = payload.get("id")
    taken = {"payload": payload} if payload.keys() & facts.keys() else {}
    return Document(
        text,
        id=name if isinstance(name, str) else None,
        metadata={**payload, **facts, **taken},
    )
