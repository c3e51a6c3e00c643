"""Conversations as token ids for models that read all messages as one text (POLY, section 4.2).

A context is [S] oldest message NEWLINE ... NEWLINE newest message [S], a response [S] response [S]. A context that is
too long loses its oldest tokens, a response its last ones. A cross-encoder reads [S] context [S] response [S].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rejoinder.errors import InputError
from rejoinder.ranker import Context
from rejoinder.text.tokenizer import Ids, Tokenizer


@dataclass(frozen=True, slots=True)
class Dialogue:
    """How contexts and responses become token ids.

    Attributes:
        tokenizer: the model's.
        context_length: longest context in tokens, the marks included.
        response_length: longest response in tokens, the marks included.
        start: ids before each text.
        end: ids after it.
        turn: ids between two messages.
    """

    tokenizer: Tokenizer
    context_length: int
    response_length: int
    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    turn: tuple[int, ...] = ()

    @property
    def marks(self) -> int:
        """Tokens of a text that says nothing."""
        return len(self.start) + len(self.end)

    @property
    def key(self) -> tuple[object, ...]:
        """All that the ids depend on, beside the tokenizer."""
        return ("dialogue", self.context_length, self.response_length, self.start, self.end, self.turn)

    def contexts(self, contexts: Sequence[Context]) -> tuple[Ids, Ids]:
        """Ids of conversations, one after the other, and the number of each one's.

        Blank messages count as not spoken.

        Raises:
            InputError: a context has no message, or is a text.
        """
        for context in contexts:
            if isinstance(context, str):
                raise InputError(f"a context is a list of messages, oldest first; a text was given: {context[:60]!r}")
            if not context:
                raise InputError("a context has no message; it needs at least one, oldest first")
        spoken = [[message for message in context if message.strip()] for context in contexts]
        ids, lengths = self.tokenizer.encode_ragged([message for messages in spoken for message in messages])
        messages = iter(np.split(ids, np.cumsum(lengths)[:-1]) if len(lengths) else ())
        room = self.context_length - self.marks
        turn = np.array(self.turn, np.int32)
        texts = []
        for each in spoken:
            pieces: list[Ids] = []
            for _ in each:
                pieces += [turn, next(messages)] if pieces else [next(messages)]
            joined = np.concatenate([np.empty(0, np.int32), *pieces])
            texts.append(joined[max(0, len(joined) - room) :])
        return self._marked(texts)

    def responses(self, responses: Sequence[str]) -> tuple[Ids, Ids]:
        """Ids of responses, one after the other, and the number of each one's."""
        ids, lengths = self.tokenizer.encode_ragged(responses, self.response_length - self.marks)
        return self._marked(np.split(ids, np.cumsum(lengths)[:-1]) if len(lengths) else [])

    def _marked(self, texts: Sequence[Ids]) -> tuple[Ids, Ids]:
        """Texts between their marks."""
        start, end = np.array(self.start, np.int32), np.array(self.end, np.int32)
        pieces = [piece for text in texts for piece in (start, text, end)]
        lengths = np.fromiter((len(text) + self.marks for text in texts), np.int32, len(texts))
        return np.concatenate([np.empty(0, np.int32), *pieces]).astype(np.int32), lengths


def join(context: tuple[Ids, Ids], response: tuple[Ids, Ids], start: int) -> tuple[Ids, Ids, Ids]:
    """What a cross-encoder reads: each context and its response as one text (choice: one mark between them).

    Args:
        context: ids of n contexts and the number of each one's.
        response: the same of n responses.
        start: marks before a response, which are left out.

    Returns:
        Ids, the number of each text's, and of each token its segment: 0 in the context, 1 in the response.
    """
    (context_ids, before), (response_ids, behind) = context, response
    behind_starts = np.cumsum(behind, dtype=np.int64) - behind
    places = np.arange(len(response_ids)) - np.repeat(behind_starts, behind)
    kept, behind = response_ids[places >= start], behind - start
    lengths = (before + behind).astype(np.int32)
    ends = np.cumsum(lengths, dtype=np.int64)
    within = np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)
    types = (within >= np.repeat(before, lengths)).astype(np.int32)
    ids = np.empty(len(types), np.int32)
    ids[types == 0] = context_ids
    ids[types == 1] = kept
    return ids, lengths, types
