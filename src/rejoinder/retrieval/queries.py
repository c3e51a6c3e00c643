"""Queries: what a search reads of conversations, and the vectors of these."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.checks import check_list
from rejoinder.conversations import CONVERSATIONS, Context, Conversation, is_persona, spoken
from rejoinder.corpora.keys import text_key
from rejoinder.encoders.protocol import DualEncoder, encode_queries
from rejoinder.encoders.vectors import ContextVectors, check_rows
from rejoinder.errors import InputError
from rejoinder.retrieval.options import SearchOptions
from rejoinder.retrieval.turns import Reading, Spelling, read_parts
from rejoinder.text.references import refers_back


class Newest(list[Any]):
    """The newest messages of a long conversation, and the keys of the ones before (`text_key`).

    Whoever keeps a conversation as it grows can so search with what models read of it, without
    reading it all again.
    """

    def __init__(self, messages: Iterable[Any], earlier: Iterable[str]) -> None:
        super().__init__(messages)
        self.earlier = frozenset(earlier)


@dataclass(frozen=True, slots=True)
class Queries:
    """Encoded conversations, as an index is searched for them, each by one or several parts."""

    vectors: list[FloatArray]  # (m, d) of each, times `sharpness`: scores come out as much higher
    sharpness: float
    inputs: Sequence[str]  # newest messages, or parts of them
    forbidden: Sequence[frozenset[str]]  # keys of texts that may not be found by a conversation
    rows: Sequence[Sequence[int]]  # the vectors and inputs of each conversation's parts
    foreign: Sequence[bool] = ()  # whether each newest message is of another language; (): none


def encode(
    encoder: DualEncoder,
    conversations: Sequence[Conversation],
    options: SearchOptions,
    speller: Spelling = None,
) -> Queries:
    """Encode what a search reads of conversations."""
    check_list(conversations, CONVERSATIONS)
    forbidden = [
        forbidden_keys(conversation) if options.no_repeat else frozenset[str]()
        for conversation in conversations
    ]
    model = encoder.with_cache()
    readings = read_conversations_in_parts(model, conversations, options.history, speller)
    contexts = [context for reading in readings for context in reading.contexts]
    return make_queries(
        encode_queries(model, contexts),
        inputs=[context[-1] for context in contexts],
        forbidden=forbidden,
        unit=encoder.unit_length,
        counts=[len(reading.contexts) for reading in readings],
        foreign=[reading.message.is_foreign for reading in readings],
    )


def read_conversations_in_parts(
    encoder: DualEncoder,
    conversations: Sequence[Conversation],
    history: int | None,
    speller: Spelling = None,
) -> list[Reading]:
    """Return what a search reads of conversations; see `SearchOptions.history`."""
    check_list(conversations, CONVERSATIONS)
    readings = [read_parts(conversation, history, speller) for conversation in conversations]
    return readings if history is not None else keep_subjects(encoder, readings)


def keep_subjects(encoder: DualEncoder, readings: Sequence[Reading]) -> list[Reading]:
    """Return conversations without earlier messages that `drop_stale_history` drops.

    An encoder with a cache has then read all their messages.
    """
    encoder.read_ahead(list(_to_read(readings, whole=bool(encoder.subject_threshold))))
    kept = drop_stale_history(encoder, [reading.context for reading in readings])
    return [
        reading.with_history(context[:-1]) for reading, context in zip(readings, kept, strict=True)
    ]


def _to_read(readings: Sequence[Reading], *, whole: bool) -> Iterator[Context]:
    """Yield what is encoded of conversations to search for them, and to find stale messages.

    For the latter newest messages are read as a `whole`.
    """
    for reading in readings:
        yield from reading.contexts
        if whole and reading.history:
            yield reading.context
            yield reading.history


def drop_stale_history(encoder: DualEncoder, contexts: Sequence[Context]) -> list[Context]:
    """Return contexts without earlier messages of another subject than the newest one's.

    Its cosine with them, as a response to them, is below the encoder's `subject_threshold` then, if
    the encoder has one, and it does not refer back to them. Personas stay.
    """
    read = list(contexts)
    lowest = encoder.subject_threshold
    messages = [
        [text for text in context if text.strip() and not is_persona(text)] for context in contexts
    ]
    rows = [
        row
        for row, texts in enumerate(messages)
        if lowest and len(texts) > 1 and not refers_back(texts[-1])
    ]
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
    counts: Sequence[int] | None = None,
    foreign: Sequence[bool] = (),
) -> Queries:
    """Return queries of checked vectors (n, d), or (n, m, d); of length 1 if `unit`.

    `counts` are the numbers of parts of each conversation; None: each has one.
    """
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
    ends = list(itertools.accumulate([1] * len(contexts) if counts is None else counts))
    rows = [range(start, end) for start, end in itertools.pairwise([0, *ends])]
    if forbidden is None:
        forbidden = [frozenset()] * len(rows)
    return Queries(contexts, several.sharpness, inputs, forbidden, rows, foreign)
