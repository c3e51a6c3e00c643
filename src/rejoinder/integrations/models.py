"""Models of an adapter by name, histories, vectors of conversations, positions in a ranking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from rejoinder.arrays import FloatArray, with_blanks_last
from rejoinder.checks import check_count, check_list
from rejoinder.conversations import Conversation, read_contexts
from rejoinder.encoders.open import load, open_encoder
from rejoinder.encoders.protocol import DualEncoder, Ranker
from rejoinder.errors import InputError, shown
from rejoinder.retrieval.cascade import score_lists

T = TypeVar("T")
PlainMessage: TypeAlias = str | Mapping[str, Any]
"""A message of a `Conversation`."""


def open_embedder(model: str | Path | DualEncoder) -> DualEncoder:
    """Return the encoder of a name or folder, or the encoder itself.

    A model that cannot embed a text is an InputError.
    """
    encoder: object = open_encoder(model) if isinstance(model, str | Path) else model
    if not isinstance(encoder, DualEncoder):
        raise InputError(
            f"an embedding needs an encoder, as opened by rejoinder.load; given: {shown(model)}"
        )
    embed(encoder, ["?"])
    return encoder


def embed(encoder: DualEncoder, context: Conversation) -> FloatArray:
    """Return the vector of a conversation, (d,)."""
    vectors = encoder.encode_contexts(read_contexts([context]))
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2:
        raise InputError(
            f"{encoder.name} gives a conversation several vectors, but an embedding is one; use"
            " ConveRT or a bi-encoder, or let an index search"
        )
    vector: FloatArray = vectors[0]
    return vector


def read_history(
    history: Sequence[T] | None, read: Callable[[T], PlainMessage]
) -> list[PlainMessage]:
    """Return earlier messages as conversations have them; None is none.

    `read` turns a message of the other library into ours.
    """
    if history is None:
        return []
    check_list(history, "history is a list of messages, oldest first")
    return [read(message) for message in history]


def open_ranker(model: str | Path | Ranker) -> Ranker:
    """Return the model of a name or folder, or the ranker itself, or raise InputError."""
    ranker: object = load(model) if isinstance(model, str | Path) else model
    if not isinstance(ranker, Ranker):
        raise InputError(
            "ranking needs a model that scores replies, as opened by rejoinder.load; given:"
            f" {model!r}"
        )
    return ranker


def rank(
    ranker: Ranker, context: Conversation, texts: Sequence[str], most: int | None
) -> list[tuple[int, float]]:
    """Return positions and scores of at most `most` best texts, best first.

    Texts with equal scores keep their order, and blank ones are last. A `most` below 1 is an
    InputError.
    """
    if most is not None:
        check_count("the number of documents to keep", most)
    spoken = [position for position, text in enumerate(texts) if text.strip()]
    lists = [[texts[position] for position in spoken]]
    (spoken_scores,) = score_lists(ranker, read_contexts([context]), lists)
    scores = with_blanks_last(len(texts), spoken, spoken_scores)
    return [
        (int(position), float(scores[position]))
        for position in np.argsort(-scores, kind="stable")[:most]
    ]
