"""Conversations as models read them.

History and newest message are apart (CONVERT 3), or all is one text (POLY 4.2).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rejoinder.arrays import ranges
from rejoinder.conversations import PERSONA, Context, Conversation, read_contexts
from rejoinder.text.tokenizer import Ids, Tokenizer, encode_messages

_PERSONA = re.compile(rf"\s*{PERSONA}")


@dataclass(frozen=True, slots=True)
class HistoryText:
    """History as multi-context models read it: the newest `messages`, newest first.

    They are one text, or `apart`. `numbered` puts "0: ", "1: ", ... before them; `persona_first`
    reads messages that begin "your persona: " before all others, without these words and in any
    number. Apart, each message is a text of its own in a slot: 0 for the newest, 1 for the one
    before, ..., and `messages` for those of a persona. A response attends over what a persona
    states besides, by a weight (see `encoders.conversation`).
    """

    messages: int = 10
    numbered: bool = False
    persona_first: bool = False
    apart: bool = False
    persona_weight: float = 0.0

    def texts(self, context: Context) -> list[tuple[int, str]]:
        """Return the texts of a context's history, each with its slot.

        There is none without a history, else one unless apart.
        """
        persona, spoken = self._read(context)
        if self.apart:
            return [*enumerate(spoken), *((self.messages, message) for message in persona)]
        joined = " ".join([*persona, *spoken])
        return [(0, joined)] if joined else []

    def statements(self, context: Context) -> list[str]:
        """Return the statements of a context's persona that responses attend over."""
        if not self.persona_weight:
            return []
        personas = [message for message in context[:-1] if _PERSONA.match(message)]
        return [
            text for message in personas for text in map(str.strip, _PERSONA.split(message)) if text
        ]

    def encode(
        self, tokenizer: Tokenizer, texts: Sequence[str], max_length: int
    ) -> tuple[Ids, Ids]:
        """Return the ids of such texts and the number of each one's.

        Apart they are cut as any message's, joined at the end.
        """
        if self.apart:
            return encode_messages(tokenizer, texts, max_length)
        return tokenizer.encode_ragged(texts, max_length)

    def join(self, context: Context) -> str:
        """Return the history of a context as one text, empty if there is none.

        Blank messages do not count.
        """
        return " ".join(text for _, text in self.texts(context))

    def _read(self, context: Context) -> tuple[list[str], list[str]]:
        earlier = [message for message in context[:-1] if message.strip()]
        persona: list[str] = []
        if self.persona_first:
            persona = [
                _PERSONA.sub(" ", message).strip() for message in earlier if _PERSONA.match(message)
            ]
            earlier = [message for message in earlier if not _PERSONA.match(message)]
        spoken = earlier[::-1][: self.messages]
        if self.numbered:
            spoken = [f"{number}: {message}" for number, message in enumerate(spoken)]
        return [*filter(None, persona)], spoken


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
        spoken = [
            [message for message in context if message.strip()]
            for context in read_contexts(contexts)
        ]
        ids, lengths = self.tokenizer.encode_ragged(
            [message for messages in spoken for message in messages]
        )
        messages = iter(_split(ids, lengths))
        room = self.context_length - self.marks
        turn = np.array(self.turn, np.int32)
        texts = []
        for each in spoken:
            pieces: list[Ids] = []
            for _ in each:
                pieces += [turn, next(messages)] if pieces else [next(messages)]
            joined = _joined(pieces)
            texts.append(joined[max(0, len(joined) - room) :])
        return self._marked(texts)

    def responses(self, responses: Sequence[str]) -> tuple[Ids, Ids]:
        """Return the ids of responses, one after the other, and the number of each one's."""
        room = self.response_length - self.marks
        ids, lengths = self.tokenizer.encode_ragged(responses, room)
        return self._marked(_split(ids, lengths))

    def _marked(self, texts: Sequence[Ids]) -> tuple[Ids, Ids]:
        start = np.array(self.start, np.int32)
        end = np.array(self.end, np.int32)
        lengths = np.fromiter((len(text) + self.marks for text in texts), np.int32, len(texts))
        return _joined([piece for text in texts for piece in (start, text, end)]), lengths


def _split(ids: Ids, lengths: Ids) -> list[Ids]:
    return np.split(ids, np.cumsum(lengths)[:-1]) if len(lengths) else []


def _joined(pieces: Sequence[Ids]) -> Ids:
    return np.concatenate([np.empty(0, np.int32), *pieces])


def join(context: tuple[Ids, Ids], response: tuple[Ids, Ids], start: int) -> tuple[Ids, Ids, Ids]:
    """Join each context and its response, less its `start` marks, to [S] context [S] response [S].

    Texts are given as ids and the number of each one's, and come back so, with the segment, 0 or 1,
    of each token.
    """
    (context_ids, before) = context
    (response_ids, behind) = response
    kept = behind - start
    lengths = (before + kept).astype(np.int32)
    ends = np.cumsum(lengths, dtype=np.int64)
    types = np.zeros(int(lengths.sum()), np.int32)
    types[ranges(ends - kept, kept)] = 1
    ids = np.empty(len(types), np.int32)
    ids[types == 0] = context_ids
    ids[types == 1] = response_ids[ranges(np.cumsum(behind, dtype=np.int64) - kept, kept)]
    return ids, lengths, types
