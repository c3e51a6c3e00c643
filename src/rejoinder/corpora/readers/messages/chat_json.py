"""Conversations as language models have them: ShareGPT, OpenAI's messages, ChatGPT's export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.conversations import is_instruction
from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import json_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage, chat_name
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.sides import BOTS
from rejoinder.corpora.readers.times import parse_time

_AGENT_ROLES = BOTS | {"agent"}
_BASES = ("", "item.")


def read_chat_json(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the conversations of a file."""
    del choice
    base = "item" if any(key.startswith("item.") for key in sample.keys) else ""
    for _, record in json_values(sample.source, {base}, sample.encoding, reading):
        chat = Chat(name=chat_name(record.get("id")) if isinstance(record, dict) else "")
        for message in _messages_of_chat(record):
            role, text, time = message
            if is_instruction(role):
                reading.drop("instructions and calls of tools")
            elif not text.strip():
                reading.drop("attachments and messages without a text")
            else:
                chat.messages.append(ChatMessage(role, text, time, role in _AGENT_ROLES))
        yield chat


def _messages_of_chat(record: Any) -> Iterator[tuple[str, str, float | None]]:
    """Yield role, text and time of the messages of a conversation."""
    if not isinstance(record, dict):
        return
    mapping = record.get("mapping")
    if isinstance(mapping, dict):
        for message in _branch(mapping, record.get("current_node")):
            author = message.get("author")
            role = author.get("role") if isinstance(author, dict) else ""
            time = parse_time(message.get("create_time")) if message.get("create_time") else None
            yield str(role or ""), _text_of_message(message.get("content")), time
        return
    messages = record.get("messages") or record.get("conversations") or record.get("conversation")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict):
            role = message.get("role") or message.get("from") or ""
            text = message.get("content") if "content" in message else message.get("value")
            yield str(role).lower(), _text_of_message(text), None


def _branch(mapping: dict[str, Any], last: Any) -> list[dict[str, Any]]:
    """Return the messages of ChatGPT's tree that lead to the last one that was shown."""
    if last not in mapping:
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
    return any(
        {f"{base}{messages}.item.{role}", f"{base}{messages}.item.{text}"} <= sample.keys
        for base in _BASES
        for messages in ("messages", "conversations", "conversation")
        for role, text in (("role", "content"), ("from", "value"))
    ) or any(f"{base}mapping" in sample.keys for base in _BASES)


CHAT_JSON = Form(
    name="chat-json",
    title="chats of language models (ShareGPT, OpenAI, ChatGPT)",
    holds="chats",
    export="ChatGPT: Settings, Data controls, Export data; others: the data set's JSON",
    matches=_is_chat_json,
    read=read_chat_json,
)
