"""Conversations as JSON, as language models and others have them: ShareGPT, OpenAI, ChatGPT.

A conversation is a list of messages, each with a role (`role`, `from`, `speaker`) and a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rejoinder.conversations import is_instruction
from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import REPLY
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import json_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage, chat_name
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.sides import OF_BOTS, WrittenBy, side_of_label
from rejoinder.corpora.readers.times import parse_time

_PLAIN_BOTS = ("bot", "chatbot")  # others, "assistant", answer beside whoever else does
_NAMES = ("id", "conversation_id", "dialogue_id", "chat_id")
_BASES = ("", "item.")
_LISTS = ("messages", "conversations", "conversation", "dialogue", "turns", "utterances")
_ROLES = ("role", "from", "speaker", "author", "sender")
_PAIRS = (("role", "content"), ("from", "value"))
_TEXTS = ("content", "value", "text", "message", "utterance")


class _Message(NamedTuple):
    """A message, who wrote it, in which role, and on which side."""

    author: str
    role: str
    side: WrittenBy | None
    text: str
    time: float | None = None


def read_chat_json(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the conversations of a file."""
    del choice
    base = "item" if any(key.startswith("item.") for key in sample.keys) else ""
    for _, record in json_values(sample.source, {base}, sample.encoding, reading):
        chat = Chat(name=_name_of(record))
        messages = list(_messages_of_chat(record))
        sides = {message.side for message in messages}
        is_system_agent = _answers_as_system(messages)
        for message in messages:
            is_system = is_instruction(message.role.lower()) or message.side == "system"
            if is_system and not is_system_agent:
                reading.drop("instructions and calls of tools")
            elif not message.text.strip():
                reading.drop("attachments and messages without a text")
            elif message.role.lower() in _PLAIN_BOTS and "agent" in sides:
                reading.drop(OF_BOTS)
            else:
                agent = is_system_agent if message.side == "system" else _is_agent(message.side)
                chat.messages.append(ChatMessage(message.author, message.text, message.time, agent))
        yield chat


def _name_of(record: Any) -> str:
    """Return the id of a conversation; "": it has none."""
    if not isinstance(record, dict):
        return ""
    return chat_name(next((record[key] for key in _NAMES if record.get(key)), None))


def _is_agent(side: WrittenBy | None) -> bool | None:
    return None if side is None else side in ("agent", "bot")


def _answers_as_system(messages: Sequence[_Message]) -> bool:
    """Return whether the system is who answers: it speaks behind customers, and nobody else does.

    MultiWOZ and SGD call it SYSTEM; "system" gives language models instructions.
    """
    sides = [message.side for message in messages]
    is_alone = set(sides) == {"customer", "system"}
    is_alone = is_alone and all(message.role.isupper() for message in messages)
    return is_alone and "system" in sides[sides.index("customer") :]


def _messages_of_chat(record: Any) -> Iterator[_Message]:
    """Yield the messages of a conversation."""
    if not isinstance(record, dict):
        return
    mapping = record.get("mapping")
    if isinstance(mapping, dict):
        for message in _branch(mapping, record.get("current_node")):
            author = message.get("author")
            role = str(author.get("role") or "") if isinstance(author, dict) else ""
            time = parse_time(message.get("create_time")) if message.get("create_time") else None
            text = _text_of_message(message.get("content"))
            yield _Message(role, role, side_of_label(role), text, time)
        return
    messages = next((record[name] for name in _LISTS if record.get(name)), None)
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict):
            value = next((message[key] for key in _ROLES if message.get(key) not in (None, "")), "")
            content = next((message[key] for key in _TEXTS if message.get(key) is not None), None)
            yield _said(value, _text_of_message(content))


def _said(value: Any, text: str) -> _Message:
    """Return a message of an author: a name or a role, or an object with its type and name."""
    if not isinstance(value, dict):
        author = str(value)
        return _Message(author, author, side_of_label(author), text)
    role = str(next((value[key] for key in ("role", "type") if value.get(key)), ""))
    author = str(value.get("name") or role)
    return _Message(author, role, side_of_label(role or author), text)


def _branch(mapping: dict[str, Any], last: Any) -> list[dict[str, Any]]:
    """Return the messages of ChatGPT's tree that lead to the last one that was shown."""
    if not isinstance(last, str) or last not in mapping:
        last = next(reversed(mapping), None)
    messages = []
    seen = set()
    while isinstance(last, str) and last in mapping and last not in seen:
        seen.add(last)
        node = mapping[last] if isinstance(mapping[last], dict) else {}
        if isinstance(node.get("message"), dict):
            messages.append(node["message"])
        last = node.get("parent")
    return messages[::-1]


def _text_of_message(content: Any) -> str:
    """Return a text, the text parts of a message, or those of ChatGPT's export."""
    if isinstance(content, dict):
        content = content.get("parts") or content.get("text")
    if isinstance(content, list):
        pieces = (piece.get("text") if isinstance(piece, dict) else piece for piece in content)
        content = "\n".join(piece for piece in pieces if isinstance(piece, str))
    return content.strip() if isinstance(content, str) else ""


def _is_chat_json(sample: Sample) -> bool:
    """Return whether conversations are in a file; lists of texts with titles are of replies."""
    if any(f"{base}mapping" in sample.keys for base in _BASES):
        return True
    lists = [f"{base}{name}.item." for base in _BASES for name in _LISTS]
    if any(
        {f"{path}{role}", f"{path}{text}"} <= sample.keys for path in lists for role, text in _PAIRS
    ):
        return True
    is_reply = any(f"{base}{name}" in sample.keys for base in _BASES for name in REPLY)
    return not is_reply and any(_has_messages(sample, path) for path in lists)


def _has_messages(sample: Sample, path: str) -> bool:
    has_author = any(f"{path}{role}" in sample.keys for role in _ROLES)
    has_text = any(f"{path}{text}" in sample.keys for text in _TEXTS)
    has_title = f"{path}title" in sample.keys or f"{path}name" in sample.keys
    return has_author and has_text and not has_title


CHAT_JSON = Form(
    name="chat-json",
    title="conversations as JSON (ShareGPT, OpenAI, ChatGPT, others)",
    holds="chats",
    export="ChatGPT: Settings, Data controls, Export data; others: the data set's JSON",
    matches=_is_chat_json,
    read=read_chat_json,
)
