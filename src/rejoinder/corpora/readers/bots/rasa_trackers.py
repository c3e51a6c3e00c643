"""Rasa: the conversations that its trackers record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import dicts, json_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage, chat_name
from rejoinder.corpora.readers.form import Form


def read_trackers(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the conversation of each tracker."""
    del choice
    for _, tracker in json_values(sample.source, {"", "item"}, sample.encoding, reading):
        for record in tracker if isinstance(tracker, list) else [tracker]:
            if isinstance(record, dict) and isinstance(record.get("events"), list):
                yield _tracked(record)


def _tracked(record: dict[str, Any]) -> Chat:
    chat = Chat(name=chat_name(record.get("sender_id")))
    for event in dicts(record["events"]):
        kind = event.get("event")
        text = event.get("text")
        if kind == "restart" or (kind == "session_started" and not chat.messages):
            continue
        if kind in ("user", "bot") and isinstance(text, str) and not text.startswith("/"):
            time = event.get("timestamp")
            when = float(time) if isinstance(time, int | float) else None
            chat.messages.append(ChatMessage(str(kind), text, when, agent=kind == "bot"))
    return chat


RASA_TRACKERS = Form(
    name="rasa-trackers",
    title="Rasa trackers",
    holds="chats",
    export="Rasa: GET /conversations/ID/tracker of each conversation, an object a line",
    matches=lambda sample: sample.has("events", "events.item.event", "sender_id"),
    read=read_trackers,
)
