"""The receiver of a help desk's events: answered at once, processed afterwards.

Suggestions go back as notes in a conversation, and what agents send is feedback. The last messages
of conversations are remembered in memory; one that is delivered twice counts once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from rejoinder.errors import InputError
from rejoinder.serving.bounds import BoundedBodies
from rejoinder.serving.desk.address import Address, NoteError
from rejoinder.serving.desk.events import MESSAGES, Desk, Event, RefusedError
from rejoinder.serving.desk.index import IndexSearcher, Offer
from rejoinder.serving.desk.signatures import is_signed
from rejoinder.serving.guard import misdirected
from rejoinder.serving.http.logs import logger

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

PATH = "/webhook"

SECRET = "REJOINDER_DESK_SECRET"  # noqa: S105 (the name of a variable)

MOST_BYTES = 1 << 20  # of an event

WAITING = 256  # events that are worked on or wait

WORKERS = 4

REMEMBERED = 5_000  # conversations, and events

MOST_KEPT = 4 << 20  # letters of all conversations

RECEIVING = 10.0  # seconds for the bytes of an event

CLOSING = 20.0  # seconds for accepted events after the signal to end


class BoundedMemory(OrderedDict[str, Any]):
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
    return sum(len(message["content"]) for message in value) if isinstance(value, list) else 0


class Receiver:
    """A receiver of a desk's events; its methods run in one event loop."""

    def __init__(self, desk: Desk, address: Address, searcher: IndexSearcher, secret: str) -> None:
        self._desk = desk
        self._address = address
        self._searcher = searcher
        self._secret = secret
        self._seen = BoundedMemory()
        self._messages = BoundedMemory()  # lists of each conversation
        self._offers = BoundedMemory()
        self._unrecorded = BoundedMemory()  # offers of events that could not be recorded
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

        headers = dict(request.scope["headers"])
        if refusal := misdirected(request.scope, headers, None if self._secret else SECRET):
            status, text = refusal
            return JSONResponse({"error": text}, status)
        return await self._take(request)

    async def _take(self, request: Request) -> Response:
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
        self._queue.put_nowait((event, self._take_offer(event)))

    def _take_offer(self, event: Event) -> Offer | None:
        """Return the offer whose outcome an agent's message is; each has one."""
        if event.author == "customer":
            return None
        unrecorded: Offer | None = self._unrecorded.pop(event.id, None)
        return unrecorded or self._offers.pop(event.conversation, None)

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
                if offer is not None:
                    self._unrecorded[event.id] = offer
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
