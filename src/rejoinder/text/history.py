"""The history of a conversation as multi-context models read it (CONVERT 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from rejoinder.conversations import PERSONA, Context
from rejoinder.patterns import search_pattern
from rejoinder.text.tokenizer import Ids, Tokenizer, encode_messages

_PERSONA = search_pattern(rf"(?<!\s)\s*+{PERSONA}")


def is_opening(context: Context) -> bool:
    """Return whether a context is a conversation's first message: none before it has any text."""
    return not any(_has_text(message) for message in context[:-1])


def _has_text(message: str) -> bool:
    return bool(message) and not message.isspace()


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
        texts = (text for message in personas for text in _PERSONA.split(message))
        return [text.strip() for text in texts if text.strip()]

    def encode(
        self, tokenizer: Tokenizer, texts: Sequence[str], max_length: int
    ) -> tuple[Ids, Ids]:
        """Return the ids of such texts and the number of each one's.

        With `apart` each is cut as any message is; a joined history loses its end.
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
        persona: list[str] = []
        messages = context[:-1]
        # most messages name no persona, which costs less to find out than a match
        if self.persona_first and any(PERSONA in message for message in messages):
            states = [_PERSONA.match(message) is not None for message in messages]
            persona = [_PERSONA.sub(" ", message).strip() for message in compress(messages, states)]
            messages = [
                message for message, stated in zip(messages, states, strict=True) if not stated
            ]
        earlier = [message for message in messages if _has_text(message)]
        spoken = earlier[: -self.messages - 1 : -1]
        if self.numbered:
            spoken = [f"{number}: {message}" for number, message in enumerate(spoken)]
        return [*filter(None, persona)], spoken
