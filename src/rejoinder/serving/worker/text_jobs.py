"""Jobs on texts alone: their vectors, scores and intents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.encoders.conversation import TruncationCounter
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import InputError
from rejoinder.retrieval.cascade import score_lists
from rejoinder.serving.worker.answers import Answers
from rejoinder.stores.scan import Scores, all_scores
from rejoinder.text.tokenizer import encode_messages


def query_vectors(answers: Answers, texts: list[list[str]]) -> list[tuple[FloatArray, int]]:
    """Encode texts of several requests as messages: (n, d) each, and their tokens."""
    vectors = answers.encoder.encode_contexts([[text] for part in texts for text in part])
    if isinstance(vectors, ContextVectors) or vectors.ndim != 2:
        raise InputError(
            f"{answers.model} gives a conversation several vectors; take input_type 'document' here"
        )
    return _counted(answers, vectors, texts)


def document_vectors(answers: Answers, texts: list[list[str]]) -> list[tuple[FloatArray, int]]:
    """Encode texts, of several requests, as responses: (n, d) each, and their tokens."""
    vectors = answers.encoder.encode_responses([text for part in texts for text in part])
    return _counted(answers, vectors, texts)


def document_scores(
    answers: Answers, pairs: list[tuple[str, list[str]]]
) -> list[tuple[Scores, int]]:
    """Score texts, (n,) for each message, with the slow model if there is one; and tokens."""
    contexts = [[message] for message, _ in pairs]
    texts = [documents for _, documents in pairs]
    if answers.ranker is not None:
        scores = score_lists(answers.ranker, contexts, texts)
        return list(zip(scores, _tokens(answers, texts), strict=True))
    vectors: Any = answers.encoder.encode_contexts(contexts)
    has_several = isinstance(vectors, ContextVectors) or vectors.ndim == 3
    queries = vectors if has_several else vectors[:, None]
    rows = document_vectors(answers, texts)
    return [
        (all_scores(own, [query])[0], tokens)
        for query, (own, tokens) in zip(queries, rows, strict=True)
    ]


def text_intents(answers: Answers, texts: list[list[str]]) -> list[list[dict[str, Any]]]:
    """Classify the texts of several requests."""
    assert answers.classifier is not None
    predictions = answers.classifier.predict([text for part in texts for text in part])
    intents = [
        {
            "labels": list(prediction.labels),
            "out_of_scope": prediction.out_of_scope,
            "ranking": [{"label": name, "probability": p} for name, p in prediction.ranking],
        }
        for prediction in predictions
    ]
    return _split(intents, texts)


def _counted(
    answers: Answers, vectors: FloatArray, texts: list[list[str]]
) -> list[tuple[FloatArray, int]]:
    """Cut vectors into those of each request, with the tokens read.

    0 of a model that is not Rejoinder's own.
    """
    return list(zip(_split(vectors, texts), _tokens(answers, texts), strict=True))


def _tokens(answers: Answers, texts: list[list[str]]) -> list[int]:
    counts = np.zeros(sum(map(len, texts)), dtype=np.int64)
    if isinstance(answers.encoder, TruncationCounter):
        encoder = answers.encoder
        flat = [text for part in texts for text in part]
        counts += encode_messages(encoder.tokenizer, flat, encoder.message_length)[1]
    return [int(tokens.sum()) for tokens in _split(counts, texts)]


def _split(values: Any, parts: Sequence[Sequence[Any]]) -> list[Any]:
    """Cut values into parts of the lengths of `parts`."""
    ends = np.cumsum([len(part) for part in parts]).tolist()
    return [values[end - len(part) : end] for part, end in zip(parts, ends, strict=True)]
