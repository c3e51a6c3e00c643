"""Answers of the application: JSON, and errors in one form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rejoinder.serving.guard import problem


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
        if known or (part == place[-1] and isinstance(value, dict)):
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
