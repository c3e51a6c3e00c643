"""A chat out of an export: messages, and who wrote them when."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rejoinder.corpora.readers.flags import word_of

AUTOMATIC = "automatic answers"  # a key of `Reading.dropped`
_CLEARLY = 2  # falls for each rise, above which a file has the newest message first


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a chat."""

    author: str
    text: str
    time: float | None = None  # seconds since 1970, of the same clock in the whole file
    agent: bool | None = None  # whether an agent wrote it; None: the file does not say
    bot: bool = False  # whether a program wrote it


@dataclass(slots=True)
class Chat:
    """Messages of one conversation, oldest first."""

    messages: list[ChatMessage] = field(default_factory=list)
    name: str = ""  # its id; of an endless chat its title
    endless: bool = False  # of a messenger, where the next conversation follows in the same chat
    names: list[str] = field(default_factory=list)  # of participants, besides the authors'
    known: int = 0  # messages at the beginning that an earlier chat has, too


def omit_bots(chat: Chat) -> int:
    """Remove the messages of bots if agents answer, too; return their number."""
    if not any(message.agent and not message.bot for message in chat.messages):
        return 0
    count = len(chat.messages)
    chat.messages = [message for message in chat.messages if not message.bot]
    return count - len(chat.messages)


def chat_name(value: object) -> str:
    """Return the id of a conversation as a name; nothing for a blank such as NaN."""
    return str(value).strip() if word_of(value) else ""


def sort_by_time(messages: list[ChatMessage], *, newest_first: bool = False) -> None:
    """Sort messages by time if all have one; those of one time keep the order of the file.

    In a file that has the newest message first, that order is from its end.
    """
    if newest_first:
        messages.reverse()
    if all(message.time is not None for message in messages):
        messages.sort(key=lambda message: message.time or 0.0)


def is_newest_first(rows: Sequence[tuple[str, ChatMessage]]) -> bool:
    """Return whether times clearly fall in a file of messages, each with its chat's name.

    The messages of each chat decide. If all have one time in their chat, the order of the file
    does, but only if chats are interleaved: a list of chats may have the newest chat first and
    the oldest message of each first.
    """
    chats: dict[str, list[ChatMessage]] = {}
    for name, message in rows:
        chats.setdefault(name, []).append(message)
    counts = [_rises_and_falls(messages) for messages in chats.values()]
    rises = sum(up for up, _ in counts)
    falls = sum(down for _, down in counts)
    if not rises and not falls and len(list(itertools.groupby(rows, _name_of_row))) > len(chats):
        rises, falls = _rises_and_falls(message for _, message in rows)
    return falls > _CLEARLY * rises


def _name_of_row(row: tuple[str, ChatMessage]) -> str:
    return row[0]


def _rises_and_falls(messages: Iterable[ChatMessage]) -> tuple[int, int]:
    """Return how many times are later than the one before, and how many earlier."""
    times = (message.time for message in messages)
    pairs = list(itertools.pairwise(time for time in times if time is not None))
    rises = sum(later > earlier for earlier, later in pairs)
    return rises, sum(later < earlier for earlier, later in pairs)
