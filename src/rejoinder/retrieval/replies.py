"""Replies of an index, and conversations to answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rejoinder.conversations import Conversation, spoken
from rejoinder.corpora.example import Candidate
from rejoinder.corpora.formats import BadRecordError, earlier_context
from rejoinder.corpora.lines import open_lines
from rejoinder.corpora.tables import parse_line
from rejoinder.errors import InputError

CONVERSATION_FIELDS = ("messages", "turns", "context")


@dataclass(frozen=True, slots=True)
class Why:
    """The reason for a reply: its part with most weight, and its text most like the context."""

    view: Literal["text", "title", "example"]
    like: tuple[str, ...]  # the reply's text, its title, or the nearest of its examples
    similarity: float  # cosine of its encoding and the conversation's


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of an index."""

    text: str
    score: float  # cosine of its encoding and the context's, or whatever else the model's score is
    position: int  # its number in the input, from 0; the same whatever was added or deleted since
    payload: Mapping[str, Any]  # whatever other fields its input had
    title: str = ""
    examples: tuple[tuple[str, ...], ...] = ()  # conversations that it is known to answer
    why: Why | None = None  # if it was asked for

    @classmethod
    def of(cls, candidate: Candidate, score: float, position: int) -> Reply:
        """Return a candidate with its score."""
        examples = (*candidate.examples, *candidate.learned)
        return cls(candidate.text, score, position, candidate.payload, candidate.title, examples)

    def to_json(self) -> dict[str, Any]:
        """Return the reply as JSON types; its title and why it was found only where it has them."""
        values: dict[str, Any] = {
            "text": self.text,
            "score": self.score,
            "position": self.position,
            "payload": dict(self.payload),
        }
        if self.title:
            values["title"] = self.title
        if self.why is not None:
            values["why"] = asdict(self.why)
        return values


def read_conversations(path: str | Path) -> list[tuple[dict[str, Any], Conversation]]:
    """Read conversations, one a line of JSON, each after {"id": ...} or {}.

    Errors name file, line and reason.

    A line is a text, a list of messages, or an object with one of these in one of
    `CONVERSATION_FIELDS` (DATA19's `context/0`, ... too) and perhaps an `id`. Blank messages are
    left out.
    """
    found: list[tuple[dict[str, Any], Conversation]] = []
    for number, line in open_lines(path):
        if not line.strip():
            continue
        values = parse_line(
            line, where := f"{path}:{number}", "a text, a list of messages or an object"
        )
        record = values if isinstance(values, dict) else {CONVERSATION_FIELDS[0]: values}
        name = next((name for name in CONVERSATION_FIELDS if name in record), None)
        if name is None:
            there = ", ".join(record) or "none"
            raise InputError(
                f"{where}: no field {' or '.join(CONVERSATION_FIELDS)}; there is {there}"
            )
        try:
            given = record[name]
            messages = [*earlier_context(record), given] if isinstance(given, str) else given
            spoken(messages)
            said = [
                each
                for each in messages
                if not isinstance(text := _content(each), str) or text.strip()
            ]
            spoken(said)
        except (BadRecordError, InputError) as error:
            raise InputError(f"{where}: {error}") from None
        found.append(({key: record[key] for key in ("id",) if key in record}, said))
    if not found:
        raise InputError(f"{path} holds no conversations; each line of it should be one, as JSON")
    return found


def _content(message: Any) -> Any:
    return message.get("content") if isinstance(message, dict) else message
