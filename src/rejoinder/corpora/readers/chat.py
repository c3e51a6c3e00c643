"""A chat out of an export: messages, and who wrote them when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


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
