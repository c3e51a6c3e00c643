"""The HTTP application: what each address takes, what it has computed, and what it answers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import errno
import os
import re
import signal
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec
import numpy as np
from pydantic import ValidationError

from rejoinder import __version__
from rejoinder.errors import BusyError, InputError, MissingExtraError
from rejoinder.retrieval.reading import Candidate
from rejoinder.serving import schema as forms
from rejoinder.serving.answers import Question, Sources
from rejoinder.serving.computing import Compute, ComputingProcess
from rejoinder.serving.guard import CURRENT, NO_KEYS, Guard, Keys, Receive, Scope, Send, logger
from rejoinder.serving.metrics import Metrics
from rejoinder.serving.responses import (
    error_answer,
    invalid_answer,
    json_answer,
    on_http_error,
    on_validation_error,
    plain_response,
)
from rejoinder.serving.worker import Batcher, Job, OverloadedError, UnavailableError

if TYPE_CHECKING:
    from fastapi import FastAPI

PAGE = Path(__file__).with_name("page")
PIECE = 64  # texts of a large request that are computed at once, so that others get their turn
_FULL = (errno.ENOSPC, errno.EDQUOT)
_ERRORS = (400, 401, 403, 408, 413, 415, 421, 422, 429, 500, 503)
_JSON = re.compile(rb"application/([\w.-]+\+)?json\s*(;.*)?", re.IGNORECASE)
_FAILURES = (OverloadedError, UnavailableError, BusyError, InputError, OSError)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How a server serves."""

    sources: Sources
    keys: Keys = NO_KEYS
    local: bool = True  # see `Guard`
    queue: int = 64  # requests that may wait
    seconds: float = 30.0  # for a request
    minimum_confidence: float | None = None  # where a request says nothing of it
    log_texts: bool = False
    workers: int = 1


def make_app(settings: Settings, opened: Compute | None = None) -> FastAPI:
    """Return the application, an ASGI callable; unless something is `opened` already, it has a process that computes.

    Raises:
        MissingExtraError: FastAPI or prometheus-client is missing.
    """
    try:
        from fastapi import Depends, FastAPI
        from fastapi.exceptions import RequestValidationError
        from fastapi.routing import APIRoute
        from fastapi.security import HTTPBearer
        from starlette.exceptions import HTTPException

        api = Api(settings, opened)
    except ImportError as error:
        raise MissingExtraError("the server", "serve") from error
    app = FastAPI(
        title="Rejoinder", version=__version__, docs_url=None, redoc_url=None, lifespan=api.lifespan,
        redirect_slashes=False,  # a redirect would name whatever host the request names
        responses={code: {"model": forms.Error} for code in _ERRORS},
        description="Given a conversation so far, the best replies out of a set of candidates.",
    )  # fmt: skip
    app.state.api = api
    errors: list[tuple[Any, Callable[..., Any]]] = [
        (RequestValidationError, on_validation_error),
        (HTTPException, on_http_error),
        *((kind, api.failed) for kind in _FAILURES),
    ]
    for kind, handler in errors:
        app.add_exception_handler(kind, handler)
    keyed: dict[str, Any] = {"dependencies": [Depends(HTTPBearer(auto_error=False))] if settings.keys else []}
    for path, endpoint, form in (("/health", api.health, forms.Status), ("/ready", api.ready, forms.Status)):
        app.add_api_route(path, endpoint, response_model=form)
    app.add_api_route("/metrics", api.metrics_text, response_class=plain_response(), **keyed)
    routes: list[tuple[str, str, Callable[..., Any], Any]] = [
        ("POST", "/v1/replies", api.replies, forms.RepliesResponse),
        ("POST", "/v1/embeddings", api.embeddings, forms.EmbeddingsResponse),
        ("POST", "/v1/rerank", api.rerank, forms.RerankResponse),
        ("POST", "/v2/rerank", api.rerank, forms.RerankResponse),
        ("POST", "/v1/intents", api.intents, forms.IntentsResponse),
        ("GET", "/v1/candidates", api.candidates, forms.CandidatesResponse),
        ("POST", "/v1/candidates", api.add, forms.Added),
        ("DELETE", "/v1/candidates/{position}", api.delete, forms.Deleted),
        ("GET", "/v1/models", api.models, forms.ModelsResponse),
        ("GET", "/v1/about", api.about, forms.About),
        ("GET", "/v1/map", api.map, forms.MapResponse),
        ("POST", "/admin/reload", api.reload, forms.Status),
    ]
    for method, path, endpoint, form in routes:
        code = 201 if endpoint == api.add else 200
        more: Any = {404: {"model": forms.Error}, 507: {"model": forms.Error}} | (
            {202: {"model": forms.Status}} if endpoint == api.reload else {}
        )
        app.add_api_route(
            path, endpoint, methods=[method], response_model=form, status_code=code, responses=more,
            operation_id=f"{path[1:].translate({47: 95, 123: None, 125: None})}_{method.lower()}", **keyed,
        )  # fmt: skip
    for file in PAGE.iterdir():
        path = "/" if file.name == "index.html" else f"/{file.name}"
        app.add_api_route(path, _page(file), include_in_schema=False)
    direct: dict[str, tuple[Any, type[forms.Request]]] = {}
    for route in app.routes:
        if isinstance(route, APIRoute) and (asked := get_type_hints(route.endpoint).get("body")):
            direct[route.path] = route, asked
    app.add_middleware(_Direct, failed=api.failed, endpoints=direct)
    app.add_middleware(
        Guard, keys=settings.keys, local=settings.local, seconds=settings.seconds, crowded=api.crowded,
        limits={path: form.most_bytes for path, (_, form) in direct.items()},
        observe=api.metrics.observe_request, log_texts=settings.log_texts,
    )  # fmt: skip
    return app


class _Direct:
    """Answers requests with a body past the framework's routes and dependencies, which take longer than all the rest.

    The framework describes these addresses, and answers the others.
    """

    def __init__(
        self,
        app: Any,
        *,
        failed: Callable[[Any, Exception], Any],
        endpoints: Mapping[str, tuple[Any, type[forms.Request]]],
    ) -> None:
        self.app, self.failed, self.endpoints = app, failed, endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in self.endpoints:
            await self.app(scope, receive, send)
            return
        scope["route"], form = self.endpoints[scope["path"]]
        if _JSON.fullmatch(dict(scope["headers"]).get(b"content-type", b"")):
            response = await self._answer(form, scope["route"].endpoint, receive)
        else:
            response = error_answer(415, "send JSON, with the header Content-Type: application/json")
        await response(scope, receive, send)

    async def _answer(self, form: type[forms.Request], endpoint: Callable[[Any], Any], receive: Receive) -> Any:
        body = await _received(receive)
        if (marks := sum(map(body.count, forms.MARKS))) > forms.MOST_MARKS:
            most = f"a body has {forms.MOST_MARKS:,} at most; send less at once"
            return error_answer(413, f"the body has {marks:,} brackets, braces and colons; {most}")
        try:
            value = msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return error_answer(422, f"the body is no JSON: {error}")
        try:
            return await endpoint(form.model_validate(value))
        except ValidationError as error:
            return invalid_answer(error.errors(include_url=False, include_input=False), value)
        except _FAILURES as error:
            return await self.failed(None, error)


class Api:
    """The endpoints. They check, hand jobs to the computing thread, and put its results into their form."""

    computing: Batcher
    writing: Batcher
    telling: Batcher
    drawing: Batcher
    facts: dict[str, Any]  # see `Answers.facts`, when it was opened

    def __init__(self, settings: Settings, opened: Compute | None) -> None:
        self.settings, self.metrics = settings, Metrics()
        self._opened, self._reloading, self._ready = opened, asyncio.Lock(), False
        self._compacting: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: object) -> AsyncIterator[None]:
        """Open everything before the first request; finish what was accepted after the last one."""
        with contextlib.ExitStack() as stack:
            compute = self._opened
            if compute is None:
                compute = stack.enter_context(ComputingProcess(self.settings.sources))
                await asyncio.to_thread(compute, "open", ())
            self._compute = compute
            queue = self.settings.queue
            self.computing = Batcher(partial(compute, "compute"), queue=queue, observe=self.metrics.observe_batch)
            self.writing = Batcher(partial(compute, "write"), most=forms.CANDIDATES, queue=queue)
            self.telling = Batcher(partial(compute, "tell"), queue=queue)
            self.drawing = Batcher(partial(compute, "draw"), queue=queue)
            self.facts = await self._facts()
            if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up)
            self._ready = True
            yield
            self._ready = False
            for batcher in (self.computing, self.writing, self.telling, self.drawing):
                await batcher.close()

    def crowded(self) -> bool:
        """Return whether the queue is full."""
        return self.computing.full

    @property
    def model(self) -> str:
        """The name of the model."""
        name: str = self.facts["first"]["model"]
        return name

    # --- Endpoints ----------------------------------------------------------------------------------------------------

    async def health(self) -> Any:
        """Tell that the process lives."""
        return json_answer({"status": "ok"})

    async def ready(self) -> Any:
        """Tell whether requests are taken, and why not."""
        if not self._ready:
            return json_answer({"status": "closing"}, 503)
        if (reason := await self.telling.submit(Job("trouble", None))) is not None:
            return json_answer({"status": "not ready", "reason": self._anonymous(reason)}, 503)
        return json_answer({"status": "ready"})

    async def metrics_text(self) -> Any:
        """Tell Prometheus."""
        first = (await self._facts())["first"]
        text = self.metrics.text(first["index"], first["model"], first["candidates"])
        return plain_response()(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def replies(self, body: forms.RepliesRequest) -> Any:
        """Find the best replies to a conversation."""
        given = body.model_dump(exclude_unset=True)
        given.setdefault("minimum_confidence", self.settings.minimum_confidence)
        kind = "beside" if given.pop("index", "first") == "second" else "replies"
        found = await self.computing.submit(Job(kind, Question(**given)))
        CURRENT.get().texts = {"messages": given["messages"], "replies": [each["text"] for each in found["replies"]]}
        return json_answer(found)

    async def embeddings(self, body: forms.EmbeddingsRequest) -> Any:
        """Encode texts."""
        if (refusal := self._other_model(body.model)) is not None:
            return refusal
        if body.dimensions not in (None, size := self.facts["first"]["size"]):
            raise InputError(f"dimensions is {body.dimensions}; the vectors of this model have {size}")
        texts = [body.input] if isinstance(body.input, str) else body.input
        kind = "queries" if body.input_type == "query" else "documents"
        pieces = await self._in_pieces(texts, lambda part: Job(kind, part, len(part)))
        vectors = np.concatenate([vectors for vectors, _ in pieces])
        tokens = sum(count for _, count in pieces)
        rows = [_base64(row) for row in vectors] if body.encoding_format == "base64" else vectors.tolist()
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return json_answer({"object": "list", "model": self.model, "data": data, "usage": usage})

    async def rerank(self, body: forms.RerankRequest) -> Any:
        """Order documents by how well they reply to a message."""
        if (refusal := self._other_model(body.model)) is not None:
            return refusal
        texts = [each if isinstance(each, str) else each.text for each in body.documents]
        pieces = await self._in_pieces(texts, lambda part: Job("scores", (body.query, part), len(part)))
        scores = np.concatenate(pieces)
        best = np.argsort(-scores, kind="stable")[: body.top_n].tolist()
        results = [
            {"index": i, "relevance_score": float(scores[i])}
            | ({"document": {"text": texts[i]}} if body.return_documents else {})
            for i in best
        ]
        return json_answer({"id": CURRENT.get().request_id, "model": self.model, "results": results})

    async def intents(self, body: forms.IntentsRequest) -> Any:
        """Classify texts."""
        if not self.facts["intents"]:
            return error_answer(404, "this server has no intents; start it with --intents FOLDER")
        texts = [body.input] if isinstance(body.input, str) else body.input
        pieces = await self._in_pieces(texts, lambda part: Job("intents", part, len(part)))
        found = [each for piece in pieces for each in piece]
        return json_answer({"data": [{"index": i, **each} for i, each in enumerate(found)]})

    async def candidates(self, first: forms.Position = 0, limit: forms.PageSize = 100) -> Any:
        """List candidates from a position on."""
        found, total = await self.computing.submit(Job("candidates", (first, limit + 1)))
        following = found[limit]["position"] if len(found) > limit else None
        return json_answer({"candidates": found[:limit], "total": total, "next": following})

    async def add(self, body: forms.CandidatesRequest) -> Any:
        """Add candidates; they are on the disk when this answers, and found by every later request."""
        given = body.candidates
        new = [Candidate(each) if isinstance(each, str) else Candidate(each.text, each.payload) for each in given]
        positions, is_fragmented = await self.writing.submit(Job("add", new, len(new)))
        if is_fragmented and (self._compacting is None or self._compacting.done()):
            self._compacting = asyncio.get_running_loop().create_task(self._compact())
        return json_answer({"positions": positions}, 201)

    async def delete(self, position: forms.Position) -> Any:
        """Delete a candidate; the positions of the others stay as they are."""
        try:
            return json_answer({"deleted": await self.writing.submit(Job("delete", position))})
        except BusyError:
            raise
        except InputError as error:
            return error_answer(404, self._anonymous(error))

    async def models(self) -> Any:
        """Name the model."""
        return json_answer({"object": "list", "data": [{"id": self.model, "object": "model", "owned_by": "you"}]})

    async def about(self) -> Any:
        """Tell the page what there is."""
        return json_answer(await self._facts())

    async def map(self, field: forms.Name | None = None) -> Any:
        """Place the replies so that like ones are near each other; drawn anew at most once a minute."""
        return json_answer(await self.drawing.submit(Job("map", field)))

    async def reload(self) -> Any:
        """Open index and models again, beside those that go on answering until the new ones are there."""
        if self.settings.workers > 1:  # the parent replaces its workers one by one
            os.kill(os.getppid(), signal.SIGHUP)
            return json_answer({"status": "reloading"}, 202)
        async with self._reloading:
            try:
                await asyncio.to_thread(self._compute, "open", ())
            except InputError as error:  # nothing is wrong with the request
                raise UnavailableError(str(error)) from None
            self.facts = await self._facts()
        return json_answer({"status": "reloaded"})

    # ------------------------------------------------------------------------------------------------------------------

    async def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = await self.telling.submit(Job("facts", None))
        return facts

    async def _compact(self) -> None:
        """Compact the index after the change that made it worth while."""
        try:
            await self.writing.submit(Job("compact", None))
        except (OverloadedError, BusyError):
            return  # the next addition asks for it again
        except _FAILURES as error:
            logger.warning("the index was not compacted", extra={"fields": {"reason": str(error)}})

    def _hang_up(self) -> None:
        async def again() -> None:
            try:
                await self.reload()
                logger.info("reloaded")
            except Exception as error:  # noqa: BLE001 (what is open goes on)
                logger.error("not reloaded; what was open goes on answering", extra={"fields": {"reason": str(error)}})

        self._task = asyncio.get_running_loop().create_task(again())

    async def _in_pieces(self, texts: Sequence[str], job: Callable[[list[str]], Job]) -> list[Any]:
        """Compute the texts of a request one piece after the other."""
        return [await self.computing.submit(job(list(texts[i : i + PIECE]))) for i in range(0, len(texts), PIECE)]

    def _other_model(self, name: str | None) -> Any:
        """Return the refusal of a request for another model than the one that is here."""
        if name in (None, self.model):
            return None
        return error_answer(404, f"no model {name!r} here; it is {self.model!r}, or leave it out", "model")

    async def failed(self, _request: Any, error: Exception) -> Any:
        """Tell what went wrong."""
        if isinstance(error, OSError):
            if error.errno not in _FULL:
                raise error
            return error_answer(507, "the disk is full; nothing was changed")
        own_trouble = isinstance(error, BusyError | UnavailableError)
        status = 429 if isinstance(error, OverloadedError) else 503 if own_trouble else 400
        return error_answer(status, self._anonymous(error))

    def _anonymous(self, error: object) -> str:
        """Return an error's message without the place of the index on this machine."""
        place = str(self.settings.sources.index)
        return str(error).replace(f"{place}: ", "").replace(place, "the index")


def _page(file: Path) -> Callable[[], Any]:
    from fastapi.responses import FileResponse

    async def answer() -> Any:
        return FileResponse(file)

    return answer


async def _received(receive: Receive) -> bytes:
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def _base64(vector: Any) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
