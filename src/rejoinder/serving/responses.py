"""Bodies and answers of the application: JSON, errors in one form, metrics for Prometheus.

The metrics of several workers are added up if PROMETHEUS_MULTIPROC_DIR names a folder for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

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
