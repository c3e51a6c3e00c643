"""Events of a desk: read from its webhooks, in the form of Chatwoot or a general one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from rejoinder.retrieval.replies import Reply
from rejoinder.serving.desk.signatures import sign

MESSAGES = 10  # of a conversation

LONGEST_ID = 200  # letters of what a desk names an event, a conversation or a person by

MOST_LETTERS = 4_000  # of a message, which is cut there


class RefusedError(Exception):
    """A request that is not an event, or none of the desk."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


class Event(NamedTuple):
    """A message that somebody has written in a conversation of the desk."""

    id: str
    conversation: str
    author: Literal["customer", "agent"]
    text: str
    person: str  # who wrote it, as the desk names them; "" where it names nobody


@dataclass(frozen=True)
class Chatwoot:
    """Chatwoot, from 4.11.2 on, which signs its webhooks."""

    token: str = field(repr=False)  # of an agent, or of an agent bot
    prefix: str = "x-chatwoot"  # of its signature's headers

    def read(self, payload: Mapping[str, Any]) -> Event | None:
        """Return the message of an event, which may raise RefusedError; None: of another kind.

        Private notes, and what bots and automations send, are left out.
        """
        if payload.get("event") != "message_created" or payload.get("private"):
            return None
        kind = payload.get("message_type")
        sender = payload.get("sender")
        person = sender if isinstance(sender, dict) else {}
        text = payload.get("content")
        if kind not in ("incoming", "outgoing") or not isinstance(text, str) or not text.strip():
            return None
        if kind == "outgoing" and person.get("type") != "user":
            return None
        account = _whole(payload, "account", "id")
        conversation = _whole(payload, "conversation", "id")
        return Event(
            id=f"{account}/{_whole(payload, 'id')}",
            conversation=f"{account}/{conversation}",
            author="customer" if kind == "incoming" else "agent",
            text=text[:MOST_LETTERS],
            person=_name(person.get("id")),
        )

    def note(self, conversation: str, replies: Sequence[Reply]) -> tuple[str, dict[str, Any]]:
        """Return the path below the desk's address, and the body, of a note with suggestions.

        The note is private: the customer does not see it.
        """
        account, _, number = conversation.partition("/")
        path = f"/api/v1/accounts/{account}/conversations/{number}/messages"
        return path, {"content": note_text(replies), "message_type": "outgoing", "private": True}

    def headers(self, body: bytes) -> dict[str, str]:  # noqa: ARG002
        """Return the headers by which the desk knows who sends a note."""
        return {"api_access_token": self.token}


@dataclass(frozen=True)
class Generic:
    """Any other desk: events of five fields, and notes as JSON that is signed as the events are."""

    secret: str = field(repr=False)
    prefix: str = "x-rejoinder"

    def read(self, payload: Mapping[str, Any]) -> Event:
        """Return the message of an event, which may raise RefusedError."""
        values = {}
        for name in ("id", "conversation", "author", "text"):
            value = payload.get(name)
            if not isinstance(value, str) or not value.strip():
                raise RefusedError(f"no event: {name} is missing or no text")
            if name != "text" and len(value) > LONGEST_ID:
                raise RefusedError(f"no event: {name} has more than {LONGEST_ID} letters")
            values[name] = value
        author = values["author"]
        if author not in ("customer", "agent"):
            raise RefusedError(f"no event: author is {author[:40]!r}; it is customer or agent")
        return Event(
            id=values["id"],
            conversation=values["conversation"],
            author="customer" if author == "customer" else "agent",
            text=values["text"][:MOST_LETTERS],
            person=_name(payload.get("person")),
        )

    def note(self, conversation: str, replies: Sequence[Reply]) -> tuple[str, dict[str, Any]]:
        """Return nothing to add to the desk's address, and the body of a note."""
        shown = [
            {"position": reply.position, "text": reply.text, "score": reply.score}
            for reply in replies
        ]
        return "", {"conversation": conversation, "text": note_text(replies), "replies": shown}

    def headers(self, body: bytes) -> dict[str, str]:
        """Return the signature of a note."""
        if not self.secret:
            return {}
        stamp = str(int(time.time()))
        return {f"{self.prefix}-timestamp": stamp,
                f"{self.prefix}-signature": sign(self.secret, stamp, body)}  # fmt: skip


Desk: TypeAlias = Chatwoot | Generic


def _name(value: object) -> str:
    """Return the name of a person; "" of null and of what is missing."""
    return "" if value is None else str(value)[:LONGEST_ID]


def _whole(payload: Mapping[str, Any], *names: str) -> int:
    """Return the whole number at a path: it becomes a part of an address."""
    value: Any = payload
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if type(value) is not int or value < 0:
        raise RefusedError(f"no event: {'.'.join(names)} is not a whole number")
    return value


def note_text(replies: Sequence[Reply]) -> str:
    """Return the text of a note: the replies, numbered."""
    marks = ["(also) " if reply.also else "" for reply in replies]  # of a message's other question
    lines = [
        f"{number}. {mark}{reply.text}"
        for number, (mark, reply) in enumerate(zip(marks, replies, strict=True), 1)
    ]
    return "\n\n".join(["Suggested replies:", *lines])
