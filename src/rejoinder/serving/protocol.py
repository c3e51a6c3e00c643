"""HTTP/1.1 by uvicorn and h11, with bounds on the memory of a connection and errors in our form.

h11 keeps at most `MOST_HEADER_BYTES` of a request's headers, and of its trailers. uvicorn reads on
while a pipelined request waits; here no byte is read then.
"""

from __future__ import annotations

import functools
import sys
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from rejoinder.serving.guard import CURRENT, NEW_ID, SAFE_HEADERS, Exchange, problem

if TYPE_CHECKING:
    import asyncio

MOST_HEADER_BYTES = 32 << 10  # of a request line with its headers, and of trailers
REST = 3.0  # seconds for the rest of a half-sent body after the signal to end


@functools.cache
def protocol_class() -> type[asyncio.Protocol]:  # noqa: C901 (classes, whose base is an extra)
    """Return the class of connections, for uvicorn's `http`."""
    import h11
    from uvicorn.protocols.http.flow_control import FlowControl
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class BoundedFlow(FlowControl):
        """Flow control that reads nothing while a pipelined request waits."""

        is_held = False

        def resume_reading(self) -> None:
            """Read on, unless a request waits."""
            if not self.is_held:
                super().resume_reading()

    class BoundedProtocol(H11Protocol):
        """A connection that keeps a bounded number of bytes."""

        flow: BoundedFlow

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            """Begin."""
            super().connection_made(transport)
            self.flow = BoundedFlow(transport)

        def handle_events(self) -> None:
            """Handle what was received, as far as no request waits behind the one in work."""
            super().handle_events()
            self.flow.is_held = self.flow.read_paused and self.conn.their_state is h11.DONE

        def on_response_complete(self) -> None:
            """Go on with the next request."""
            self.flow.is_held = False
            super().on_response_complete()

        def shutdown(self) -> None:
            """End after the answer; a half-sent request gets a few seconds for the rest."""
            super().shutdown()
            if _is_half_sent(self.cycle):
                self.loop.call_later(REST, self._abandon)

        def send_400_response(self, msg: str) -> None:
            """Refuse what cannot be parsed, unless that would end up within another answer.

            Close the connection.
            """
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self.transport.write(refusal(sys.exc_info()[1], msg))
            self.transport.close()

        def _abandon(self) -> None:
            if _is_half_sent(self.cycle):
                self.transport.close()

    return BoundedProtocol


def _is_half_sent(cycle: Any) -> bool:
    return cycle is not None and cycle.more_body and not cycle.response_complete


def refusal(error: BaseException | None, message: str) -> bytes:
    """Return the whole answer to a request that h11 does not understand, with an error."""
    status = getattr(error, "error_status_hint", 400)
    if status == 431:
        message = f"a request has at most {MOST_HEADER_BYTES:,} bytes of headers"
    elif "host" in str(error).lower():
        message = f"a request has one Host header ({error})"
    CURRENT.set(Exchange(next(NEW_ID)))
    body = problem(status, message)
    headers: list[tuple[bytes, Any]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *SAFE_HEADERS,
    ]
    head = b"".join(b"%b: %b\r\n" % header for header in headers)
    line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
    return line + head + b"\r\n" + body
