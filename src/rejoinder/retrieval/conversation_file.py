"""Conversations in a file of JSON, one a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rejoinder.conversations import Conversation, spoken
from rejoinder.corpora.forms.formats import earlier_context
from rejoinder.corpora.forms.json_rows import parse_line
from rejoinder.corpora.lines import open_lines
from rejoinder.corpora.records import BadRecordError
from rejoinder.errors import InputError

CONVERSATION_FIELDS = ("messages", "turns", "context")


def read_conversations(path: str | Path) -> list[tuple[dict[str, Any], Conversation]]:
    """Read conversations, one a line of JSON, each after {"id": ...} or {}.

    Errors name file, line and reason.

    A line is a text, a list of messages, or an object with one of these in one of
    `CONVERSATION_FIELDS` (DATA19's `context/0`, ... too) and perhaps an `id`. Blank messages are
    left out.
    """
    conversations: list[tuple[dict[str, Any], Conversation]] = []
    for number, line in open_lines(path):
        if not line.strip():
            continue
        values = parse_line(
            line, where := f"{path}:{number}", "a text, a list of messages or an object"
        )
        record = values if isinstance(values, dict) else {CONVERSATION_FIELDS[0]: values}
        name = next((name for name in CONVERSATION_FIELDS if name in record), None)
        if name is None:
            fields = ", ".join(record) or "none"
            raise InputError(
                f"{where}: no field {' or '.join(CONVERSATION_FIELDS)}; there is {fields}"
            )
        try:
            value = record[name]
            messages = [*earlier_context(record), value] if isinstance(value, str) else value
            spoken(messages)
            nonempty = [
                message
                for message in messages
                if not isinstance(text := _content(message), str) or text.strip()
            ]
            spoken(nonempty)
        except (BadRecordError, InputError) as error:
            raise InputError(f"{where}: {error}") from None
        conversations.append(({key: record[key] for key in ("id",) if key in record}, nonempty))
    if not conversations:
        raise InputError(f"{path} holds no conversations; each line of it should be one, as JSON")
    return conversations


def _content(message: Any) -> Any:
    return message.get("content") if isinstance(message, dict) else message
