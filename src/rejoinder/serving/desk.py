"""The receiver of a help desk's webhooks: suggestions as notes, feedback from what agents send.

It answers the desk at once, and works then. The last messages of conversations are remembered in
memory; one that is delivered twice counts once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rejoinder.conversations import Conversation
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.learning import Outcome
from rejoinder.retrieval.replies import Reply
from rejoinder.serving.desks import (
    Address,
    BadEventError,
    Desk,
    Event,
    NoteError,
    is_signed,
    json_bytes,
)
from rejoinder.serving.guard import logger

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

PATH = "/webhook"
SUGGESTED = 3
MOST_BYTES = 1 << 20  # of an event
WAITING = 256  # events that are worked on or wait
WORKERS = 4
REMEMBERED = 5_000  # conversations, and events
MESSAGES = 10  # of a conversation
RECEIVING = 10.0  # seconds for the bytes of an event
CLOSING = 20.0  # seconds for accepted events after the signal to end


class Searcher(Protocol):
    """Finds replies, and takes feedback on them; see `IndexSearcher`."""

    def find(self, messages: Conversation, /) -> list[Reply]:
        """Return the replies to suggest."""

    def feedback(self, offer: Offer, text: str, person: str, /) -> None:
        """Record what an agent has sent after an offer."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Replies that were suggested for a conversation."""

    messages: Conversation
    replies: Sequence[Reply]


class IndexSearcher:
    """An index, which one thread at a time may use."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._lock = threading.Lock()

    def find(self, messages: Conversation) -> list[Reply]:
        """See `Searcher`."""
        with self._lock:
            try:
                self._index.refresh()
            except InputError as error:  # built again with another model, say
                fields = {"reason": str(error)}
                logger.warning("the earlier index goes on answering", extra={"fields": fields})
            return self._index.search([messages], SUGGESTED, distinct=True, no_repeat=True)[0]

    def feedback(self, offer: Offer, text: str, person: str) -> None:
        """See `Searcher`."""
        with self._lock:
            outcome = Outcome(
                messages=offer.messages,
                offered=[reply.position for reply in offer.replies],
                text=text,
                source=person or None,
                texts=[reply.text for reply in offer.replies],
            )
            self._index.record([outcome])


class Remembered(OrderedDict[str, Any]):
    """The newest `REMEMBERED` items."""

    def __setitem__(self, key: str, value: Any) -> None:
        """Set the newest item; forget the oldest."""
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > REMEMBERED:
            self.popitem(last=False)


class Receiver:
    """What is done with the events of a desk; its methods run in one event loop."""

    def __init__(self, desk: Desk, address: Address, searcher: Searcher, secret: str) -> None:
        self._desk = desk
        self._address = address
        self._searcher = searcher
        self._secret = secret
        self._seen = Remembered()
        self._messages = Remembered()  # deques of each conversation
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

    async def receive(self, request: Request) -> Response:
        """Take an event: 200 at once, whatever becomes of it."""
        from starlette.responses import JSONResponse

        try:
            event = await self._read(request)
        except _RefusedError as error:
            return JSONResponse({"error": error.reason}, error.status)
        if event is None or event.id in self._seen:
            return JSONResponse({"status": "ignored" if event is None else "known"})
        if self._queue.full():
            return JSONResponse({"error": "too many events at once"}, 503, {"retry-after": "5"})
        self._accept(event)
        return JSONResponse({"status": "accepted"})

    async def _read(self, request: Request) -> Event | None:
        """Return the message of an event that the desk has sent; None: it is of another kind."""
        try:
            async with asyncio.timeout(RECEIVING):
                body = await _body(request)
        except TimeoutError:
            raise _RefusedError(408, "the event did not come in time") from None
        if self._secret and not is_signed(self._secret, self._desk.prefix, request.headers, body):
            raise _RefusedError(401, "the signature is missing, wrong or too old")
        if not self._secret and "origin" in request.headers:
            raise _RefusedError(403, "events of web pages need a signature")
        try:
            payload = json.loads(body)
            if not isinstance(payload, dict):
                raise BadEventError("an event is a JSON object")
            return self._desk.read(payload)
        except (ValueError, RecursionError) as error:
            raise _RefusedError(400, f"no event: {error}"[:200]) from None

    def _accept(self, event: Event) -> None:
        """Remember an event, and let a worker see to it."""
        self._seen[event.id] = True
        messages = self._messages.get(event.conversation) or deque(maxlen=MESSAGES)
        role = "user" if event.author == "customer" else "assistant"
        message = {"role": role, "content": event.text}
        if not messages or messages[-1] != message:  # one that is delivered again after a failure
            messages.append(message)
        self._messages[event.conversation] = messages
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
                self._seen.pop(event.id, None)  # the desk may deliver it again
                logger.warning(
                    "an event of the desk was lost", extra={"fields": {"reason": str(error)}}
                )
            except Exception:  # noqa: BLE001 (the next events are worked on all the same)
                logger.exception("an event of the desk was lost")
            finally:
                self._queue.task_done()

    async def _suggest(self, event: Event) -> None:
        """Put a note into the conversation, unless a newer message has come meanwhile."""
        messages = list(self._messages[event.conversation])
        if messages[-1] != {"role": "user", "content": event.text}:
            return
        replies = await asyncio.to_thread(self._searcher.find, messages)
        if not replies:
            return
        offer = Offer(messages, replies)
        self._offers[event.conversation] = offer
        path, values = self._desk.note(event.conversation, replies)
        body = json_bytes(values)
        try:
            await asyncio.to_thread(self._address.post, path, body, self._desk.headers(body))
        except NoteError:
            if self._offers.get(event.conversation) is offer:
                del self._offers[event.conversation]
            raise


class _RefusedError(Exception):
    """A request that is no event of the desk."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise _RefusedError(413, f"an event has at most {MOST_BYTES} bytes")
    return body


def make_receiver(receiver: Receiver) -> Starlette:
    """Return the application: the webhook, and `/health`."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def health(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(
        routes=[
            Route(PATH, receiver.receive, methods=["POST"]),
            Route("/health", health, methods=["GET"]),
        ],
        lifespan=receiver.lifespan,
    )
