"""A chat out of an export: messages, and who wrote them when."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a chat."""

    author: str
    text: str
    time: float | None = None  # seconds since 1970, of the same clock in the whole file
    agent: bool | None = None  # whether an agent wrote it; None: the file does not say


@dataclass(slots=True)
class Chat:
    """Messages of one conversation, oldest first."""

    messages: list[ChatMessage] = field(default_factory=list)
    name: str = ""  # as the file names it
    endless: bool = False  # of a messenger, where the next conversation follows in the same chat
    names: list[str] = field(default_factory=list)  # of participants, besides the authors'
    known: int = 0  # messages at the beginning that an earlier chat has, too
    thread: str = ""  # of chats that share messages


def sort_by_time(messages: list[ChatMessage], *, newest_first: bool = False) -> None:
    """Sort messages by time if all have one; those of one time keep the order of the file.

    In a file that has the newest message first, that order is from its end.
    """
    if newest_first:
        messages.reverse()
    if all(message.time is not None for message in messages):
        messages.sort(key=lambda message: message.time or 0.0)


def is_newest_first(chats: Sequence[Sequence[ChatMessage]]) -> bool:
    """Return whether times mostly fall: within the chats of a file, else from chat to chat."""
    rises = sum(_rises(message.time for message in messages) for messages in chats)
    return (rises or _rises(messages[0].time for messages in chats)) < 0


def _rises(times: Iterable[float | None]) -> int:
    """Return how many times are later than the one before, less those that are earlier."""
    pairs = itertools.pairwise(time for time in times if time is not None)
    return sum((later > earlier) - (later < earlier) for earlier, later in pairs)
