"""Help desks that send webhooks: what their events say, and how a note is put into a conversation.

Chatwoot's webhooks (`message_created`) and its API for messages; a generic form for other desks.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from rejoinder.errors import InputError, RejoinderError
from rejoinder.retrieval.replies import Reply

AGE = 300.0  # seconds for which a signature is valid
SECONDS = 10.0  # for an answer of the desk
PAUSES = (0.5, 2.0)  # seconds before each further attempt
ANSWER_BYTES = 64 << 10
_AGAIN = frozenset((429, 502, 503, 504))
MOST_LETTERS = 4_000  # of a message, which is cut there


class BadEventError(ValueError):
    """An event that is not what the desk's documentation says."""


class NoteError(RejoinderError):
    """The desk did not take a note."""


class Event(NamedTuple):
    """A message that somebody has written in a conversation of the desk."""

    id: str
    conversation: str
    author: Literal["customer", "agent"]
    text: str
    person: str  # who wrote it, as the desk names them


class Desk(Protocol):
    """A kind of help desk."""

    prefix: str
    """What the headers of its signature begin with."""

    def read(self, payload: Mapping[str, Any]) -> Event | None:
        """Return the message of an event; None: it is of another kind. May raise BadEventError."""

    def note(self, conversation: str, replies: Sequence[Reply]) -> tuple[str, dict[str, Any]]:
        """Return the path below the desk's address, and the body, of a note with suggestions."""

    def headers(self, body: bytes) -> dict[str, str]:
        """Return the headers by which the desk knows who sends a note."""


@dataclass(frozen=True)
class Chatwoot:
    """Chatwoot, from 4.11.2 on, which signs its webhooks."""

    token: str  # of an agent, or of an agent bot
    prefix: str = "x-chatwoot"

    def read(self, payload: Mapping[str, Any]) -> Event | None:
        """See `Desk`. Private notes, and what bots and automations send, are left out."""
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
            person=str(person.get("id", "")),
        )

    def note(self, conversation: str, replies: Sequence[Reply]) -> tuple[str, dict[str, Any]]:
        """See `Desk`: a private note, which the customer does not see."""
        account, _, number = conversation.partition("/")
        path = f"/api/v1/accounts/{account}/conversations/{number}/messages"
        return path, {"content": note_text(replies), "message_type": "outgoing", "private": True}

    def headers(self, body: bytes) -> dict[str, str]:
        """See `Desk`."""
        del body
        return {"api_access_token": self.token}


@dataclass(frozen=True)
class Generic:
    """Any other desk: events of five fields, and notes as JSON that is signed as the events are."""

    secret: str
    prefix: str = "x-rejoinder"

    def read(self, payload: Mapping[str, Any]) -> Event | None:
        """See `Desk`."""
        values = {}
        for name in ("id", "conversation", "author", "text"):
            value = payload.get(name)
            if not isinstance(value, str) or not value.strip():
                raise BadEventError(f"{name} is missing or no text")
            values[name] = value
        author = values["author"]
        if author not in ("customer", "agent"):
            raise BadEventError(f"author is {author[:40]!r}; it is customer or agent")
        return Event(
            id=values["id"],
            conversation=values["conversation"],
            author="customer" if author == "customer" else "agent",
            text=values["text"][:MOST_LETTERS],
            person=str(payload.get("person", "")),
        )

    def note(self, conversation: str, replies: Sequence[Reply]) -> tuple[str, dict[str, Any]]:
        """See `Desk`."""
        shown = [
            {"position": reply.position, "text": reply.text, "score": reply.score}
            for reply in replies
        ]
        return "", {"conversation": conversation, "text": note_text(replies), "replies": shown}

    def headers(self, body: bytes) -> dict[str, str]:
        """See `Desk`."""
        if not self.secret:
            return {}
        stamp = str(int(time.time()))
        return {f"{self.prefix}-timestamp": stamp,
                f"{self.prefix}-signature": sign(self.secret, stamp, body)}  # fmt: skip


def _whole(payload: Mapping[str, Any], *names: str) -> int:
    """Return the whole number at a path: it becomes a part of an address."""
    value: Any = payload
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if type(value) is not int or value < 0:
        raise BadEventError(f"{'.'.join(names)} is no whole number")
    return value


def note_text(replies: Sequence[Reply]) -> str:
    """Return the text of a note: the replies, numbered."""
    lines = [f"{number}. {reply.text}" for number, reply in enumerate(replies, 1)]
    return "\n\n".join(["Suggested replies:", *lines])


# --- Signatures -----------------------------------------------------------------------------------


def sign(secret: str, stamp: str, body: bytes) -> str:
    """Return the signature of a body that is sent at a time: HMAC-SHA256 of "time.body"."""
    digest = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={digest.hexdigest()}"


def is_signed(secret: str, prefix: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether a body has a valid signature of the last `AGE` seconds."""
    stamp = headers.get(f"{prefix}-timestamp", "")
    if not (stamp.isascii() and stamp.isdecimal() and len(stamp) < 12):
        return False
    if abs(time.time() - int(stamp)) > AGE:
        return False
    known = sign(secret, stamp, body)
    return hmac.compare_digest(known, headers.get(f"{prefix}-signature", ""))


# --- The desk's address ---------------------------------------------------------------------------


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        """Follow no redirect, which might name another host."""
        del args


class Address:
    """The one address that notes go to: no redirect, no proxy, bounded in time and size.

    Raises:
        InputError: it is no address of HTTP.
    """

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise InputError(
                f"{url!r} is no address of a desk; write it as https://desk.example.com"
            )
        if parts.query or parts.fragment:
            raise InputError(f"{url!r}: leave out what follows ? or #")
        self.url = url.rstrip("/")
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send JSON; try again what the desk has not taken. NoteError: it does not take it."""
        for pause in (*PAUSES, None):
            try:
                self._post_once(path, body, headers)
            except _RetryError as error:
                if pause is None:
                    raise NoteError(str(error)) from None
                time.sleep(pause)
            else:
                return

    def _post_once(self, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        request = urllib.request.Request(  # noqa: S310 (the scheme was checked)
            self.url + path,
            data=body,
            headers={"content-type": "application/json", **headers},
            method="POST",
        )
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                answer.read(ANSWER_BYTES)
        except urllib.error.HTTPError as error:
            error.close()
            kind = _RetryError if error.code in _AGAIN else NoteError
            raise kind(f"{self.url} answered {error.code}") from None
        except urllib.error.URLError as error:
            # The connection was not made, or was lost while sending: the desk has no note.
            timed_out = isinstance(error.reason, TimeoutError)
            kind = NoteError if timed_out else _RetryError
            raise kind(f"{self.url} cannot be reached: {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            raise NoteError(f"{self.url} has not answered: {error!r}") from None


class _RetryError(NoteError):
    """Another attempt may succeed, and makes no second note."""


def json_bytes(values: Mapping[str, Any]) -> bytes:
    """Return JSON as it is sent."""
    return json.dumps(values, ensure_ascii=False).encode()
