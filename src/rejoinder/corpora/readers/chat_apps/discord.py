"""Discord: a channel as DiscordChatExporter writes it in JSON (its CSV is a table of messages)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import json_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.times import parse_time

_MESSAGES = ("Default", "Reply", "0", "19")


def read_discord(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chat of a channel."""
    del choice
    chat = Chat(name=sample.source.name.stem, endless=True)
    for _, item in json_values(sample.source, {"messages.item"}, sample.encoding, reading):
        if not isinstance(item, dict) or str(item.get("type", "Default")) not in _MESSAGES:
            reading.drop("lines of Discord itself (joins, pins, calls)")
            continue
        text = str(item.get("content") or "").strip()
        if not text:
            reading.drop("attachments and messages without a text")
            continue
        author: Any = item.get("author")
        author = author if isinstance(author, dict) else {}
        name = str(author.get("nickname") or author.get("name") or author.get("id") or "unknown")
        chat.messages.append(ChatMessage(name, text, parse_time(item.get("timestamp"))))
    yield chat


DISCORD = Form(
    name="discord",
    title="Discord channel (DiscordChatExporter)",
    holds="chats",
    export="DiscordChatExporter: export the channel, Format: JSON",
    matches=lambda sample: (
        {"messages.item.author", "messages.item.timestamp", "channel"} <= sample.keys
    ),
    read=read_discord,
)
