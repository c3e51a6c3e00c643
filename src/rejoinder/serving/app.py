"""The HTTP application: what each address takes, what it has computed, and what it answers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import errno
import functools
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np

from rejoinder import __version__
from rejoinder.curation.tickets import ReusedKeyError
from rejoinder.errors import BusyError, InputError, MissingExtraError, NotFoundError, RejoinderError
from rejoinder.retrieval.options import SearchOptions
from rejoinder.serving import requests, schema
from rejoinder.serving.background import Background
from rejoinder.serving.bodies import json_route, on_http_error, on_validation_error, query_route
from rejoinder.serving.changes import FAILURES, Changes
from rejoinder.serving.error_schema import describe_errors
from rejoinder.serving.guard import MOST_TOGETHER, NO_KEYS, Guard, Keys
from rejoinder.serving.http.errors import error_answer
from rejoinder.serving.http.exchange import CURRENT
from rejoinder.serving.http.logs import logger
from rejoinder.serving.http.received import ReceivedBytes
from rejoinder.serving.http.retries import Pace
from rejoinder.serving.imitated import document_text
from rejoinder.serving.latest import Latest
from rejoinder.serving.recent_answers import RecentAnswers, recent_answer
from rejoinder.serving.responses import Metrics, json_answer, plain_response
from rejoinder.serving.text_jobs import (
    document_scores,
    document_vectors,
    query_vectors,
    text_intents,
)
from rejoinder.serving.worker.answers import Answers, Question
from rejoinder.serving.worker.batcher import Batcher
from rejoinder.serving.worker.condition import READ_ONLY, Condition
from rejoinder.serving.worker.jobs import Job, Lane, OverloadedError, UnavailableError, Work, Worker
from rejoinder.serving.worker.sources import Sources
from rejoinder.stores.log.database import LogError
from rejoinder.stores.store import DeniedError, UnreachableError

if TYPE_CHECKING:
    from fastapi import FastAPI

PAGE = Path(__file__).with_name("page")
PIECE = 64  # texts of a large request that are computed at once, so that others get their turn
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Settings of a server."""

    sources: Sources
    keys: Keys = NO_KEYS
    local: bool = True  # see `Guard`
    queue: int = 64  # requests that may wait
    seconds: float = 30.0  # for a request
    minimum_confidence: float | None = None  # of requests that do not give it
    log_texts: bool = False
    workers: int = 1
    answers: Path | None = None  # folder that several workers share; see `RecentAnswers`
    answers_key: bytes = dataclasses.field(default=b"", repr=False)  # encrypts what is in it


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
    for failure in FAILURES:
        app.add_exception_handler(failure, api.on_failure)
    limits = _add_routes(app, api)
    describe_errors(app)
    for file in PAGE.iterdir():
        path = "/" if file.name == "index.html" else f"/{file.name}"
        app.add_api_route(path, _page(file), methods=["GET", "HEAD"], include_in_schema=False)
    app.add_middleware(
        Guard,
        keys=settings.keys,
        local=settings.local,
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
        ("POST", "/v1/embeddings", api.embeddings, schema.EmbeddingsResponse),
        ("POST", "/v1/rerank", api.rerank, schema.RerankResponse),
        ("POST", "/v2/rerank", api.rerank, schema.RerankResponse),
        ("POST", "/v1/intents", api.intents, schema.IntentsResponse),
        ("GET", "/v1/candidates", api.candidates, schema.CandidatesResponse),
        ("POST", "/v1/candidates", api.changes.add, schema.Added),
        ("DELETE", "/v1/candidates/{position}", api.changes.delete, schema.DeletedResponse),
        ("POST", "/v1/examples", api.changes.add_examples, schema.Taught),
        ("POST", "/v1/import", api.changes.import_file, schema.Imported),
        ("GET", "/v1/edits", api.changes.changes, schema.ChangesResponse),
        ("POST", "/v1/edits", api.changes.edit, schema.ChangeFacts),
        ("POST", "/v1/feedback", api.changes.feedback, schema.RecordedResponse),
        ("GET", "/v1/models", api.models, schema.ModelsResponse),
        ("GET", "/v1/models/{name:path}", api.one_model, schema.ModelFacts),
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
            operation_id=f"{path[1:].translate({47: 95, 123: None, 125: None})}_{method.lower()}",
            route_class_override=query_route() if form is None else json_route(form),
            **keyed,
        )
    return limits


class Api:
    """The endpoints. They hand jobs to the worker's queues and put the results into their form."""

    search_queue: Batcher
    info_queue: Batcher
    report_queue: Batcher
    facts: Latest[dict[str, Any]]  # see `Answers.facts`
    condition: Latest[Condition]

    def __init__(self, settings: ServerSettings, worker: Worker) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self._worker = worker
        self._reloading = asyncio.Lock()
        self._ready = False
        recent = RecentAnswers(
            settings.answers, key=settings.answers_key, workers=2 * settings.workers
        )
        self.background = Background(self.metrics.observe_failure)
        self.changes = Changes(settings.sources, recent, self._anonymous, self.background)

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: object) -> AsyncIterator[None]:
        """Prepare all before the first request; finish what was accepted after the last one."""
        with contextlib.closing(self._worker) as worker:
            run = worker.run
            queue = self.settings.queue
            self.search_queue = Batcher(
                functools.partial(run, Lane.SEARCH), queue=queue, observe=self.metrics.observe_batch
            )
            self.info_queue = Batcher(functools.partial(run, Lane.INFO), queue=queue)
            self.report_queue = Batcher(functools.partial(run, Lane.REPORT), queue=queue)
            self.changes.open(worker, queue)
            self.facts = Latest(self._facts, await self._facts())
            self.condition = Latest(self._condition, Condition())
            if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._on_sighup)
            self._ready = True
            yield
            self._ready = False
            for batcher in (self.search_queue, self.info_queue, self.report_queue, self.changes):
                await batcher.close()

    def crowded(self) -> bool:
        """Return whether the queue is full."""
        return self.search_queue.full

    @property
    def model(self) -> str:
        """The name of the model."""
        name: str = self.facts.value["first"]["model"]
        return name

    async def health(self) -> Any:
        """Return that the process lives."""
        return json_answer({"status": "ok"})

    async def ready(self) -> Any:
        """Return whether requests are taken, and why not."""
        if not self._ready:
            return json_answer({"status": "closing"}, 503)
        is_told = await self.condition.refresh()
        if not is_told and self._worker.is_starting:
            reason = "the process that computes has ended and is started again"
            return json_answer({"status": "not ready", "reason": reason}, 503)
        trouble = self.condition.value.trouble if is_told else "the index takes long to answer"
        if trouble is not None:
            reason = self._anonymous(trouble)
            if not self.condition.value.searches:
                return json_answer({"status": "not ready", "reason": reason}, 503)
            return json_answer({"status": "ready", "reason": f"it only searches: {reason}"})
        failed = self.background.trouble
        return json_answer({"status": "ready"} | ({"reason": failed} if failed else {}))

    async def metrics_text(self) -> Any:
        """Return metrics in Prometheus text format."""
        with contextlib.suppress(RejoinderError, OSError):  # what was known goes on being told
            await self.facts.refresh()
        first = self.facts.value["first"]
        text = self.metrics.text(first["index"], first["model"], first["candidates"])
        return plain_response()(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def replies(self, body: requests.RepliesRequest) -> Any:
        """Find the best replies to a conversation."""
        options = body.model_dump(exclude_unset=True, exclude={"messages", "index"})
        options.setdefault("minimum_confidence", self.settings.minimum_confidence)
        question = Question(body.model_dump()["messages"], SearchOptions(**options))
        work = Answers.compare if body.index == "second" else Answers.replies
        answer = await self.search_queue.submit(Job(work, question))
        if body.why and not CURRENT.get().may_write:
            _hide_learned(answer["replies"])
        self.metrics.observe_notes(answer.get("notes", ()))
        replies = [reply["text"] for reply in answer["replies"]]
        CURRENT.get().texts = {"messages": question.messages, "replies": replies}
        kept = recent_answer(body.index, question.messages, answer["replies"])
        name = self.changes.recent.add(kept)
        return json_answer({**answer, "answer": name})

    async def embeddings(self, body: requests.EmbeddingsRequest) -> Any:
        """Encode texts."""
        refusal = self._other_model(body.model)
        if refusal is not None:
            return refusal
        texts = [body.input] if isinstance(body.input, str) else body.input
        work: Work = query_vectors if body.input_type == "query" else document_vectors
        pieces = await self._in_pieces(texts, lambda part: Job(work, part, size=len(part)))
        vectors = np.concatenate([vectors for vectors, _ in pieces])
        size = vectors.shape[1]
        if body.dimensions not in (None, size):
            raise InputError(
                f"dimensions is {body.dimensions}; the vectors of this model have {size}, and it "
                "was not trained to be cut to fewer"
            )
        tokens = sum(count for _, count in pieces)
        rows = (
            [_base64(row) for row in vectors]
            if body.encoding_format == "base64"
            else vectors.tolist()
        )
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        answer = {"object": "list", "model": self.model, "data": data, "usage": usage, **_notes()}
        return json_answer(answer)

    async def rerank(self, body: requests.RerankRequest) -> Any:
        """Order documents by how well they reply to a message."""
        refusal = self._other_model(body.model)
        if refusal is not None:
            return refusal
        texts = [document_text(document, body.rank_fields) for document in body.documents]
        spoken = [position for position, text in enumerate(texts) if text.strip()]
        pieces = await self._in_pieces(
            [texts[position] for position in spoken],
            lambda part: Job(document_scores, (body.query, part), size=len(part)),
        )
        spoken_scores = np.concatenate([scores for scores, _ in pieces]) if pieces else np.zeros(0)
        lowest = float(spoken_scores.min()) - 1.0 if len(spoken_scores) else 0.0
        scores = np.full(len(texts), lowest)  # a blank one is ranked last
        scores[spoken] = spoken_scores
        best = np.argsort(-scores, kind="stable")[: body.top_n].tolist()
        tokens = sum(count for _, count in pieces)
        results: list[dict[str, Any]] = [
            {"index": i, "relevance_score": float(scores[i])} for i in best
        ]
        if body.return_documents:
            for result in results:
                sent = body.documents[result["index"]]
                result["document"] = {"text": sent} if isinstance(sent, str) else sent
        return json_answer(
            {
                "id": CURRENT.get().request_id,
                "model": self.model,
                "results": results,
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 0}},
                **_notes(),
            }
        )

    async def intents(self, body: requests.IntentsRequest) -> Any:
        """Classify texts."""
        if not self.facts.value["intents"]:
            return error_answer(404, "this server has no intents; start it with --intents FOLDER")
        texts = [body.input] if isinstance(body.input, str) else body.input
        pieces = await self._in_pieces(texts, lambda part: Job(text_intents, part, size=len(part)))
        predictions = [prediction for piece in pieces for prediction in piece]
        return json_answer(
            {"data": [{"index": i, **prediction} for i, prediction in enumerate(predictions)]}
        )

    async def candidates(self, first: requests.Position = 0, limit: requests.PageSize = 100) -> Any:
        """List candidates from a position on."""
        page, total = await self.search_queue.submit(Job(Answers.candidates, (first, limit + 1)))
        following = page[limit]["position"] if len(page) > limit else None
        for candidate in page:
            learned = candidate.pop("learned")
            if CURRENT.get().may_write:
                candidate["examples"] = [*candidate["examples"], *learned]
        return json_answer({"candidates": page[:limit], "total": total, "next": following})

    async def models(self) -> Any:
        """Return the name of the model."""
        cohere = {"name": self.model, "endpoints": ["embed", "rerank"]}
        return json_answer({"object": "list", "data": [self._model_facts()], "models": [cohere]})

    async def one_model(self, name: str) -> Any:
        """Return the facts of a model."""
        return self._other_model(name) or json_answer(
            {**self._model_facts(), "name": self.model, "endpoints": ["embed", "rerank"]}
        )

    def _model_facts(self) -> dict[str, Any]:
        return {"id": self.model, "object": "model", "created": 0, "owned_by": "you"}

    async def about(self) -> Any:
        """Return what the server has, and what this key may do, for the page."""
        own = {
            "minimum_confidence": self.settings.minimum_confidence,
            "may_write": CURRENT.get().may_write,
        }
        return json_answer(await self._facts() | own)

    async def report(self, form: requests.ReportForm = "json") -> Any:
        """Report on the use of the index: what was taken over time, and what the index lacks."""
        report = await self.report_queue.submit(Job(Answers.report, None))
        if form == "json":
            return json_answer(report.usage)
        text = report.html if form == "html" else report.markdown
        return plain_response()(text, media_type=f"text/{form}; charset=utf-8")

    async def reload(self) -> Any:
        """Open index and models again, while the old ones go on answering."""
        if self.settings.workers > 1:  # the parent replaces its workers one by one
            os.kill(os.getppid(), signal.SIGHUP)
            return json_answer({"status": "reloading"}, 202)
        async with self._reloading:
            try:
                await asyncio.to_thread(self._worker.open)
            except InputError as error:  # nothing is wrong with the request
                hidden = await asyncio.to_thread(self.settings.sources.hide_places, str(error))
                raise UnavailableError(f"the earlier ones go on answering: {hidden}") from None
            self.facts = Latest(self._facts, await self._facts())
        return json_answer({"status": "reloaded"})

    async def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = await self.info_queue.submit(Job(Answers.facts, None))
        return facts

    async def _condition(self) -> Condition:
        condition: Condition = await self.info_queue.submit(Job(Answers.condition, None))
        return condition

    def _on_sighup(self) -> None:
        async def again() -> None:
            try:
                await self.reload()
                logger.info("reloaded")
            except Exception as error:  # noqa: BLE001 (what is open goes on)
                logger.error(
                    "not reloaded; what was open goes on answering",
                    extra={"fields": {"reason": str(error)}},
                )

        self._task = asyncio.get_running_loop().create_task(again())

    async def _in_pieces(self, texts: Sequence[str], job: Callable[[list[str]], Job]) -> list[Any]:
        """Compute the texts of a request one piece after the other."""
        pieces = [list(texts[i : i + PIECE]) for i in range(0, len(texts), PIECE)]
        return [await self.search_queue.submit(job(piece)) for piece in pieces]

    def _other_model(self, name: str | None) -> Any:
        """Return the refusal of a request for another model than the server's."""
        if name in (None, self.model):
            return None
        return error_answer(
            404, f"no model {name!r} here; it is {self.model!r}, or leave it out", "model"
        )

    async def on_failure(self, _request: Any, error: Exception) -> Any:
        """Convert an exception to an error response."""
        if isinstance(error, OverloadedError):
            status = 429
        elif isinstance(error, BusyError | LogError | UnavailableError | UnreachableError):
            status = 503
        elif isinstance(error, DeniedError):
            status = 403
        elif isinstance(error, NotFoundError):
            status = 404
        elif isinstance(error, OSError):
            return _disk_answer(error)
        elif isinstance(error, ReusedKeyError):
            status = 422
        else:
            status = 400
        return error_answer(status, self._anonymous(error))

    def _anonymous(self, error: object) -> str:
        """Return an error's message without the paths of the indexes on this machine."""
        text = str(error)
        for sources in (self.settings.sources, self.settings.sources.second):
            if sources is not None:
                text = sources.store.hide_place(text)
        return text


def _disk_answer(error: OSError) -> Any:
    """Answer what the disk has refused: nothing was changed."""
    if error.errno in _FULL:
        return error_answer(507, "the disk is full; nothing was changed")
    if error.errno in READ_ONLY:
        return error_answer(
            403,
            "this server may not write to its index or to the log beside it; nothing was changed",
        )
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    logger.error("the disk has refused something", extra={"fields": {"reason": reason}})
    return error_answer(503, f"the disk has refused it ({reason}); nothing was changed")


def _hide_learned(replies: Sequence[dict[str, Any]]) -> None:
    """Take out of replies the examples that were learned: customers wrote them."""
    for reply in replies:
        reply["why"].pop("opposes", None)  # may be one
        if reply["why"]["learned"]:
            reply["why"]["like"] = []


def _page(file: Path) -> Callable[[], Any]:
    from fastapi.responses import FileResponse

    async def answer() -> Any:
        return FileResponse(file)

    return answer


def _notes() -> dict[str, list[str]]:
    """Return the notes on ignored fields, if there are any, as part of an answer."""
    notes = CURRENT.get().notes
    return {"notes": notes} if notes else {}


def _base64(vector: Any) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
