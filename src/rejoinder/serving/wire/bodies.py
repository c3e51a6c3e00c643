"""Bodies of requests: how they are checked, and what is answered where they are wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import ValidationError

from rejoinder.patterns import match_pattern, search_pattern
from rejoinder.serving.http.errors import error_answer
from rejoinder.serving.http.exchange import CURRENT, Receive, Scope, Send
from rejoinder.serving.wire.requests import MARKS, MOST_MARKS, Request

if TYPE_CHECKING:
    from fastapi.routing import APIRoute

_JSON = match_pattern(rb"application/([\w.-]+\+)?json\s*(;.*)?", re.IGNORECASE)
_LONE = search_pattern(
    rb"\\u[dD][89abAB]\w\w(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]\w\w)\\u[dD][c-fC-F]"
)

_OBJECT = "must be a JSON object"
_WHOLE = "must be a whole number"
_MUST = {
    "missing": "is missing",
    "list_type": "must be a list",
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": "must be a number",
}
"""What is wrong with a value, by the types of pydantic's errors."""


def json_route(form: type[Request]) -> type[APIRoute]:
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


def query_route() -> type[APIRoute]:
    """Return the class of routes without a body, which refuse unknown parameters of theirs.

    Who pages by `offset` would get the first page again and again. Where an address has no
    parameters, clients of other services may send theirs.
    """
    from fastapi.routing import APIRoute
    from starlette.requests import Request

    class QueryRoute(APIRoute):
        """A route whose endpoint takes parameters of the query string, if any."""

        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            """Answer a request that has no unknown parameter."""
            known = [parameter.alias for parameter in self.dependant.query_params]
            parameters = Request(scope).query_params if known else {}
            unknown = next((name for name in parameters if name not in known), None)
            if unknown is None:
                await super().handle(scope, receive, send)
                return
            message = f"there is no parameter {unknown[:60]!r} here, only {', '.join(known)}"
            await error_answer(422, message, unknown[:60])(scope, receive, send)

    return QueryRoute


async def _answer_json(form: type[Request], endpoint: Callable[[Any], Any], request: Any) -> Any:
    """Check a body by its form, and call the endpoint with it."""
    if not _JSON.fullmatch(dict(request.scope["headers"]).get(b"content-type", b"")):
        return error_answer(415, "send JSON, with the header Content-Type: application/json")
    body = await request.body()
    marks = sum(body.count(mark) for mark in MARKS)
    if marks > MOST_MARKS:
        return error_answer(
            413,
            (
                f"the body has {marks:,} brackets, braces and colons;"
                f" a body has {MOST_MARKS:,} at most; send less at once"
            ),
        )
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return error_answer(422, _lone_surrogate(body) or f"the body is not JSON: {error}")
    try:
        value, CURRENT.get().notes = form.read(value)
        checked = form.model_validate(value)
    except ValidationError as error:
        return invalid_answer(error.errors(include_url=False, include_input=False), value)
    return await endpoint(checked)


def _lone_surrogate(body: bytes) -> str:
    """Return what is wrong if a body that msgspec refuses has half of a surrogate pair.

    msgspec takes it for the end of the body or for an error of syntax; Python's parser reads it, in
    half a second for the largest body, so it is asked where one is in sight alone.
    """
    if not _LONE.search(body):
        return ""
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        return (
            f"the body has {half}, a lone surrogate, which is half a character;"
            " send whole characters"
        )
    except (ValueError, RecursionError):
        pass
    return ""


async def on_validation_error(_request: Any, error: Any) -> Any:
    """Answer a query string or a path that is not as described."""
    return invalid_answer(error.errors(), None)


def invalid_answer(errors: Sequence[Any], value: Any) -> Any:
    """Return the error of a body that is the nearest among `errors`, and its place in `value`."""
    # Of the kinds that a value may have, the nearest: where the value is of one, but not as it
    # should be.
    nearest = max(
        errors, key=lambda error: (len(error["loc"]), not error["type"].endswith("_type"))
    )
    path = [*nearest["loc"], *([nearest["ctx"]["key"]] if nearest["type"] == "unknown_key" else [])]
    parts = []
    for part in path:  # these also name kinds of values; what the body holds is said
        known = (
            isinstance(part, int)
            if isinstance(value, list)
            else isinstance(value, dict) and part in value
        )
        if known:
            value = value[part]
        if known or (part == path[-1] and nearest["type"] in ("missing", "unknown_key")):
            parts.append(str(part)[:100])
    parameter = ".".join(parts)[:200] or (str(path[-1]) if path else "the body")
    wrong = _what_is_wrong(nearest, is_item=bool(parts) and parts[-1].isdecimal())
    return error_answer(422, parameter + wrong, parameter)


def _what_is_wrong(error: Any, *, is_item: bool) -> str:
    """Return what follows the name of a value in our words, for an error of pydantic."""
    if error["type"] in _MUST:
        return f" {_MUST[error['type']]}"
    if error["type"] in ("string_pattern_mismatch", "string_too_short"):
        return " is blank; leave it out" if is_item else " is blank; give a text"
    text = error["msg"].removeprefix("Value error, ").replace(" after validation", "")
    kind, should, rest = text.partition(" should ")
    return f" must {rest}" if should and kind.isalpha() else f": {text}"


async def on_http_error(request: Any, error: Any) -> Any:
    """Answer a request that no address takes."""
    headers = dict(error.headers or {})
    # the framework names those of one route; an address may have several
    if error.status_code == 405:
        routes = [route for route in request.app.routes if getattr(route, "methods", None)]
        allowed = {
            method
            for route in routes
            if route.path_regex.match(request.url.path)
            for method in route.methods
        }
        headers = {"allow": ", ".join(sorted(allowed))}
    return error_answer(error.status_code, str(error.detail), headers=headers)
