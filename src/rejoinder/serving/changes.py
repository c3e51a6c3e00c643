"""Endpoints that change the index or write to its log."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import os
import time
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from rejoinder.conversations import read_contexts
from rejoinder.corpora.schema import Candidate
from rejoinder.curation.changes import Change
from rejoinder.curation.editing import Editor
from rejoinder.curation.outcomes import Outcome
from rejoinder.curation.tickets import Ticket
from rejoinder.errors import BusyError, InputError, NotFoundError
from rejoinder.serving import edits
from rejoinder.serving.background import Background
from rejoinder.serving.failures import FAILURES
from rejoinder.serving.files import FileReader
from rejoinder.serving.http.errors import error_answer
from rejoinder.serving.http.exchange import CURRENT
from rejoinder.serving.http.logs import logger
from rejoinder.serving.recent_answers import RecentAnswers
from rejoinder.serving.responses import json_answer
from rejoinder.serving.sharing import Sharing
from rejoinder.serving.wire import requests
from rejoinder.serving.wire.change_requests import EditRequest, FeedbackRequest, ImportRequest
from rejoinder.serving.worker.batcher import Batcher
from rejoinder.serving.worker.jobs import (
    EndedError,
    Job,
    Lane,
    OverloadedError,
    Work,
    Worker,
)
from rejoinder.serving.worker.sources import Sources
from rejoinder.stores.store import DeniedError, Store

LEARNING_PAUSE = 2.0  # seconds at least, in which feedback gathers
TIDYING_PAUSE = 3600.0  # seconds between two deletions of old entries
LONGEST_KEY = 200  # letters of an Idempotency-Key


class Changes:
    """The endpoints that want a write key, and what the server changes after them by itself.

    Args:
        sources: the indexes.
        recent: answers that feedback may name.
        background: what runs beside the requests.
    """

    queue: Batcher
    feedback_queue: Batcher

    def __init__(
        self,
        sources: Sources,
        recent: RecentAnswers,
        background: Background,
    ) -> None:
        self.store = sources.store
        self.second = None if sources.second is None else sources.second.store
        self.recent = recent
        self._sharing: Sharing | None = None
        self._sources = sources
        self.background = background
        self._compacting: asyncio.Task[None] | None = None
        self._unlearned = asyncio.Event()
        self._files = FileReader()

    def open(self, worker: Worker, queue: int) -> None:
        """Start the queues, each for so many requests."""
        run = worker.run
        self.queue = Batcher(
            functools.partial(run, Lane.CHANGE), max_size=requests.CANDIDATES, queue=queue
        )
        self.feedback_queue = Batcher(functools.partial(run, Lane.FEEDBACK), queue=queue)
        if self.store is not None and self.store.log().is_shared:
            self._sharing = Sharing(self.feedback_queue, self.background)
            self.recent.observe = self._sharing.add
        self.background.start("learning", self._learn)
        self.background.start("tidying", self._tidy)

    async def close(self) -> None:
        """Finish what waits."""
        self.background.stop("tidying")
        if self._sharing is not None:
            await self._sharing.close()
        await self.feedback_queue.close()
        self.background.stop("learning")
        await self.queue.close()

    async def add(self, body: requests.CandidatesRequest) -> Any:
        """Add candidates.

        They are on the disk when this answers, and found by every later request.
        """
        new = [
            Candidate(candidate)
            if isinstance(candidate, str)
            else Candidate(
                candidate.text,
                candidate.payload,
                candidate.title,
                tuple(map(tuple, read_contexts(conversations(candidate.examples)))),
            )
            for candidate in body.candidates
        ]
        result = await self._add(edits.add, new, ticket("add", body))
        return json_answer({"positions": result["positions"]}, 201)

    async def import_file(self, body: ImportRequest) -> Any:
        """Add the replies of a file, in any form that `rejoinder index build` reads.

        Those whose texts the index has already are left out. A file has at most 3,000 replies,
        5,000 replies and examples, and 2,000,000 letters. It is read in a process of its own, in 10
        seconds at most.
        """
        new, notes = await self._files.read(body.name, body.content)
        result = await self._add(edits.add_new, new, ticket("import", body))
        positions = result["positions"]
        answer = {"positions": positions, "known": len(new) - len(positions), "notes": notes}
        return json_answer(answer, 201)

    async def edit(self, body: EditRequest) -> Any:
        """Edit, merge, move or undo; the change is in the log and can be undone."""
        item = _edit(body)
        own = ticket("edit", body)
        change = await self._change(edits.edit, item, own)
        if isinstance(change, dict):  # of a process that has ended
            change = await asyncio.to_thread(edits.change_of, self.store, change)
        return json_answer(_change(change))

    async def changes(self, limit: requests.PageSize = 50) -> Any:
        """List the latest changes of replies, newest first."""
        latest = await self.feedback_queue.submit(Job(edits.latest, limit))
        return json_answer({"changes": [_change(change) for change in latest]})

    async def add_examples(self, body: requests.ExamplesRequest) -> Any:
        """Add conversations that a candidate answers.

        They count in every later request.
        """
        examples = conversations(body.examples)
        read_contexts(examples)  # here, so that no other request fails by one conversation
        item = body.position, examples
        own = ticket("examples", body)
        try:
            result = await self._change(edits.add_examples, item, own)
        except NotFoundError as error:
            return error_answer(404, self._sources.hide_stores(str(error)), "position")
        return json_answer({"added": result["added"]})

    async def feedback(self, body: FeedbackRequest) -> Any:
        """Write to the log which of the replies that were offered was taken.

        The entry is on the disk when this answers.
        """
        values = body.model_dump(exclude_unset=True, include={"chosen", "text", "source"})
        index = "first"
        if body.answer is not None and body.messages is None and not body.offered:
            answer = self.recent.get(body.answer)
            if answer is None and self._sharing is not None:
                answer = await self._sharing.find(body.answer)
            if answer is None:
                return error_answer(
                    404,
                    f"no answer {body.answer[:60]!r} here: it is too old, or of another server;"
                    " send messages and offered instead",
                    "answer",
                )
            index = answer.source
            values |= {"messages": answer.messages, "offered": answer.positions}
            values["texts"] = answer.texts
        elif body.answer is None and body.messages is not None:
            messages = conversations([body.messages])
            read_contexts(messages)  # here, so that no batch fails by one conversation
            values |= {"messages": messages[0], "offered": body.offered}
        else:
            raise InputError("give answer, or messages and offered")
        own = ticket("feedback", body)
        job = Job(edits.feedback, edits.Asked((index, Outcome(**values)), own))
        store = self.store if index == "first" else self.second
        result = await self._carry_out(self.feedback_queue, job, store)
        if result.pop("at_once", False):
            self._unlearned.set()
        return json_answer(result)

    async def delete(self, position: requests.Position) -> Any:
        """Delete a candidate; the positions of the others stay as they are."""
        own = ticket("delete", position)
        await self._change(edits.delete, position, own)
        return json_answer({"deleted": 1})

    async def _add(self, work: Work, new: Sequence[Candidate], own: Ticket) -> dict[str, Any]:
        job = Job(work, edits.Asked(new, own), size=len(new))
        result: dict[str, Any] = await self._carry_out(self.queue, job, self.store)
        self._compact_if(result.get("is_fragmented", False))
        return result

    async def _change(self, work: Work, item: Any, own: Ticket) -> Any:
        return await self._carry_out(self.queue, Job(work, edits.Asked(item, own)), self.store)

    async def _carry_out(self, queue: Batcher, job: Job, store: Store | None) -> Any:
        """Return the result of a job that changes something, once it is known what it has changed.

        If the computing process ends meanwhile, the log says so: the result is an `edits.Result`
        without flags then.
        """
        try:
            return await queue.submit(job, finish=True)
        except EndedError:
            assert store is not None
            result = await asyncio.to_thread(edits.find_result, store, job.item.ticket)
            if result is None:
                raise
            return result

    async def _learn(self) -> None:
        """Learn from feedback that has come, and then pause for as long as that took."""
        while await self._unlearned.wait():
            self._unlearned.clear()
            start = time.monotonic()
            try:
                await self.queue.submit(Job(edits.learn, None))
            except (OverloadedError, BusyError):
                self._unlearned.set()
            except BaseException:
                self._unlearned.set()  # for the next attempt
                raise
            await asyncio.sleep(max(LEARNING_PAUSE, time.monotonic() - start))

    async def _tidy(self) -> None:
        """Delete old entries of the logs every hour, even if no feedback comes."""
        while True:
            with contextlib.suppress(OverloadedError, BusyError, DeniedError):
                await self.feedback_queue.submit(Job(edits.tidy, None))
            await asyncio.sleep(TIDYING_PAUSE)

    def _compact_if(self, is_fragmented: bool) -> None:
        if is_fragmented and (self._compacting is None or self._compacting.done()):
            self._compacting = asyncio.get_running_loop().create_task(self._compact())

    async def _compact(self) -> None:
        """Compact the index after the change that made it worth while."""
        try:
            await self.queue.submit(Job(edits.compact, None))
        except (OverloadedError, BusyError):
            return  # the next addition asks for it again
        except FAILURES as error:
            logger.warning("the index was not compacted", extra={"fields": {"reason": str(error)}})


def ticket(kind: str, asked: BaseModel | int) -> Ticket:
    """Return the ticket of the current request: by its Idempotency-Key, or one of its own.

    Raises:
        InputError: the key is too long, or no printable ASCII.
    """
    key = CURRENT.get().idempotency_key
    if key is None:
        return Ticket(os.urandom(16).hex(), "")
    if not 0 < len(key) <= LONGEST_KEY or not all(32 < byte < 127 for byte in key):
        raise InputError(
            f"an Idempotency-Key has 1 to {LONGEST_KEY} printable ASCII characters without blanks"
        )
    content = str(asked) if isinstance(asked, int) else asked.model_dump_json()
    digest = hashlib.blake2b(f"{kind} {content}".encode(errors="replace"), digest_size=16)
    return Ticket(hashlib.blake2b(key, digest_size=16).hexdigest(), digest.hexdigest())


def conversations(examples: Sequence[str | Sequence[Any]]) -> list[list[Any]]:
    """Return examples as conversations; a text is one of one message."""
    return [
        [example]
        if isinstance(example, str)
        else [
            message.model_dump(exclude_unset=True)
            if isinstance(message, requests.BodyMessage)
            else message
            for message in example
        ]
        for example in examples
    ]


def _edit(body: EditRequest) -> edits.Edit:
    """Return what an `Editor` is to do."""
    if body.replace is not None:
        values = body.replace.model_dump(exclude_unset=True)
        if body.replace.examples is not None:
            values["examples"] = _contexts(body.replace.examples)
        return edits.Edit(Editor.edit, values)
    if body.merge is not None:
        return edits.Edit(Editor.merge, body.merge.model_dump())
    if body.move is not None:
        [example] = _contexts([body.move.example])
        return edits.Edit(Editor.move, {**body.move.model_dump(), "example": example})
    return edits.Edit(Editor.undo, {"number": body.undo})


def _contexts(examples: Sequence[str | Sequence[Any]]) -> tuple[tuple[str, ...], ...]:
    return tuple(map(tuple, read_contexts(conversations(examples))))


def _change(change: Change) -> dict[str, Any]:
    """Return a change as JSON types: each reply before and after it."""
    replies = []
    for position, before in change.before.items():
        after = change.after[position]
        replies.append({"position": position, "before": before, "after": after})
    return {
        "change": change.id,
        "time": change.time,
        "kind": change.kind,
        "undone": change.undone,
        "replies": replies,
    }
