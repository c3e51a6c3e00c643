"""Conversations where all messages are one text, as token ids (POLY 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rejoinder.arrays import ranges
from rejoinder.conversations import Conversation, read_contexts
from rejoinder.text.tokenizer import Ids, Tokenizer


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Contexts and responses as token ids, where all messages are one text.

    A context is [S] oldest message NEWLINE ... NEWLINE newest message [S], a response [S] response
    [S]. Too long a context loses its oldest tokens, a response its last; lengths include the marks.
    `start`, `end` and `turn` are ids.
    """

    tokenizer: Tokenizer
    context_length: int
    response_length: int
    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    turn: tuple[int, ...] = ()

    @property
    def marks(self) -> int:
        """Number of tokens of an empty text."""
        return len(self.start) + len(self.end)

    @property
    def key(self) -> tuple[object, ...]:
        """All that the ids depend on, beside the tokenizer."""
        return (
            "dialogue",
            self.context_length,
            self.response_length,
            self.start,
            self.end,
            self.turn,
        )

    def contexts(self, contexts: Sequence[Conversation]) -> tuple[Ids, Ids]:
        """Return the ids of conversations and the number of each one's.

        Blank messages are left out.
        """
        read = read_contexts(contexts)
        spoken = [[message for message in context if message.strip()] for context in read]
        flat = [message for messages in spoken for message in messages]
        ids, lengths = _marked(*self.tokenizer.encode_ragged(flat), self.turn, ())
        last = np.cumsum([len(messages) for messages in spoken], dtype=np.int64)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])[last]
        whole = np.diff(ends, prepend=0)
        room = self.context_length - self.marks
        # the mark before the first message goes, as does what is too long
        kept = np.clip(whole - len(self.turn), 0, room)
        return self._marked(ids[ranges(ends - kept, kept)], kept.astype(np.int32))

    def responses(self, responses: Sequence[str]) -> tuple[Ids, Ids]:
        """Return the ids of responses, one after the other, and the number of each one's."""
        room = self.response_length - self.marks
        return self._marked(*self.tokenizer.encode_ragged(responses, room))

    def _marked(self, ids: Ids, lengths: Ids) -> tuple[Ids, Ids]:
        return _marked(ids, lengths, self.start, self.end)


def _marked(
    ids: Ids, lengths: Ids, start: tuple[int, ...], end: tuple[int, ...]
) -> tuple[Ids, Ids]:
    """Return texts, given as all ids and the number of each one's, with marks around each."""
    longer = (lengths + len(start) + len(end)).astype(np.int32)
    ends = np.cumsum(longer, dtype=np.int64)
    starts = ends - longer
    marked = np.empty(int(longer.sum()), np.int32)
    marked[ranges(starts + len(start), lengths)] = ids
    for offset, mark in enumerate(start):
        marked[starts + offset] = mark
    for offset, mark in enumerate(reversed(end), 1):
        marked[ends - offset] = mark
    return marked, longer


def join_response(
    context: tuple[Ids, Ids], response: tuple[Ids, Ids], start: int
) -> tuple[Ids, Ids, Ids]:
    """Join each context and its response, less its `start` marks, to [S] context [S] response [S].

    Texts are given as ids and the number of each one's, and come back so, with the segment, 0 or 1,
    of each token.
    """
    context_ids, before = context
    response_ids, behind = response
    kept = behind - start
    lengths = (before + kept).astype(np.int32)
    ends = np.cumsum(lengths, dtype=np.int64)
    types = np.zeros(int(lengths.sum()), np.int32)
    types[ranges(ends - kept, kept)] = 1
    ids = np.empty(len(types), np.int32)
    ids[types == 0] = context_ids
    ids[types == 1] = response_ids[ranges(np.cumsum(behind, dtype=np.int64) - kept, kept)]
    return ids, lengths, types
