"""The start of every server, and the bounds that all have before a request is understood."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rejoinder.serving.http.errors import respond
from rejoinder.serving.http.exchange import CURRENT, NEW_ID, Exchange, Receive, Scope, Send
from rejoinder.serving.http.logs import LOGGING
from rejoinder.serving.http.received import (
    CROWDED,
    LATE,
    CrowdedError,
    ReceivedBytes,
    TooLargeError,
)

if TYPE_CHECKING:
    import uvicorn

PROTOCOL: Any = "rejoinder.serving.protocol:BoundedProtocol"  # imported by uvicorn
GRACE = 30  # seconds to answer accepted requests after the signal to end
START = 120  # seconds for a worker to open its model
MOST_TOGETHER = 16 << 20  # bytes of all bodies that are not answered yet
RECEIVING = 10.0  # seconds for the bytes of a body


def configure(application: Any, *, workers: int = 1) -> uvicorn.Config:
    """Return how a server of ours runs: its protocol, its log, its end."""
    import uvicorn

    return uvicorn.Config(
        application,
        factory=workers > 1,
        workers=workers,
        log_config=LOGGING,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=PROTOCOL,
        ws="none",
        timeout_graceful_shutdown=GRACE,
        timeout_worker_healthcheck=START,
    )


def run(application: Any, listening: socket.socket) -> None:
    """Answer until a signal ends the server."""
    import uvicorn

    uvicorn.Server(configure(application)).run([listening])


class BoundedBodies:
    """ASGI middleware that bounds the bodies of requests in size, number and time.

    Args:
        app: what gets the requests.
        most_bytes: of a body.
        most_together: bytes of all bodies that are not answered yet.
        seconds: for the bytes of a body.
    """

    def __init__(
        self,
        app: Callable[[Scope, Receive, Send], Any],
        *,
        most_bytes: int,
        most_together: int = MOST_TOGETHER,
        seconds: float = RECEIVING,
    ) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._together = ReceivedBytes(most_together)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Receive the body of a request, and let it be answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        CURRENT.set(Exchange(next(NEW_ID)))
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self._seconds):
                is_there = await self._receive(receive, parts)
        except TimeoutError:
            await respond(send, 408, LATE)
        except TooLargeError:
            await respond(send, 413, f"a body has {self._most_bytes:,} bytes at most here")
        except CrowdedError:
            await respond(send, 503, CROWDED)
        else:
            if is_there:
                await self._app(scope, _replay(b"".join(parts), receive), send)
        finally:
            self._together.remove(sum(map(len, parts)))

    async def _receive(self, receive: Receive, parts: list[bytes]) -> bool:
        """Receive the parts of a body; return whether the client is still there."""
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return False
            part = message.get("body", b"")
            size += len(part)
            if size > self._most_bytes:
                raise TooLargeError
            parts.append(part)
            self._together.add(len(part))
            if not message.get("more_body"):
                return True


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a whole body, and then what comes after it."""
    is_replayed = False

    async def again() -> Scope:
        nonlocal is_replayed
        if is_replayed:
            message: Scope = await receive()
            return message
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
