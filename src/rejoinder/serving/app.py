"""The HTTP application: the endpoints at their addresses, the page, and the guard before them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from rejoinder import __version__
from rejoinder.errors import MissingExtraError
from rejoinder.serving.api import Api
from rejoinder.serving.failures import FAILURES, failure_answer
from rejoinder.serving.guard import MOST_TOGETHER, Guard
from rejoinder.serving.http.received import ReceivedBytes
from rejoinder.serving.http.retries import Pace
from rejoinder.serving.responses import plain_response
from rejoinder.serving.server_settings import ServerSettings
from rejoinder.serving.wire import schema
from rejoinder.serving.wire.bodies import (
    json_route,
    on_http_error,
    on_validation_error,
    query_route,
)
from rejoinder.serving.wire.error_schema import describe_errors
from rejoinder.serving.worker.jobs import Worker

if TYPE_CHECKING:
    from fastapi import FastAPI

PAGE = Path(__file__).with_name("page")


def make_app(settings: ServerSettings, worker: Worker) -> FastAPI:
    """Return the application, an ASGI callable, which closes the `worker` when it ends.

    Raises:
        MissingExtraError: FastAPI or prometheus-client is missing.
    """
    try:
        from fastapi import FastAPI
        from fastapi.exceptions import RequestValidationError
        from starlette.exceptions import HTTPException

        api = Api(settings, worker)
    except ImportError as error:
        raise MissingExtraError("the server", "serve") from error
    app = FastAPI(
        title="Rejoinder",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=api.lifespan,
        redirect_slashes=False,  # a redirect would name whatever host the request names
        description="Given a conversation so far, the best replies out of a set of candidates.",
    )
    app.state.api = api
    app.add_exception_handler(RequestValidationError, on_validation_error)
    app.add_exception_handler(HTTPException, on_http_error)

    async def on_failure(_request: Any, error: Exception) -> Any:
        return failure_answer(error, settings.sources)

    for failure in FAILURES:
        app.add_exception_handler(failure, on_failure)
    limits = _add_routes(app, api)
    describe_errors(app)
    page = {"/" if file.name == "index.html" else f"/{file.name}": file for file in PAGE.iterdir()}
    for path, file in page.items():
        app.add_api_route(path, _page(file), methods=["GET", "HEAD"], include_in_schema=False)
    app.add_middleware(
        Guard,
        keys=settings.keys,
        local=settings.local,
        page=page.keys(),
        seconds=settings.seconds,
        pace=Pace(settings.queue),
        received=ReceivedBytes(MOST_TOGETHER),
        crowded=api.crowded,
        limits=limits,
        observe=api.metrics.observe_request,
        log_texts=settings.log_texts,
    )
    return app


def _routes(api: Api) -> list[tuple[str, str, Callable[..., Any], Any]]:
    """Return method, path, endpoint and response of each route below a key."""
    return [
        ("POST", "/v1/replies", api.replies, schema.RepliesResponse),
        ("POST", "/v1/embeddings", api.texts.embeddings, schema.EmbeddingsResponse),
        ("POST", "/v1/rerank", api.texts.rerank, schema.RerankResponse),
        ("POST", "/v2/rerank", api.texts.rerank, schema.RerankResponse),
        ("POST", "/v1/intents", api.texts.intents, schema.IntentsResponse),
        ("GET", "/v1/candidates", api.candidates, schema.CandidatesResponse),
        ("POST", "/v1/candidates", api.changes.add, schema.Added),
        ("DELETE", "/v1/candidates/{position}", api.changes.delete, schema.DeletedResponse),
        ("POST", "/v1/examples", api.changes.add_examples, schema.Taught),
        ("POST", "/v1/import", api.changes.import_file, schema.Imported),
        ("GET", "/v1/edits", api.changes.changes, schema.ChangesResponse),
        ("POST", "/v1/edits", api.changes.edit, schema.ChangeFacts),
        ("POST", "/v1/feedback", api.changes.feedback, schema.RecordedResponse),
        ("GET", "/v1/models", api.texts.models, schema.ModelsResponse),
        ("GET", "/v1/models/{name:path}", api.texts.one_model, schema.ModelFacts),
        ("GET", "/v1/about", api.about, schema.About),
        ("GET", "/v1/report", api.report, schema.UsageResponse),
        ("POST", "/admin/reload", api.reload, schema.Status),
    ]


def _add_routes(app: FastAPI, api: Api) -> dict[str, int]:
    """Add all routes but the page's; return the most bytes of bodies."""
    from fastapi import Depends
    from fastapi.security import HTTPBearer

    keyed: dict[str, Any] = {
        "dependencies": [Depends(HTTPBearer(auto_error=False))] if api.settings.keys else []
    }
    for path, endpoint in (("/health", api.health), ("/ready", api.ready)):
        app.add_api_route(path, endpoint, response_model=schema.Status)
        # some monitors ask so
        app.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)
    app.add_api_route("/metrics", api.metrics_text, response_class=plain_response(), **keyed)
    limits: dict[str, int] = {}
    for method, path, endpoint, response in _routes(api):
        form = get_type_hints(endpoint).get("body")
        if form is not None:
            limits[path] = form.most_bytes
        app.router.add_api_route(
            path,
            endpoint,
            methods=[method],
            response_model=response,
            status_code=201 if endpoint in (api.changes.add, api.changes.import_file) else 200,
            responses={202: {"model": schema.Status}} if endpoint == api.reload else None,
            operation_id=_operation(method, path),
            route_class_override=query_route() if form is None else json_route(form),
            **keyed,
        )
    return limits


def _operation(method: str, path: str) -> str:
    """Return an operation's name, which generators of clients make a function of."""
    words = path[1:].replace(":path", "").translate({47: 95, 123: None, 125: None})
    return f"{words}_{method.lower()}"


def _page(file: Path) -> Callable[[], Any]:
    from fastapi.responses import FileResponse

    async def answer() -> Any:
        return FileResponse(file)

    return answer
