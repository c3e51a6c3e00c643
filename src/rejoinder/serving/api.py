"""The endpoints: they hand jobs to the worker's queues and put the results into their form."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

from rejoinder.documents import Document
from rejoinder.errors import InputError, RejoinderError
from rejoinder.retrieval.options import SearchOptions
from rejoinder.serving.background import Background
from rejoinder.serving.changes import Changes
from rejoinder.serving.http.errors import POLICY, error_answer
from rejoinder.serving.http.exchange import CURRENT
from rejoinder.serving.http.logs import logger
from rejoinder.serving.latest import Latest
from rejoinder.serving.recent_answers import RecentAnswers, recent_answer
from rejoinder.serving.responses import Metrics, json_answer, plain_response
from rejoinder.serving.server_settings import ServerSettings
from rejoinder.serving.text_api import TextApi
from rejoinder.serving.wire import requests
from rejoinder.serving.worker.answers import Answers, Question
from rejoinder.serving.worker.batcher import Batcher
from rejoinder.serving.worker.condition import Condition
from rejoinder.serving.worker.jobs import Job, Lane, UnavailableError, Worker


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
        self._reloading: asyncio.Task[None] | None = None
        self._ready = False
        recent = RecentAnswers(
            settings.answers, key=settings.answers_key, workers=2 * settings.workers
        )
        self.background = Background(self.metrics.observe_failure)
        self.changes = Changes(settings.sources, recent, self.background)
        self.texts = TextApi(lambda: self.facts.value)

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
            self.texts.open(self.search_queue)
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

    async def health(self) -> Any:
        """Return that the process lives."""
        return json_answer({"status": "ok"})

    async def ready(self) -> Any:
        """Return whether requests are taken, and why not."""
        if not self._ready:
            CURRENT.get().reason = "the server is closing"
            return json_answer({"status": "closing"}, 503)
        is_told = await self.condition.refresh()
        if not is_told and self._worker.is_starting:
            reason = "the process that computes has ended and is started again"
            CURRENT.get().reason = reason
            return json_answer({"status": "not ready", "reason": reason}, 503)
        trouble = self.condition.value.trouble if is_told else "the index takes long to answer"
        if trouble is not None:
            CURRENT.get().reason = trouble  # the whole of it, for the log alone
            reason = self.settings.sources.hide_stores(trouble)
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

    async def candidates(self, first: requests.Position = 0, limit: requests.PageSize = 100) -> Any:
        """List candidates from a position on."""
        page, total = await self.search_queue.submit(Job(Answers.candidates, (first, limit + 1)))
        following = page[limit]["position"] if len(page) > limit else None
        for candidate in page:
            learned = candidate.pop("learned")
            if CURRENT.get().may_write:
                candidate["examples"] = [*candidate["examples"], *learned]
        return json_answer({"candidates": page[:limit], "total": total, "next": following})

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
        policy = {"content-security-policy": f"{POLICY}; style-src {Document.style_digest()}"}
        return plain_response()(text, headers=policy, media_type=f"text/{form}; charset=utf-8")

    async def reload(self) -> Any:
        """Open index and models again, while the old ones go on answering."""
        if self.settings.workers > 1:  # the parent replaces its workers one by one
            if not hasattr(signal, "SIGHUP"):
                return error_answer(
                    400, "Windows reloads no server of several workers; restart the server"
                )
            os.kill(os.getppid(), signal.SIGHUP)
            return json_answer({"status": "reloading"}, 202)
        # the server's own: it goes on without a request that is late, and others wait for it too
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.get_running_loop().create_task(self._open_again())
        await asyncio.shield(self._reloading)
        return json_answer({"status": "reloaded"})

    async def _open_again(self) -> None:
        try:
            await asyncio.to_thread(self._worker.open)
        except Exception as error:
            fields = {"reason": str(error)}
            logger.error("index and models cannot be opened again", extra={"fields": fields})
            if not isinstance(error, InputError):
                raise
            # nothing is wrong with the request
            hidden = await asyncio.to_thread(self.settings.sources.hide_places, str(error))
            raise UnavailableError(f"the earlier ones go on answering: {hidden}") from None
        self.facts = Latest(self._facts, await self._facts())

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


def _hide_learned(replies: Sequence[dict[str, Any]]) -> None:
    """Take out of replies the examples that were learned: customers wrote them."""
    for reply in replies:
        reply["why"].pop("opposes", None)  # may be one
        if reply["why"]["learned"]:
            reply["why"]["like"] = []
