"""A conversation that grows with each line of `rejoinder chat`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rejoinder.corpora.keys import text_key

if TYPE_CHECKING:
    from rejoinder.conversations import Conversation

RECENT = 256  # turns of a chat used for a search: no model reads more


class Talk:
    """A growing conversation: turns with `message` and `replies`.

    Searches use the `recent` turns. Of older turns, only the keys of messages and the persona
    statements are kept.
    """

    def __init__(self, recent: int) -> None:
        self.turns: list[dict[str, Any]] = []
        self._recent = recent
        self._keys: Counter[str] = Counter()
        self._stating: list[dict[str, Any]] = []

    def asked(self, line: str) -> Conversation:
        """Return the conversation whose newest message is `line`."""
        from rejoinder.retrieval.queries import Newest

        messages = [
            {"role": role, "content": text}
            for turn in [*self._stating, *self.turns[-self._recent :]]
            for role, text in _spoken(turn)
        ]
        return Newest([*messages, {"role": "user", "content": line}], earlier=self._keys)

    def append(self, turn: dict[str, Any]) -> None:
        """Add a turn."""
        from rejoinder.conversations import is_persona

        self.turns.append(turn)
        for old in self._newest_old():
            self._keys.update(_keys(old))
            self._stating += [old] if is_persona(old["message"]) else []

    def pop(self) -> dict[str, Any]:
        """Take the newest turn back."""
        for old in self._newest_old():
            self._keys -= Counter(_keys(old))
            self._stating = [turn for turn in self._stating if turn is not old]
        return self.turns.pop()

    def clear(self) -> None:
        """Begin anew."""
        self.turns.clear()
        self._keys.clear()
        self._stating.clear()

    def _newest_old(self) -> list[dict[str, Any]]:
        return self.turns[-self._recent - 1 : -self._recent]


def _spoken(turn: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("user", turn["message"]),
        *(("assistant", best["text"]) for best in turn["replies"][:1]),
    ]


def _keys(turn: Mapping[str, Any]) -> list[str]:
    return [text_key(text) for _, text in _spoken(turn)]
