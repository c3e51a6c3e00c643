"""Help desks: their webhooks bring messages, and suggestions go back as notes in a conversation.

Chatwoot's webhooks (`message_created`) and its API for messages; a generic form for other desks.
The receiver answers a desk at once, and processes the event afterwards. What agents send is
feedback. The last messages of conversations are remembered in memory; one that is delivered twice
counts once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import http.client
import socket
import threading
import time
import urllib.parse
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from rejoinder.conversations import Conversation
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.outcomes import Outcome, Recorder
from rejoinder.curation.tickets import Ticket, forget, recall, remember
from rejoinder.errors import InputError, RejoinderError
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.replies import Reply
from rejoinder.serving.bounds import BoundedBodies
from rejoinder.serving.guard import logger

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

PATH = "/webhook"
SUGGESTED = 3
MOST_BYTES = 1 << 20  # of an event
WAITING = 256  # events that are worked on or wait
WORKERS = 4
REMEMBERED = 5_000  # conversations, and events
MESSAGES = 10  # of a conversation
MOST_KEPT = 4 << 20  # letters of all conversations
RECEIVING = 10.0  # seconds for the bytes of an event
CLOSING = 20.0  # seconds for accepted events after the signal to end
AGE = 300.0  # seconds for which a signature is valid
SECONDS = 10.0  # for a note: all attempts, each from the connection to the last byte of the answer
LONGEST_ID = 200  # letters of what a desk names an event, a conversation or a person by
PAUSES = (0.5, 2.0)  # seconds before each further attempt
ANSWER_BYTES = 64 << 10
_AGAIN = frozenset((429, 502, 503, 504))
MOST_LETTERS = 4_000  # of a message, which is cut there


class RefusedError(Exception):
    """A request that is no event, or none of the desk."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


class NoteError(RejoinderError):
    """The desk did not take a note."""


class Event(NamedTuple):
    """A message that somebody has written in a conversation of the desk."""

    id: str
    conversation: str
    author: Literal["customer", "agent"]
    text: str
    person: str  # who wrote it, as the desk names them


@dataclass(frozen=True)
class Chatwoot:
    """Chatwoot, from 4.11.2 on, which signs its webhooks."""

    token: str  # of an agent, or of an agent bot
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
            person=str(person.get("id", ""))[:LONGEST_ID],
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

    secret: str
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
            person=str(payload.get("person", ""))[:LONGEST_ID],
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


def _whole(payload: Mapping[str, Any], *names: str) -> int:
    """Return the whole number at a path: it becomes a part of an address."""
    value: Any = payload
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if type(value) is not int or value < 0:
        raise RefusedError(f"no event: {'.'.join(names)} is no whole number")
    return value


def note_text(replies: Sequence[Reply]) -> str:
    """Return the text of a note: the replies, numbered."""
    marks = ["(also) " if reply.also else "" for reply in replies]  # of a message's other question
    lines = [
        f"{number}. {mark}{reply.text}"
        for number, (mark, reply) in enumerate(zip(marks, replies, strict=True), 1)
    ]
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
    known = sign(secret, stamp, body).encode()
    return hmac.compare_digest(known, headers.get(f"{prefix}-signature", "").encode())


# --- The desk's address ---------------------------------------------------------------------------


class Address:
    """The one address that notes go to: no redirect, no proxy, bounded in time and size.

    Raises:
        InputError: it is no address of HTTP.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            parts = urllib.parse.urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # its port or its IPv6 address is none
            usable = False
        if not usable or parts.username:
            raise InputError(
                f"{url!r} is no address of a desk; write it as https://desk.example.com"
            )
        if parts.query or parts.fragment:
            raise InputError(f"{url!r}: leave out what follows ? or #")
        self._parts = parts

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send JSON; try again what the desk has not taken. NoteError: it does not take it."""
        end = time.monotonic() + SECONDS
        for pause in (*PAUSES, None):
            try:
                self._post_once(path, body, headers, end)
            except _RetryError as error:
                if pause is None or time.monotonic() + pause > end:
                    raise NoteError(str(error)) from None
                time.sleep(pause)
            else:
                return

    def _post_once(self, path: str, body: bytes, headers: Mapping[str, str], end: float) -> None:
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        port = self._parts.port or kind.default_port
        left = max(0.01, end - time.monotonic())
        connection = kind(str(self._parts.hostname), port, timeout=left)
        headers = {"content-type": "application/json", **headers}
        # the time-out of a socket begins again with every byte that comes
        alarm = threading.Timer(left, _hang_up, (connection,))
        alarm.daemon = True
        alarm.start()
        with contextlib.closing(connection), contextlib.ExitStack() as stack:
            stack.callback(alarm.cancel)
            try:
                connection.request("POST", self._parts.path + path or "/", body, headers)
            except TimeoutError as error:
                raise NoteError(f"{self.url} cannot be reached: {error}") from None
            except OSError as error:  # no connection, or lost while sending: the desk has no note
                raise _RetryError(f"{self.url} cannot be reached: {error}") from None
            try:
                answer = connection.getresponse()
                answer.read(ANSWER_BYTES)
            except (OSError, http.client.HTTPException) as error:
                raise NoteError(f"{self.url} has not answered: {error!r}") from None
        if answer.status in _AGAIN:
            raise _RetryError(f"{self.url} answered {answer.status}")
        if answer.status >= 300:
            raise NoteError(f"{self.url} answered {answer.status}")


def _hang_up(connection: http.client.HTTPConnection) -> None:
    """End an exchange: whoever reads gets to the end of the answer at once."""
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)


class _RetryError(NoteError):
    """Another attempt may succeed, and makes no second note."""


# --- The receiver ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Offer:
    """Replies that were suggested for a conversation."""

    messages: Conversation
    replies: Sequence[Reply]


class IndexSearcher:
    """An index, in which one thread at a time finds replies, and which learns from their use."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._log = FeedbackLog(index.folder)
        self._recorder = Recorder(index, self._log)
        self._lock = threading.Lock()

    def find(self, messages: Conversation) -> list[Reply]:
        """Return the replies to suggest."""
        with self._lock:
            try:
                self._index.refresh()
            except InputError as error:  # built again with another model, say
                fields = {"reason": str(error)}
                logger.warning("the earlier index goes on answering", extra={"fields": fields})
            return self._index.search([messages], SUGGESTED, no_repeat=True)[0]

    def claim(self, event: str) -> bool:
        """Return whether an event is new, and let the log remember it for a day."""
        own = _ticket(event)
        with self._lock:
            try:
                if recall(self._log, own) is not None:
                    return False
                with self._log.writing() as connection:
                    remember(connection, own, {})
            except (InputError, OSError) as error:  # it is remembered in memory
                fields = {"reason": str(error)}
                logger.warning("the log does not remember an event", extra={"fields": fields})
        return True

    def close(self) -> None:
        """Close the log, so that all of it is in its one file."""
        with self._lock:
            self._log.close()

    def release(self, event: str) -> None:
        """Let the log forget an event, which may come again."""
        with self._lock, contextlib.suppress(InputError, OSError):
            forget(self._log, _ticket(event))

    def feedback(self, offer: Offer, text: str, person: str) -> None:
        """Record what an agent has sent after an offer."""
        with self._lock:
            outcome = Outcome(
                messages=offer.messages,
                offered=[reply.position for reply in offer.replies],
                text=text,
                source=person or None,
                texts=[reply.text for reply in offer.replies],
            )
            self._recorder.record([outcome])


def _ticket(event: str) -> Ticket:
    key = hashlib.blake2b(b"desk " + event.encode(errors="replace"), digest_size=16)
    return Ticket(key.hexdigest(), "")


class Remembered(OrderedDict[str, Any]):
    """The newest `REMEMBERED` items, and of conversations so many that have `MOST_KEPT` letters."""

    _letters = 0

    def __setitem__(self, key: str, value: Any) -> None:
        """Set the newest item; forget the oldest."""
        self._letters += _letters(value) - _letters(self.get(key))
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > REMEMBERED or (self._letters > MOST_KEPT and len(self) > 1):
            _, oldest = self.popitem(last=False)
            self._letters -= _letters(oldest)


def _letters(value: object) -> int:
    """Return the letters of a conversation's messages; 0 of anything else."""
    return sum(len(each["content"]) for each in value) if isinstance(value, list) else 0


class Receiver:
    """What is done with the events of a desk; its methods run in one event loop."""

    def __init__(self, desk: Desk, address: Address, searcher: IndexSearcher, secret: str) -> None:
        self._desk = desk
        self._address = address
        self._searcher = searcher
        self._secret = secret
        self._seen = Remembered()
        self._messages = Remembered()  # lists of each conversation
        self._offers = Remembered()
        self._queue: asyncio.Queue[tuple[Event, Offer | None]] = asyncio.Queue(WAITING)

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: object) -> AsyncIterator[None]:
        """Work on events; finish what was accepted at the end."""
        workers = [asyncio.create_task(self._work()) for _ in range(WORKERS)]
        yield
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._queue.join(), CLOSING)
        for worker in workers:
            worker.cancel()
        await asyncio.to_thread(self._searcher.close)

    async def receive(self, request: Request) -> Response:
        """Take an event: 200 at once, whatever becomes of it."""
        from starlette.responses import JSONResponse

        try:
            event = await self._read(request)
        except RefusedError as error:
            return JSONResponse({"error": str(error)}, error.status)
        if event is None or event.id in self._seen:
            return JSONResponse({"status": "ignored" if event is None else "known"})
        if self._queue.full():
            return JSONResponse({"error": "too many events at once"}, 503, {"retry-after": "5"})
        self._seen[event.id] = True
        if not await asyncio.to_thread(self._searcher.claim, event.id):
            return JSONResponse({"status": "known"})
        if self._queue.full():  # meanwhile
            await self._release(event)
            return JSONResponse({"error": "too many events at once"}, 503, {"retry-after": "5"})
        self._accept(event)
        return JSONResponse({"status": "accepted"})

    async def _release(self, event: Event) -> None:
        """Let the desk deliver an event again."""
        self._seen.pop(event.id, None)
        await asyncio.to_thread(self._searcher.release, event.id)

    async def _read(self, request: Request) -> Event | None:
        """Return the message of an event that the desk has sent; None: it is of another kind."""
        body = await request.body()
        if self._secret and not is_signed(self._secret, self._desk.prefix, request.headers, body):
            raise RefusedError("the signature is missing, wrong or too old", 401)
        if not self._secret and "origin" in request.headers:
            raise RefusedError("events of web pages need a signature", 403)
        try:
            payload = msgspec.json.decode(body, type=dict[str, Any])
        except (ValueError, RecursionError) as error:
            raise RefusedError(f"no event: {error}") from None
        return self._desk.read(payload)

    def _accept(self, event: Event) -> None:
        """Remember an event, and let a worker see to it."""
        messages = list(self._messages.get(event.conversation, ()))
        role = "user" if event.author == "customer" else "assistant"
        message = {"role": role, "content": event.text}
        if not messages or messages[-1] != message:  # one that is delivered again after a failure
            messages.append(message)
        self._messages[event.conversation] = messages[-MESSAGES:]
        offer = self._offers.pop(event.conversation, None) if event.author == "agent" else None
        self._queue.put_nowait((event, offer))

    async def _work(self) -> None:
        while True:
            event, offer = await self._queue.get()
            try:
                if event.author == "customer":
                    await self._suggest(event)
                elif offer is not None:
                    await asyncio.to_thread(
                        self._searcher.feedback, offer, event.text, event.person
                    )
            except (InputError, NoteError, OSError) as error:
                await self._release(event)
                logger.warning(
                    "an event of the desk was lost", extra={"fields": {"reason": str(error)}}
                )
            except Exception:  # noqa: BLE001 (the next events are worked on all the same)
                logger.exception("an event of the desk was lost")
            finally:
                self._queue.task_done()

    async def _suggest(self, event: Event) -> None:
        """Put a note into the conversation, unless a newer message has come meanwhile."""
        messages = list(self._messages.get(event.conversation, ()))
        if not messages or messages[-1] != {"role": "user", "content": event.text}:
            return
        replies = await asyncio.to_thread(self._searcher.find, messages)
        if not replies:
            return
        offer = Offer(messages, replies)
        self._offers[event.conversation] = offer
        path, values = self._desk.note(event.conversation, replies)
        body = msgspec.json.encode(values)
        try:
            await asyncio.to_thread(self._address.post, path, body, self._desk.headers(body))
        except NoteError:
            if self._offers.get(event.conversation) is offer:
                del self._offers[event.conversation]
            raise


def make_receiver(receiver: Receiver) -> BoundedBodies:
    """Return the application: the webhook, and `/health`."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    def health(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    webhook = Route(PATH, receiver.receive, methods=["POST"])
    routes = [webhook, Route("/health", health)]
    application = Starlette(routes=routes, lifespan=receiver.lifespan)
    return BoundedBodies(application, most_bytes=MOST_BYTES, seconds=RECEIVING)
