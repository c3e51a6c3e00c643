"""The earlier messages of a conversation as one text (CONVERT, section 3, multi-context)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rejoinder.ranker import PERSONA, Context

_PERSONA = re.compile(rf"\s*{PERSONA}")


@dataclass(frozen=True, slots=True)
class HistoryText:
    """How earlier messages become one text.

    They are joined with a space from the newest to the oldest, so that a cut at the text's end loses the oldest.
    With `persona_first` what is said of the replying one comes before all of them.

    Attributes:
        messages: how many are read, the newest ones (paper: 10).
        numbered: whether each begins with its number, "0: " for the newest (the paper's DSTC7).
        persona_first: whether messages that begin "your persona: " are read first, without these words and however
            many other messages there are. They are no more than old messages otherwise, which a cut loses.
    """

    messages: int = 10
    numbered: bool = False
    persona_first: bool = False

    def join(self, context: Context) -> str:
        """The history of a context as one text; empty exactly where there is none.

        Blank messages count as not spoken.

        Args:
            context: oldest message first; the last one is the input, which is not part of the history.
        """
        earlier = [message for message in context[:-1] if message.strip()]
        persona: list[str] = []
        if self.persona_first:
            persona = [_PERSONA.sub(" ", message).strip() for message in earlier if _PERSONA.match(message)]
            earlier = [message for message in earlier if not _PERSONA.match(message)]
        spoken = earlier[::-1][: self.messages]
        if self.numbered:
            spoken = [f"{number}: {message}" for number, message in enumerate(spoken)]
        return " ".join([*filter(None, persona), *spoken])
