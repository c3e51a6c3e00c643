"""Bounds on the memory that one connection may take, on top of uvicorn's protocol for httptools.

With h11, which has bounds of its own, every request takes a tenth of a millisecond more. Servers
name this file by its path (`bounds.PROTOCOL`): it needs uvicorn as soon as it is imported.

httptools limits neither the headers of a request nor its trailers, and uvicorn reads on while
pipelined requests wait. Here at most `MOST_HEADER_BYTES` and `MOST_HEADERS` are kept, and no byte
is parsed while a pipelined request waits.

uvicorn also waits for ever until a client has read its answer, which may have 20 MB, and so does
the close of a connection. Here a client that reads nothing for `UNREAD` seconds is left, and those
that have waited longest are left where all of them hold more than `MOST_UNSENT`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import ClassVar

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rejoinder.serving.http.errors import SAFE_HEADERS, problem
from rejoinder.serving.http.exchange import CURRENT, NEW_ID, Exchange

MOST_HEADER_BYTES = 32 << 10  # of a request line with its headers, and of trailers
MOST_HEADERS = 100
# bytes that are parsed at once: so many bytes of pipelined requests may wait as objects
PART = 4 << 10
BODY_PART = 64 << 10  # within a body
REST = 3.0  # seconds for the rest of a half-sent body after the signal to end
# Seconds in which a client has to take some bytes of an answer that waits for it: a phone that is
# slow takes some in each second, and one without a signal for that long has to ask again anyway.
UNREAD = 20.0
MOST_UNSENT = 128 << 20  # bytes of all answers that wait for their clients; the largest has 20 MB


class BoundedFlow(FlowControl):
    """Flow control that reads on only when no request of the connection waits."""

    def __init__(self, transport: asyncio.Transport, is_waiting: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._is_waiting = is_waiting

    def resume_reading(self) -> None:
        """Read on, unless requests wait."""
        if not self._is_waiting():
            super().resume_reading()


class BoundedProtocol(HttpToolsProtocol):
    """A connection that keeps a bounded number of bytes and requests."""

    _paused: ClassVar[dict[BoundedProtocol, None]] = {}  # in writing, the longest first
    _watch: asyncio.TimerHandle | None = None  # over a client that has to read
    _unparsed = b""
    _header_bytes = 0  # since headers or a request ended, or a part of a body came
    _in_headers = True
    _progress = False
    _too_large = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin."""
        super().connection_made(transport)
        self.flow = BoundedFlow(transport, self._is_waiting)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._paused.pop(self, None)
        self._end_watch()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client, which has to read; leave the slowest clients if too much waits."""
        super().pause_writing()
        self._paused[self] = None
        self._watch_reading()
        unsent = sum(each.transport.get_write_buffer_size() for each in self._paused)
        for slowest in list(self._paused):
            if unsent <= MOST_UNSENT or slowest is self:
                break
            unsent -= slowest.transport.get_write_buffer_size()
            slowest.leave()

    def resume_writing(self) -> None:
        """Go on: the client has read nearly all."""
        super().resume_writing()
        self._paused.pop(self, None)
        if not self.transport.is_closing():
            self._end_watch()

    def leave(self) -> None:
        """Drop a client together with what it has not read."""
        self._paused.pop(self, None)
        self._end_watch()
        self.transport.abort()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, once the client has read its answers."""
        super().timeout_keep_alive_handler()
        self._watch_reading()

    def data_received(self, data: bytes) -> None:
        """Parse data, as far as no request waits behind the one that is answered."""
        self._unparsed += data
        self._parse()

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        super().on_response_complete()
        self._parse()
        if self.transport.is_closing():
            self._watch_reading()
        else:
            self.flow.resume_reading()

    def shutdown(self) -> None:
        """End after the answer.

        A request that is sent only in part gets a few seconds for the rest.
        """
        super().shutdown()
        if self.transport.is_closing():
            self._watch_reading()
        if self._is_half_sent():
            self.loop.call_later(REST, self._abandon)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_headers = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; drop a trailer, which nothing here reads."""
        if not self._in_headers:
            return
        if len(self.headers) >= MOST_HEADERS:
            self._too_large = True
            raise ValueError("too many headers")  # ends the parsing
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        self._in_headers = False
        self._progress = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body until it is asked for."""
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the body."""
        self._in_headers = self._progress = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, unless that would end up within another answer.

        Close the connection.
        """
        status = 431 if self._too_large else 400
        if self._too_large:
            msg = (
                f"a request may have {MOST_HEADERS} headers,"
                f" of {MOST_HEADER_BYTES:,} bytes together"
            )
        begun = (
            self.cycle is not None
            and self.cycle.response_started
            and not self.cycle.response_complete
        )
        if not begun and not self.pipeline:
            CURRENT.set(Exchange(next(NEW_ID)))
            body = problem(status, msg)
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
                *SAFE_HEADERS,
            ]
            head = b"".join(b"%b: %b\r\n" % header for header in headers)
            line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
            self.transport.write(line + head + b"\r\n" + body)
        self.transport.close()
        self._watch_reading()

    def _parse(self) -> None:
        """Give httptools what has come, in pieces, and stop at what is too much."""
        data = self._unparsed
        start = 0
        while (
            start < len(data)
            and not self.pipeline
            and self.parser is not None
            and not self.transport.is_closing()
        ):
            part = data[start : start + (PART if self._in_headers else BODY_PART)]
            start += len(part)
            self._progress = False
            super().data_received(part)
            self._header_bytes = 0 if self._progress else self._header_bytes + len(part)
            if self._header_bytes > MOST_HEADER_BYTES and not self.transport.is_closing():
                self._too_large = True
                self.send_400_response("")
        self._unparsed = data[start:]
        if self._unparsed:
            self.flow.pause_reading()

    def _watch_reading(self) -> None:
        """Leave the client unless it takes some bytes in time, and in each such time after it."""
        if self._watch is None and (unsent := self.transport.get_write_buffer_size()):
            self._watch = self.loop.call_later(UNREAD, self._check_reading, unsent)

    def _check_reading(self, unsent: int) -> None:
        self._watch = None
        if self.transport.get_write_buffer_size() < unsent:
            self._watch_reading()
        else:
            self.leave()

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _is_waiting(self) -> bool:
        return bool(self.pipeline or self._unparsed)

    def _is_half_sent(self) -> bool:
        return self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete

    def _abandon(self) -> None:
        if self._is_half_sent():
            self.transport.close()
