"""Telegram: result.json of a chat's export, or of all data of an account.

The agent is the owner of the account where the export says who that is, and in a chat of two the
one after whom the chat is not named.
"""

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

_SAVED_MESSAGES = "saved_messages"
_PATHS = {"personal_information", "name", "type", "messages.item", "chats.list.item",
          "left_chats.list.item"}  # fmt: skip


def read_telegram(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of an export."""
    del choice
    owner = ""
    alone: dict[str, Any] = {"messages": []}  # the export of one chat
    for path, value in json_values(sample.source, _PATHS, sample.encoding, reading):
        if path == "personal_information" and isinstance(value, dict):
            owner = str(value.get("user_id") or "")
        elif path == "messages.item":
            alone["messages"].append(value)
        elif path in ("name", "type"):
            alone[path] = value
        elif isinstance(value, dict) and value.get("type") != _SAVED_MESSAGES:
            yield _chat(value, owner, reading)
    yield _chat(alone, owner, reading)


def _chat(record: dict[str, Any], owner: str, reading: Reading) -> Chat:
    """Return a chat of an export; `owner` is who exported it."""
    name = str(record.get("name") or "")
    chat = Chat(name=name, endless=True)
    messages = record.get("messages")
    items = [
        item
        for item in (messages if isinstance(messages, list) else [])
        if _is_telegram_message(item, reading)
    ]
    senders = {_sender(item) for item in items}
    is_of_two = record.get("type") in ("personal_chat", "bot_chat") and name in senders
    for item in items:
        sender = _sender(item)
        agent = None
        if owner and item.get("from_id"):
            agent = str(item["from_id"]).removeprefix("user") == owner
        elif is_of_two:
            agent = sender != name
        time = parse_time(item.get("date_unixtime") or item.get("date"))
        chat.messages.append(ChatMessage(sender, _text(item.get("text")), time, agent))
    return chat


def _is_telegram_message(item: Any, reading: Reading) -> bool:
    """Return whether an item is a message with a text; count what is not."""
    if not isinstance(item, dict) or item.get("type") != "message":
        reading.drop("service messages (joins, calls, pins)")
        return False
    if not _text(item.get("text")):
        reading.drop("attachments and messages without a text")
        return False
    return True


def _sender(item: dict[str, Any]) -> str:
    return str(item.get("from") or item.get("from_id") or "deleted account")


def _text(value: Any) -> str:
    """Return a message's text: a text, or pieces with their formatting."""
    pieces = value if isinstance(value, list) else [value]
    texts = (piece.get("text") if isinstance(piece, dict) else piece for piece in pieces)
    return "".join(text for text in texts if isinstance(text, str)).strip()


TELEGRAM = Form(
    name="telegram",
    title="Telegram export",
    holds="chats",
    export="Telegram Desktop: in the chat the menu, Export chat history, Format: JSON; result.json",
    matches=lambda sample: (
        {"messages.item.from_id", "messages.item.date_unixtime"} <= sample.keys
        or {"messages.item.from_id", "messages.item.text", "messages.item.type"} <= sample.keys
        or any(f"{name}.list.item.messages" in sample.keys for name in ("chats", "left_chats"))
        or ("personal_information.user_id" in sample.keys and "chats" in sample.keys)
    ),
    read=read_telegram,
)
