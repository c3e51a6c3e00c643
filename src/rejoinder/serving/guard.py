"""ASGI middleware: auth, limits, time-outs, headers, access log."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from rejoinder.errors import InputError
from rejoinder.serving.http.errors import SAFE_HEADERS, respond
from rejoinder.serving.http.exchange import CURRENT, NEW_ID, Exchange, Receive, Scope, Send
from rejoinder.serving.http.logs import logger, places
from rejoinder.serving.http.received import (
    CROWDED,
    LATE,
    CrowdedError,
    ReceivedBytes,
    TooLargeError,
)
from rejoinder.serving.http.retries import Pace

READ_KEY = "REJOINDER_READ_KEY"
WRITE_KEY = "REJOINDER_WRITE_KEY"
API_KEYS = f"{WRITE_KEY} or {READ_KEY}"
SHORTEST_KEY = 16  # characters
MOST_BYTES = 64 << 10  # of a body, unless its address takes more
MOST_TOGETHER = 32 << 20  # of all bodies that are larger than that, until they are answered
WATCHED = 0.1  # seconds after which it is watched whether the client is still there
OPEN = frozenset(("/health", "/ready", "/openapi.json"))  # to everybody, as the page is
LOCAL = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\])(:\d*)?", re.IGNORECASE)
PROXIES = (  # headers that only proxies send
    b"forwarded",
    b"via",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
    b"x-real-ip",
)
REQUEST_ID = re.compile(rb"[\w.-]{1,64}", re.ASCII)
WRITTEN = tuple(  # what a write key changes
    f"/v1/{name}" for name in ("candidates", "edits", "examples", "feedback", "import")
)
SHOWN = ("/v1/report", "/v1/edits")  # what customers wrote, so these want the write key too
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
CHANGES = {"POST", "PUT", "PATCH", "DELETE"}


@dataclass(frozen=True)
class Keys:
    """Permissions of keys: a read key queries, a write key also changes.

    Without any key everybody may do everything.
    """

    read: bytes | None = field(default=None, repr=False)
    write: bytes | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Keys:
        """Read the keys; one that is easy to guess is an InputError."""
        return cls(read=_key(environment, READ_KEY), write=_key(environment, WRITE_KEY))

    def __bool__(self) -> bool:
        return bool(self.read or self.write)

    def may_write(self, authorization: bytes) -> bool:
        """Return whether a header has the write key, or there is none to have."""
        return self.refusal(authorization, write=True) is None

    def refusal(self, authorization: bytes, *, write: bool) -> tuple[int, str] | None:
        """Return status and message for who may not do it."""
        if not self:
            return None
        scheme, _, credentials = authorization.partition(b" ")
        key = credentials.strip(b" ") if scheme.lower() == b"bearer" else b""
        # Both comparisons are always made, in a time that does not depend on where the keys differ.
        writes = hmac.compare_digest(key, self.write or os.urandom(32))
        reads = hmac.compare_digest(key, self.read or os.urandom(32))
        if writes or (reads and not write):
            return None
        if reads:
            return 403, f"this key may only read; use the one of {WRITE_KEY}"
        return 401, "send a valid key in the header: Authorization: Bearer KEY"


def _key(environment: Mapping[str, str], name: str) -> bytes | None:
    key = environment.get(name)
    if key is None:
        return None
    if len(key) < SHORTEST_KEY or not key.isascii() or not key.isprintable():
        raise InputError(
            f"{name} needs {SHORTEST_KEY} printable ASCII characters or more;"
            " make one with: openssl rand -hex 32"
        )
    return key.encode()


NO_KEYS = Keys()


def route_path(scope: Scope) -> str:
    """Return the path by which a route is found: without the prefix of a server around this one.

    It is the path by which Starlette routes. Were it another one, a request would be checked as one
    route and answered by another.
    """
    path: str = scope["path"]
    prefix: str = scope.get("root_path", "")
    rest = path.removeprefix(prefix)
    return rest if rest[:1] in ("", "/") else path


def misdirected(
    scope: Scope, headers: Mapping[bytes, bytes], secret: str | None
) -> tuple[int, str] | None:
    """Return status and message for a request that is meant for another server.

    A server without a secret answers its own machine alone. It takes only names of this machine as
    Host, so that no page of a browser gets here by a name of its own that points to this machine
    (DNS rebinding). It takes nothing from a proxy, which hides who asks and may write such a Host,
    and no changes from pages of other sites. A proxy that adds no header is not recognised.

    Args:
        scope: of the request.
        headers: those of `scope`.
        secret: the variables that let others ask; None: one of them is set.
    """
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) > 1 or (not hosts and scope.get("http_version") == "1.1"):
        return 400, f"a request has one Host header; this one has {len(hosts)}"
    return None if secret is None else _from_elsewhere(scope, headers, secret)


def _from_elsewhere(
    scope: Scope, headers: Mapping[bytes, bytes], secret: str
) -> tuple[int, str] | None:
    host = headers.get(b"host", b"")
    if not LOCAL.fullmatch(host):
        return 421, f"this server answers to localhost alone; set {secret} to let others ask"
    proxy = next((name.decode() for name in PROXIES if name in headers), None)
    if proxy is not None:
        return 421, (
            f"this server answers its own machine alone, and the header {proxy} is one of a proxy; "
            f"set {secret} behind a proxy"
        )
    origin = headers.get(b"origin")
    if (
        scope["method"] in CHANGES
        and origin is not None
        and origin.partition(b"://")[2].lower() != host.lower()
    ):
        return 403, "this server takes nothing from pages of other sites"
    return None


def _has_body(scope: Scope) -> bool:
    """Return whether a body follows the headers of a request, which may be empty nevertheless."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:
        return True
    if (length := headers.get(b"content-length")) is not None:
        return bool(length.strip(b"0"))
    return scope.get("http_version") not in ("1.0", "1.1")  # later ones need neither header


class _Client:
    """The sender of a request, which cancels this task when it goes away.

    That matters while a long answer is computed.
    """

    def __init__(
        self,
        receive: Receive,
        exchange: Exchange,
        together: ReceivedBytes,
        *,
        sent: bool,
        most: int,
    ) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.sent = sent
        self.gone = False
        self.bytes = 0
        self._receive = receive
        self._exchange = exchange
        self._most = most
        self._together = together
        self._counted = 0
        self._watcher: asyncio.Task[None] | None = None
        self._is_watched = False
        # Most answers are there sooner: they need no second task.
        self._timer = loop.call_later(WATCHED, self._begin_watch)

    async def receive(self) -> Scope:
        """Receive a part of the body."""
        message: Scope = await self._receive()
        if message["type"] == "http.disconnect":
            if self._exchange.is_answered:
                return message
            self.gone = True
            raise asyncio.CancelledError
        if not self.sent and not message.get("more_body"):
            self.sent = True
            self._watch()
        self.bytes += len(message.get("body", b""))
        if self.bytes > self._most:
            raise TooLargeError
        if self.bytes > MOST_BYTES:  # a conversation is always taken
            new = self.bytes - self._counted
            self._counted = self.bytes
            self._together.add(new)
        return message

    def close(self) -> None:
        """Stop watching."""
        if self._counted:
            self._together.remove(self._counted)
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    def _begin_watch(self) -> None:
        self._is_watched = True
        self._watch()

    def _watch(self) -> None:
        """Watch once that is due and the body is sent: until then, its parts are the route's."""
        if self._is_watched and self.sent:
            self._watcher = asyncio.get_running_loop().create_task(self._until_gone())

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._exchange.is_answered:
            self.gone = True
            self.task.cancel()


class Guard:
    """ASGI middleware around the whole application.

    Args:
        app: what is guarded.
        keys: who may do what.
        local: whether only this machine is answered (see `misdirected`).
        page: the paths of the page, which everybody may read; all others but `OPEN` need a key.
        limits: bytes that a body may have, by address; elsewhere `MOST_BYTES`.
        seconds: in which a request has to be sent, computed and answered.
        pace: at which refused requests come again.
        received: counts the large bodies of all requests.
        crowded: whether a request would be refused by the queue.
        observe: is told of each request its route, method, status and seconds.
        log_texts: whether the log may hold what was said.
    """

    def __init__(
        self,
        app: Callable[[Scope, Receive, Send], Any],
        *,
        keys: Keys,
        local: bool,
        page: Set[str],
        limits: Mapping[str, int],
        seconds: float,
        pace: Pace,
        received: ReceivedBytes,
        crowded: Callable[[], bool],
        observe: Callable[[str, str, int, float], object],
        log_texts: bool,
    ) -> None:
        self.app = app
        self.keys = keys
        self.local = local
        self.open = OPEN | page
        self.limits = limits
        self.seconds = seconds
        self.crowded = crowded
        self.observe = observe
        self.log_texts = log_texts
        self._together = received
        self._pace = pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        asked = headers.get(b"x-request-id", b"")
        exchange = Exchange(
            asked.decode() if REQUEST_ID.fullmatch(asked) else next(NEW_ID),
            self._pace,
            may_write=self.keys.may_write(headers.get(b"authorization", b"")),
            idempotency_key=headers.get(b"idempotency-key"),
        )
        CURRENT.set(exchange)

        async def answer(message: Scope) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                headers = [*message["headers"], (b"x-request-id", exchange.request_id.encode())]
                present = {name for name, _ in headers}
                headers += [header for header in SAFE_HEADERS if header[0] not in present]
                message = {**message, "headers": headers}
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                exchange.is_answered = True

        if refusal := self._refusal(scope, headers):
            status, text = refusal
            await respond(answer, status, text)
        else:
            await self._run(scope, receive, answer, exchange)
        self._note(scope, exchange)

    def _refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> tuple[int, str] | None:
        """Return status and message for what is refused before its body is read."""
        if refusal := misdirected(scope, headers, API_KEYS if self.local else None):
            return refusal
        path = route_path(scope)
        if path in self.open:
            return None
        write = path.startswith("/admin/") or (
            path.startswith(WRITTEN) and scope["method"] != "GET"
        )
        write = write or path.startswith(SHOWN)
        if refusal := self.keys.refusal(headers.get(b"authorization", b""), write=write):
            return refusal
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > self._most_bytes(scope):
            return self._too_large(scope)
        if scope["method"] == "POST" and path.startswith(("/v1/", "/v2/")) and self.crowded():
            return (
                429,
                "the server has as many requests waiting as it allows; try again after the time "
                "of Retry-After",
            )
        return None

    def _most_bytes(self, scope: Scope) -> int:
        return self.limits.get(route_path(scope), MOST_BYTES)

    def _too_large(self, scope: Scope) -> tuple[int, str]:
        return 413, f"a body has {self._most_bytes(scope):,} bytes at most here; send less at once"

    async def _run(self, scope: Scope, receive: Receive, send: Send, exchange: Exchange) -> None:
        """Run the application within the time, and no longer than the client is there."""
        sent = scope["method"] in ("GET", "HEAD") or not _has_body(scope)
        client = _Client(receive, exchange, self._together, sent=sent, most=self._most_bytes(scope))
        try:
            async with asyncio.timeout(self.seconds):
                await self.app(scope, client.receive, send)
            if client.gone:  # and what it has changed was finished all the same
                client.task.uncancel()
        except TimeoutError:
            if client.sent:
                await self._late(send, exchange, 503, "no answer in time; try again")
            else:
                await self._late(send, exchange, 408, LATE)
        except TooLargeError:
            status, text = self._too_large(scope)
            await self._late(send, exchange, status, text)
        except CrowdedError:
            await self._late(send, exchange, 503, CROWDED)
        except asyncio.CancelledError:
            if not client.gone:
                raise
            client.task.uncancel()
            exchange.status = 499  # nobody is there to be answered
        except Exception as error:  # noqa: BLE001 (nothing may end the server)
            trace = [*getattr(error, "__notes__", ()), *places(error)]
            fields = {
                "request_id": exchange.request_id,
                "error": type(error).__name__,
                "trace": trace[:8],
            }
            # no message: it may hold what was said
            logger.error("a request failed", extra={"fields": fields})
            await self._late(
                send, exchange, 500, "something went wrong here; the server's log has more"
            )
        finally:
            client.close()

    async def _late(self, send: Send, exchange: Exchange, status: int, message: str) -> None:
        if exchange.status:  # the answer has begun
            exchange.status = status
            return
        with contextlib.suppress(OSError):
            await respond(send, status, message)

    def _note(self, scope: Scope, exchange: Exchange) -> None:
        """Log a request that has been answered, and count it."""
        seconds = time.perf_counter() - exchange.started
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.observe(route, method, exchange.status, seconds)
        fields = {
            "request_id": exchange.request_id,
            "method": method,
            "route": route,
            "status": exchange.status,
            "ms": round(1000 * seconds, 2),
        }
        if exchange.reason:
            fields["reason"] = exchange.reason
        if exchange.notes:
            fields["notes"] = exchange.notes
        if self.log_texts and exchange.texts is not None:
            fields["texts"] = exchange.texts
        level = logging.WARNING if exchange.status >= 500 else logging.INFO
        record = logger.makeRecord(
            logger.name, level, "", 0, "request", (), None, extra={"fields": fields}
        )
        logger.handle(record)  # spares looking for the line of code that logs
