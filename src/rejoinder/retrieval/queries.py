"""Queries: what a search reads of conversations, and the vectors that a model makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray
from rejoinder.conversations import Context, Conversation, is_persona, read_contexts, spoken
from rejoinder.corpora.example import text_key
from rejoinder.encoders.protocol import ContextVectors, DualEncoder, check_vectors, encode_queries
from rejoinder.errors import InputError
from rejoinder.retrieval.options import SearchOptions

_LONGEST_UNIT = 1.01  # a model that normalises in 16 bits may miss 1 by a little


class Newest(list[Any]):
    """The newest messages of a long conversation, and the keys of the ones before (`text_key`).

    Whoever keeps a conversation as it grows can so search with what models read of it, without
    reading it all again.
    """

    earlier: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Queries:
    """Encoded conversations, as an index is searched for them."""

    vectors: list[FloatArray]  # (m, d) of each, times `sharpness`: scores come out as much higher
    sharpness: float
    inputs: Sequence[str]  # newest messages
    forbidden: Sequence[frozenset[str]]  # keys of texts that may not be found


def encode(
    encoder: DualEncoder, conversations: Sequence[Conversation], options: SearchOptions
) -> Queries:
    """Encode what a search reads of conversations."""
    forbidden = [
        forbidden_keys(each) if options.no_repeat else frozenset[str]() for each in conversations
    ]
    model = encoder.with_cache()
    read = read_history(model, conversations, options.history)
    vectors = encode_queries(model, read)
    unit = encoder.unit_length
    return make_queries(
        vectors, inputs=[context[-1] for context in read], forbidden=forbidden, unit=unit
    )


def read_history(
    encoder: DualEncoder, conversations: Sequence[Conversation], history: int | None
) -> list[Context]:
    """Return what a search reads of conversations; see `SearchOptions.history`."""
    read = truncate_history(conversations, history)
    return drop_stale_history(encoder, read) if history is None else read


def truncate_history(conversations: Sequence[Conversation], history: int | None) -> list[Context]:
    """Return the texts of each newest message and of at most `history` earlier ones."""
    read = read_contexts(conversations)
    return read if history is None else [context[-1 - history :] for context in read]


def drop_stale_history(encoder: DualEncoder, contexts: Sequence[Context]) -> list[Context]:
    """Return contexts without earlier messages of another subject than the newest one's.

    Its cosine with them, as a response to them, is below the encoder's `subject_threshold` then, if
    the encoder has one. Personas stay.
    """
    read = list(contexts)
    lowest = encoder.subject_threshold
    messages = [
        [text for text in context if text.strip() and not is_persona(text)] for context in contexts
    ]
    rows = [row for row, texts in enumerate(messages) if len(texts) > 1 and lowest]
    if rows:
        earlier: Any = encoder.encode_contexts([contexts[row][:-1] for row in rows])
        inputs = encoder.encode_responses([contexts[row][-1] for row in rows])
        for row, cosine in zip(rows, np.einsum("nd,nd->n", earlier, inputs), strict=True):
            if cosine < lowest:
                read[row] = [*filter(is_persona, contexts[row][:-1]), contexts[row][-1]]
    return read


def forbidden_keys(conversation: Conversation) -> frozenset[str]:
    """Return the keys of the texts that must not be found again; see `SearchOptions.no_repeat`."""
    messages = spoken(conversation)
    if None in (role for role, _ in messages):
        messages = [(str(number % 2), text) for number, (_, text) in enumerate(messages)]
    is_answered = any(role != messages[-1][0] for role, _ in messages)
    keys = (text_key(text) for _, text in messages)
    earlier = conversation.earlier if isinstance(conversation, Newest) else frozenset[str]()
    # "Hello!" may be answered with "Hello!", once.
    return earlier.union(key for key in keys if is_answered or " " in key)


def make_queries(
    vectors: FloatArray | ContextVectors,
    *,
    inputs: Sequence[str],
    forbidden: Sequence[frozenset[str]] | None,
    unit: bool,
) -> Queries:
    """Return queries of checked vectors (n, d), or (n, m, d); of length 1 if `unit`."""
    if not isinstance(vectors, ContextVectors) and vectors.ndim != 3:
        vectors = check_rows(vectors, "context", unit=unit)[:, None]
    several = vectors if isinstance(vectors, ContextVectors) else ContextVectors(vectors)
    contexts = list(replace(several, vectors=several.vectors * np.float32(several.sharpness)))
    for number, own in enumerate(contexts):
        if not len(own):
            raise InputError(
                f"context {number} has no vector; a model gives at least one for each conversation"
            )
        if not np.isfinite(own).all():
            raise InputError(
                f"the model's vectors of context {number} are not finite: did its training diverge?"
            )
    if forbidden is None:
        forbidden = [frozenset()] * len(contexts)
    return Queries(contexts, several.sharpness, inputs, forbidden)


def check_encoder(encoder: object) -> None:
    """Refuse what is no model that encodes replies."""
    if not isinstance(encoder, DualEncoder):
        raise InputError(
            "an index needs a model that encodes replies, as rejoinder.load opens; "
            f"given: {encoder!r}"
        )


def has_unit_vectors(encoder: DualEncoder | None) -> bool:
    """Return whether vectors of another length than 1 are a sign of a diverged training."""
    return encoder is None or encoder.unit_length


def check_rows(
    vectors: npt.NDArray[Any],
    what: str,
    first: int = 0,
    *,
    count: int | None = None,
    size: int = 0,
    unit: bool = True,
) -> FloatArray:
    """Return vectors as (n, d) float32 after checking their lengths: 1 or 0 if `unit`, else finite.

    n is `count` and d the `size`, if these are known. The error names the first row that cannot be
    used by `what` and its number, counted from `first`.
    """
    rows = check_vectors(vectors, what, count)
    if rows.ndim != 2 or (len(rows) and not rows.shape[1]):
        raise InputError(
            f"the model gives encodings of shape {rows.shape}; an index holds one vector per {what}"
        )
    if size not in (0, rows.shape[1]):
        raise InputError(f"vectors of size {rows.shape[1]}; those of the index have {size}")
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    near_one = np.abs(lengths - 1) < _LONGEST_UNIT - 1
    is_good = (lengths == 0) | near_one if unit else np.isfinite(lengths)
    if not is_good.all():
        row = int(np.flatnonzero(~is_good)[0])
        reason = "its training may have diverged" + (", or it does not normalise" if unit else "")
        raise InputError(
            f"the model's vector of {what} {first + row} has length {lengths[row]:.4g}"
            f"{', not 1' if unit else ''}: {reason}; use another model"
        )
    return rows
