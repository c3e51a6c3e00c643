"""What of a conversation is read, and the choice among the best of a search: what was said, near-copies, diversity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.conversations import (
    Context,
    Conversation,
    check_count,
    is_persona,
    read_contexts,
    spoken,
)
from rejoinder.corpora.example import text_key

T = TypeVar("T")
NEAR_COPY = 0.95  # cosine from which two replies count as the same suggestion


class Newest(list[Any]):
    """The newest messages of a long conversation, and the keys of what was said before them (`text_key`).

    Whoever keeps a conversation as it grows can so search with what models read of it, without reading it all again.
    """

    earlier: frozenset[str] = frozenset()


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


def truncate_history(conversations: Sequence[Conversation], history: int | None) -> list[Context]:
    """Return of each conversation the texts of its newest message and of at most `history` earlier ones."""
    if history is not None:
        check_count("history", history, 0)
    read = read_contexts(conversations)
    return read if history is None else [context[-1 - history :] for context in read]


def drop_stale_history(encoder: Any, contexts: Sequence[Context]) -> list[Context]:
    """Return contexts without the earlier messages that the newest one, as a response to them, does not follow from.

    Its cosine with them is below the encoder's `subject_threshold` then, if it has one. Personas stay.
    """
    read, lowest = list(contexts), encoder.subject_threshold
    spoken = [[text for text in context if text.strip() and not is_persona(text)] for context in contexts]
    rows = [row for row, texts in enumerate(spoken) if len(texts) > 1 and lowest]
    if rows:
        earlier = encoder.encode_contexts([contexts[row][:-1] for row in rows])
        inputs = encoder.encode_responses([contexts[row][-1] for row in rows])
        for row, cosine in zip(rows, np.einsum("nd,nd->n", earlier, inputs), strict=True):
            if cosine < lowest:
                read[row] = [*filter(is_persona, contexts[row][:-1]), contexts[row][-1]]
    return read


def forbidden_keys(conversation: Conversation) -> frozenset[str]:
    """Return the keys of what must not be said again; see `Index.search`."""
    messages = spoken(conversation)
    if None in (role for role, _ in messages):
        messages = [(str(place % 2), text) for place, (_, text) in enumerate(messages)]
    answered = any(role != messages[-1][0] for role, _ in messages)
    keys = (text_key(text) for _, text in messages)
    earlier = conversation.earlier if isinstance(conversation, Newest) else frozenset[str]()
    # "Hello!" may be answered with "Hello!", once.
    return earlier.union(key for key in keys if answered or " " in key)


def remove_near_duplicates(
    found: Sequence[T], read: Callable[[T], Reply], said: frozenset[str], vectors: FloatArray | None, most: int
) -> list[Reply]:
    """Read the replies that were `found`, best first: the first ones, at most so many, without what was said.

    With their unit `vectors`, (n, d), also without near-copies of better ones; these are not even read.
    """
    chosen, keys = list[Reply](), set(said)
    near = np.zeros(len(found), dtype=bool)
    for place, each in enumerate(found):
        if len(chosen) == most:
            break
        if near[place]:
            continue
        reply = read(each)
        if (said or vectors is not None) and (key := text_key(reply.text)) in keys:
            continue
        chosen.append(reply)
        if vectors is not None:
            keys.add(key)
            near |= vectors @ vectors[place] >= NEAR_COPY
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
