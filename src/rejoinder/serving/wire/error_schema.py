"""Errors in the description of the API, added when it is asked for.

FastAPI would make a model for each error of each route, which takes a tenth of a second at each
start.
"""

from __future__ import annotations

import http
from typing import TYPE_CHECKING, Any

from rejoinder.serving.wire.schema import Error

if TYPE_CHECKING:
    from fastapi import FastAPI

ERRORS = (400, 401, 403, 408, 413, 415, 421, 422, 429, 500, 503)
OF_CALLS = (404, 507)  # beside them, of what is below /v1, /v2 and /admin
_OF_FASTAPI = ("HTTPValidationError", "ValidationError")


def describe_errors(app: FastAPI) -> None:
    """Let the description of an application name the errors of all its routes."""
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        is_new = app.openapi_schema is None
        schema = describe()
        if is_new:
            _add_errors(schema)
        return schema

    app.openapi = openapi  # type: ignore[method-assign]


def _add_errors(schema: dict[str, Any]) -> None:
    known = schema["components"]["schemas"]
    for name in _OF_FASTAPI:
        known.pop(name, None)
    error = Error.model_json_schema(ref_template="#/components/schemas/{model}")
    known |= error.pop("$defs")
    known["Error"] = error
    for path, operations in schema["paths"].items():
        codes = (*ERRORS, *OF_CALLS) if path.startswith(("/v", "/admin")) else ERRORS
        for operation in operations.values():
            for code in codes:
                operation["responses"][str(code)] = _response(code)


def _response(code: int) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {"description": http.HTTPStatus(code).phrase, "content": content}
