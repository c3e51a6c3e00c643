"""Errors in the one form that all have."""

from __future__ import annotations

import json
from typing import Any

from rejoinder.serving.http.exchange import CURRENT, Send
from rejoinder.serving.http.retries import retry_headers

POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
SAFE_HEADERS = [  # of answers that have none of the same name
    (b"cache-control", b"no-store"),
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]


def problem(status: int, message: str, parameter: str | None = None) -> bytes:
    """Return the JSON of an error, in the form of OpenAI's API."""
    kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    exchange = CURRENT.get()
    if status == 403 or status >= 500:
        exchange.reason = message
    error = {"message": message, "type": kind, "param": parameter, "code": status}
    text = json.dumps({"error": error, "request_id": exchange.request_id}, ensure_ascii=False)
    return text.encode(errors="replace")  # a key of the request may hold half of a surrogate pair


async def respond(send: Send, status: int, message: str) -> None:
    """Send an error, and ask to come again where that may help."""
    body = problem(status, message)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [
        (name.encode(), value.encode())
        for name, value in retry_headers(status, CURRENT.get().pace).items()
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error_answer(
    status: int, message: str, parameter: str | None = None, headers: dict[str, str] | None = None
) -> Any:
    """Return an error in the form of all errors."""
    from fastapi import Response

    more = {**(headers or {}), **retry_headers(status, CURRENT.get().pace)}
    body = problem(status, message, parameter)
    return Response(body, status, more, media_type="application/json")
