"""The earlier messages of a conversation as one text (CONVERT, section 3, multi-context)."""

from __future__ import annotations

from dataclasses import dataclass

from rejoinder.ranker import Context


@dataclass(frozen=True, slots=True)
class HistoryText:
    """How earlier messages become one text.

    They are joined with a space from the newest to the oldest, so that a cut at the text's end loses the oldest.

    Attributes:
        messages: how many are read, the newest ones (paper: 10).
        numbered: whether each begins with its number, "0: " for the newest (the paper's DSTC7).
    """

    messages: int = 10
    numbered: bool = False

    def join(self, context: Context) -> str:
        """The history of a context as one text; empty exactly where there is none.

        Blank messages count as not spoken.

        Args:
            context: oldest message first; the last one is the input, which is not part of the history.
        """
        spoken = [message for message in reversed(context[:-1]) if message.strip()][: self.messages]
        if self.numbered:
            spoken = [f"{number}: {message}" for number, message in enumerate(spoken)]
        return " ".join(spoken)
