"""Bodies and answers of the application: JSON, errors in one form, metrics, the latest answers.

The metrics for Prometheus of several workers are added up if PROMETHEUS_MULTIPROC_DIR names a
folder for them. The latest answers are kept by their ids, so that feedback need not send them
again.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from pydantic import ValidationError

from rejoinder.serving import schema
from rejoinder.serving.guard import Receive, Scope, Send, problem

if TYPE_CHECKING:
    from fastapi.routing import APIRoute


def plain_response() -> Any:
    """Return the class of answers in plain text."""
    from fastapi.responses import PlainTextResponse

    return PlainTextResponse


def json_answer(value: Any, status: int = 200) -> Any:
    """Return a value as an answer."""
    from fastapi import Response

    return Response(msgspec.json.encode(value), status, media_type="application/json")


def error_answer(
    status: int, message: str, parameter: str | None = None, headers: dict[str, str] | None = None
) -> Any:
    """Return an error in the form of all errors."""
    from fastapi import Response

    more = {"retry-after": "1"} if status in (429, 503) else {}
    body = problem(status, message, parameter)
    return Response(body, status, {**(headers or {}), **more}, media_type="application/json")


async def on_validation_error(_request: Any, error: Any) -> Any:
    """Answer a query string or a path that is not as described."""
    return invalid_answer(error.errors(), None)


def invalid_answer(errors: Sequence[Any], value: Any) -> Any:
    """Return the error of a body that is the nearest among `errors`, and its place in `value`."""
    # Of the kinds that a value may have, the nearest: where the value is of one, but not as it
    # should be.
    found = max(errors, key=lambda each: (len(each["loc"]), not each["type"].endswith("_type")))
    place = [*found["loc"], *([found["ctx"]["key"]] if found["type"] == "unknown_key" else [])]
    parts = []
    for part in place:  # these also name kinds of values; what the body holds is said
        known = (
            isinstance(part, int)
            if isinstance(value, list)
            else isinstance(value, dict) and part in value
        )
        if known:
            value = value[part]
        if known or (part == place[-1] and found["type"] in ("missing", "unknown_key")):
            parts.append(str(part)[:100])
    parameter = ".".join(parts)[:200] or (str(place[-1]) if place else "the body")
    return error_answer(422, f"{parameter}: {found['msg']}", parameter)


async def on_http_error(request: Any, error: Any) -> Any:
    """Answer a request that no address takes."""
    headers = dict(error.headers or {})
    # the framework names those of one route; an address may have several
    if error.status_code == 405:
        routes = [each for each in request.app.routes if getattr(each, "methods", None)]
        allowed = {
            method
            for each in routes
            if each.path_regex.match(request.url.path)
            for method in each.methods
        }
        headers = {"allow": ", ".join(sorted(allowed))}
    return error_answer(error.status_code, str(error.detail), headers=headers)


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_JOBS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Requests, latencies, batches, the queue, and the names of model and index."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = registry = CollectorRegistry()
        # looking them up takes time
        self._of: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        by = ("route", "method")
        self.requests = Counter(
            "rejoinder_requests", "Requests answered.", (*by, "status"), registry=registry
        )
        self.seconds = Histogram(
            ("rejoinder_request_seconds"),
            "Seconds from a request to its answer.",
            by,
            buckets=_SECONDS,
            registry=registry,
        )
        self.batches = Histogram(
            "rejoinder_batch_jobs", "Jobs computed at once.", buckets=_JOBS, registry=registry
        )
        self.computing = Histogram(
            "rejoinder_batch_seconds", "Seconds of a batch.", buckets=_SECONDS, registry=registry
        )
        self.queue = Gauge(
            "rejoinder_queue", "Jobs that wait.", registry=registry, multiprocess_mode="livesum"
        )
        self.served = Gauge(
            "rejoinder_candidates",
            "Replies of the index.",
            ("index", "model"),
            registry=registry,
            multiprocess_mode="livemostrecent",
        )

    def observe_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        if (found := self._of.get((route, method, status))) is None:
            found = self.requests.labels(route, method, status), self.seconds.labels(route, method)
            self._of[route, method, status] = found
        found[0].inc()
        found[1].observe(seconds)

    def observe_batch(self, jobs: int, seconds: float, waiting: int) -> None:
        """Count a batch."""
        self.batches.observe(jobs)
        self.computing.observe(seconds)
        self.queue.set(waiting)

    def text(self, index: str, model: str, candidates: int) -> bytes:
        """Return all of it in Prometheus' form."""
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        self.served.labels(index, model).set(candidates)
        registry: Any = self.registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


_JSON = re.compile(rb"application/([\w.-]+\+)?json\s*(;.*)?", re.IGNORECASE)


def json_route(form: type[schema.Request]) -> type[APIRoute]:
    """Return the class of routes with a body, which are checked here.

    FastAPI describes and finds them. The framework would parse a body before anything counts its
    values, and check answers that need no check.
    """
    from fastapi.routing import APIRoute
    from starlette.requests import Request

    class JsonRoute(APIRoute):
        """A route whose endpoint takes a checked body."""

        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            """Answer a request without the stacks of contexts that dependencies need.

            Routes here have none.
            """
            if scope["method"] not in (self.methods or ()):
                await super().handle(scope, receive, send)
                return
            response = await _answer_json(form, self.endpoint, Request(scope, receive))
            await response(scope, receive, send)

    return JsonRoute


async def _answer_json(
    form: type[schema.Request], endpoint: Callable[[Any], Any], request: Any
) -> Any:
    if not _JSON.fullmatch(dict(request.scope["headers"]).get(b"content-type", b"")):
        return error_answer(415, "send JSON, with the header Content-Type: application/json")
    body = await request.body()
    marks = sum(body.count(mark) for mark in schema.MARKS)
    if marks > schema.MOST_MARKS:
        return error_answer(
            413,
            (
                f"the body has {marks:,} brackets, braces and colons;"
                f" a body has {schema.MOST_MARKS:,} at most; send less at once"
            ),
        )
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return error_answer(422, f"the body is no JSON: {error}")
    try:
        checked = form.model_validate(value)
    except ValidationError as error:
        return invalid_answer(error.errors(include_url=False, include_input=False), value)
    return await endpoint(checked)


ANSWER_BYTES = 16 << 20  # of the answers of a worker; the oldest make room
ANSWER_SECONDS = 86_400.0  # for which they are kept
_HEADER = struct.Struct("<8sdI")  # number, time, bytes that follow
_ID = re.compile(r"([0-9a-f]{8})([0-9a-f]{8})([0-9a-f]{16})")
_SUFFIX = ".answers"


class RecentAnswer(NamedTuple):
    """An answer that feedback may name."""

    source: str  # "first" or "second", of those that the server has
    messages: list[Any]
    positions: list[int]
    texts: list[str]


class RecentAnswers:
    """A ring of answers in memory, which the workers of a server share by a folder.

    Args:
        folder: of the rings of all workers; None: there is one worker.
        rings: that the folder keeps; older ones are of workers that have ended.
        size: bytes of a ring.
    """

    def __init__(
        self, folder: Path | None = None, *, rings: int = 2, size: int = ANSWER_BYTES
    ) -> None:
        self._folder = folder
        self._size = size
        self._name = os.urandom(4).hex()
        self._end = 0
        if folder is None:
            self._ring = mmap.mmap(-1, size)
            return
        old = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
        for path in old[: max(0, len(old) - rings + 1)]:
            path.unlink(missing_ok=True)
        with (folder / f"{self._name}{_SUFFIX}").open("x+b") as file:
            file.truncate(size)
            self._ring = mmap.mmap(file.fileno(), size)

    def add(self, index: str, messages: Sequence[Any], replies: Sequence[dict[str, Any]]) -> str:
        """Keep an answer for a while; return its id."""
        positions = [reply["position"] for reply in replies]
        texts = [reply["text"] for reply in replies]
        content = msgspec.json.encode((index, messages, positions, texts))
        number = os.urandom(8)
        start = self._end
        if start + _HEADER.size + len(content) > self._size:
            start = 0
        end = start + _HEADER.size + len(content)
        if end <= self._size:  # an answer that no ring could hold is forgotten at once
            self._ring[start : start + _HEADER.size] = bytes(_HEADER.size)
            self._ring[start + _HEADER.size : end] = content
            header = _HEADER.pack(number, time.time(), len(content))
            self._ring[start : start + _HEADER.size] = header
            self._end = end
        return f"{self._name}{start:08x}{number.hex()}"

    def get(self, name: str) -> RecentAnswer | None:
        """Return an answer by its id; None: there is none, or it was too long ago."""
        parts = _ID.fullmatch(name)
        if parts is None:
            return None
        ring, start, number = parts.groups()
        content = self._read(ring, int(start, 16), bytes.fromhex(number))
        return None if content is None else RecentAnswer(*msgspec.json.decode(content))

    def _read(self, ring: str, start: int, number: bytes) -> bytes | None:
        if ring == self._name:
            return _record(self._ring, start, number)
        if self._folder is None:
            return None
        try:
            with (
                (self._folder / f"{ring}{_SUFFIX}").open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as other,
            ):
                return _record(other, start, number)
        except (FileNotFoundError, ValueError):  # ended, or just beginning
            return None


def _record(ring: mmap.mmap, start: int, number: bytes) -> bytes | None:
    """Return the content of a record, unless another one has taken its place, if only just now."""
    header = ring[start : start + _HEADER.size]
    if len(header) < _HEADER.size:
        return None
    own, written, length = _HEADER.unpack(header)
    if own != number or time.time() - written > ANSWER_SECONDS:
        return None
    content = ring[start + _HEADER.size : start + _HEADER.size + length]
    return content if ring[start : start + _HEADER.size] == header else None
