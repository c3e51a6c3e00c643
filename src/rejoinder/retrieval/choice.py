"""Replies, and the choice among the best of a search: what was said before, near-copies, diversity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rejoinder.arrays import unit_rows
from rejoinder.corpora.example import text_key
from rejoinder.ranker import Context, Conversation, FloatArray, check_count, read_contexts, spoken

ECHO = 3  # words from which a reply may not repeat the other side's message: "Hello!" may
NEAR_COPY = 0.95  # cosine from which two replies count as the same suggestion


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of an index."""

    text: str
    score: float  # cosine of its encoding and the context's, or whatever else the model's score is
    position: int  # its number in the input, from 0; the same whatever was added or deleted since
    payload: Mapping[str, Any]  # whatever other fields its input had

    def to_json(self) -> dict[str, Any]:
        """Return the reply as JSON types."""
        return {"text": self.text, "score": self.score, "position": self.position, "payload": dict(self.payload)}


def newest(conversations: Sequence[Conversation], history: int | None) -> list[Context]:
    """Return of each conversation the texts of its newest message and of at most `history` earlier ones."""
    if history is not None:
        check_count("history", history, 0)
    read = read_contexts(conversations)
    return read if history is None else [context[-1 - history :] for context in read]


def said_before(conversation: Conversation) -> frozenset[str]:
    """Return the keys of what must not be said again; see `Index.search`."""
    messages = spoken(conversation)
    if None in (role for role, _ in messages):
        messages = [(str(place % 2), text) for place, (_, text) in enumerate(messages)]
    keys = [(text_key(text), role != messages[-1][0]) for role, text in messages]
    return frozenset(key for key, ours in keys if ours or key.count(" ") >= ECHO - 1)


def without_copies(
    replies: list[Reply], said: frozenset[str], vector: Callable[[int], FloatArray] | None
) -> list[Reply]:
    """Return the replies, best first, without what was said.

    With `vector`, which gives that of a position, also without near-copies of better ones.
    """
    if not said and vector is None:
        return replies
    chosen, keys, rows = [], set(said), list[FloatArray]()
    for reply in replies:
        if (key := text_key(reply.text)) in keys:
            continue
        if vector is not None:
            row = unit_rows(vector(reply.position)[None])[0]
            if rows and (np.stack(rows) @ row).max() >= NEAR_COPY:
                continue
            keys.add(key)
            rows.append(row)
        chosen.append(reply)
    return chosen


def diverse(replies: list[Reply], k: int, diversity: float, vector: Callable[[int], FloatArray]) -> list[Reply]:
    """Choose k of the replies, which come best first, by maximal marginal relevance; see `Index.search`."""
    if not diversity or not replies:
        return replies[:k]
    vectors = unit_rows(np.stack([vector(reply.position) for reply in replies]))
    relevance = (1 - diversity) * np.array([reply.score for reply in replies])
    nearest, chosen = np.full(len(replies), -1.0), list[int]()
    while len(chosen) < min(k, len(replies)):
        gains = relevance - diversity * nearest
        gains[chosen] = -np.inf
        chosen.append(int(gains.argmax()))
        nearest = np.maximum(nearest, vectors @ vectors[chosen[-1]])
    return [replies[place] for place in chosen]
