"""Endpoints of texts alone: vectors, ranked documents, intents."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rejoinder.arrays import with_blanks_last
from rejoinder.errors import InputError
from rejoinder.serving.http.errors import error_answer
from rejoinder.serving.http.exchange import CURRENT
from rejoinder.serving.responses import json_answer
from rejoinder.serving.wire import requests
from rejoinder.serving.wire.imitated import document_text
from rejoinder.serving.worker.batcher import Batcher
from rejoinder.serving.worker.jobs import Job, Work
from rejoinder.serving.worker.text_jobs import (
    document_scores,
    document_vectors,
    query_vectors,
    text_intents,
)

PIECE = 64  # texts of a large request that are computed at once, so that others get their turn


class TextApi:
    """The endpoints that read texts alone, and those that name the model that does.

    Args:
        facts: returns what the server has; see `Answers.facts`.
    """

    _queue: Batcher

    def __init__(self, facts: Callable[[], Mapping[str, Any]]) -> None:
        self._facts = facts

    def open(self, queue: Batcher) -> None:
        """Take the queue of searches."""
        self._queue = queue

    @property
    def model(self) -> str:
        """The name of the model."""
        name: str = self._facts()["first"]["model"]
        return name

    async def embeddings(self, body: requests.EmbeddingsRequest) -> Any:
        """Encode texts."""
        refusal = self._other_model(body.model)
        if refusal is not None:
            return refusal
        texts = [body.input] if isinstance(body.input, str) else body.input
        work: Work = query_vectors if body.input_type == "query" else document_vectors
        pieces = await self._in_pieces(texts, lambda part: Job(work, part, size=len(part)))
        vectors = np.concatenate([vectors for vectors, _ in pieces])
        size = vectors.shape[1]
        if body.dimensions not in (None, size):
            raise InputError(
                f"dimensions is {body.dimensions}; the vectors of this model have {size}, and it "
                "was not trained to be cut to fewer"
            )
        tokens = sum(count for _, count in pieces)
        rows = (
            [_base64(row) for row in vectors]
            if body.encoding_format == "base64"
            else vectors.tolist()
        )
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        answer = {"object": "list", "model": self.model, "data": data, "usage": usage, **_notes()}
        return json_answer(answer)

    async def rerank(self, body: requests.RerankRequest) -> Any:
        """Order documents by how well they reply to a message."""
        refusal = self._other_model(body.model)
        if refusal is not None:
            return refusal
        texts = [document_text(document, body.rank_fields) for document in body.documents]
        spoken = [position for position, text in enumerate(texts) if text.strip()]
        pieces = await self._in_pieces(
            [texts[position] for position in spoken],
            lambda part: Job(document_scores, (body.query, part), size=len(part)),
        )
        spoken_scores = np.concatenate([scores for scores, _ in pieces]) if pieces else np.zeros(0)
        scores = with_blanks_last(len(texts), spoken, spoken_scores)
        best = np.argsort(-scores, kind="stable")[: body.top_n].tolist()
        tokens = sum(count for _, count in pieces)
        results: list[dict[str, Any]] = [
            {"index": i, "relevance_score": float(scores[i])} for i in best
        ]
        if body.return_documents:
            for result in results:
                sent = body.documents[result["index"]]
                result["document"] = {"text": sent} if isinstance(sent, str) else sent
        return json_answer(
            {
                "id": CURRENT.get().request_id,
                "model": self.model,
                "results": results,
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 0}},
                **_notes(),
            }
        )

    async def intents(self, body: requests.IntentsRequest) -> Any:
        """Classify texts."""
        if not self._facts()["intents"]:
            return error_answer(404, "this server has no intents; start it with --intents FOLDER")
        texts = [body.input] if isinstance(body.input, str) else body.input
        pieces = await self._in_pieces(texts, lambda part: Job(text_intents, part, size=len(part)))
        predictions = [prediction for piece in pieces for prediction in piece]
        return json_answer(
            {"data": [{"index": i, **prediction} for i, prediction in enumerate(predictions)]}
        )

    async def models(self) -> Any:
        """Return the name of the model."""
        cohere = {"name": self.model, "endpoints": ["embed", "rerank"]}
        return json_answer({"object": "list", "data": [self._model_facts()], "models": [cohere]})

    async def one_model(self, name: str) -> Any:
        """Return the facts of a model."""
        return self._other_model(name) or json_answer(
            {**self._model_facts(), "name": self.model, "endpoints": ["embed", "rerank"]}
        )

    def _model_facts(self) -> dict[str, Any]:
        return {"id": self.model, "object": "model", "created": 0, "owned_by": "you"}

    async def _in_pieces(self, texts: Sequence[str], job: Callable[[list[str]], Job]) -> list[Any]:
        """Compute the texts of a request one piece after the other."""
        pieces = [list(texts[i : i + PIECE]) for i in range(0, len(texts), PIECE)]
        return [await self._queue.submit(job(piece)) for piece in pieces]

    def _other_model(self, name: str | None) -> Any:
        """Return the refusal of a request for another model than the server's."""
        if name in (None, self.model):
            return None
        return error_answer(
            404, f"no model {name!r} here; it is {self.model!r}, or leave it out", "model"
        )


def _notes() -> dict[str, list[str]]:
    """Return the notes on ignored fields, if there are any, as part of an answer."""
    notes = CURRENT.get().notes
    return {"notes": notes} if notes else {}


def _base64(vector: Any) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
