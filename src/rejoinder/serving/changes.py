"""Endpoints that change the index or write to its log."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

from rejoinder.conversations import read_contexts
from rejoinder.corpora.example import Candidate
from rejoinder.errors import BusyError, InputError
from rejoinder.retrieval.feedback import Outcome
from rejoinder.serving import schema
from rejoinder.serving.answers import Answers, UnavailableError
from rejoinder.serving.guard import logger
from rejoinder.serving.recent import RecentAnswers
from rejoinder.serving.responses import error_answer, json_answer
from rejoinder.serving.worker import Batcher, Job, Lane, OverloadedError, Worker

LEARNING_PAUSE = 2.0  # seconds at least, in which feedback gathers
FAILURES = (OverloadedError, UnavailableError, BusyError, InputError, OSError)


class Changes:
    """The endpoints that want a write key, and what the server changes after them by itself.

    Args:
        recent: answers that feedback may name.
        anonymous: returns an error's message without the index's path.
    """

    queue: Batcher
    feedback_queue: Batcher

    def __init__(self, recent: RecentAnswers, anonymous: Callable[[object], str]) -> None:
        self.recent = recent
        self.anonymous = anonymous
        self._compacting: asyncio.Task[None] | None = None
        self._unlearned = asyncio.Event()

    def open(self, worker: Worker, queue: int) -> None:
        """Start the queues, each for so many requests."""
        run = worker.run
        self.queue = Batcher(
            functools.partial(run, Lane.CHANGE), max_size=schema.CANDIDATES, queue=queue
        )
        self.feedback_queue = Batcher(functools.partial(run, Lane.FEEDBACK), queue=queue)
        self._learning = asyncio.get_running_loop().create_task(self._learn())

    async def close(self) -> None:
        """Finish what waits."""
        await self.feedback_queue.close()
        self._learning.cancel()
        await self.queue.close()

    async def add(self, body: schema.CandidatesRequest) -> Any:
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
        positions, is_fragmented = await self.queue.submit(Job(Answers.add, new, size=len(new)))
        if is_fragmented and (self._compacting is None or self._compacting.done()):
            self._compacting = asyncio.get_running_loop().create_task(self._compact())
        return json_answer({"positions": positions}, 201)

    async def add_examples(self, body: schema.ExamplesRequest) -> Any:
        """Add conversations that a candidate answers.

        They count in every later request.
        """
        examples = conversations(body.examples)
        read_contexts(examples)  # here, so that no other request fails by one conversation
        try:
            count = await self.queue.submit(Job(Answers.add_examples, (body.position, examples)))
        except BusyError:
            raise
        except InputError as error:
            return error_answer(404, self.anonymous(error), "position")
        return json_answer({"added": count})

    async def feedback(self, body: schema.FeedbackRequest) -> Any:
        """Write to the log which of the replies that were offered was taken.

        The entry is on the disk when this answers.
        """
        values = body.model_dump(exclude_unset=True, include={"chosen", "text", "source"})
        index = "first"
        if body.answer is not None and body.messages is None and not body.offered:
            answer = self.recent.get(body.answer)
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
        try:
            job = Job(Answers.feedback, (index, Outcome(**values)))
            recorded, at_once = await self.feedback_queue.submit(job)
        except BusyError:
            raise
        except InputError as error:
            return error_answer(404, self.anonymous(error))
        if at_once:
            self._unlearned.set()
        return json_answer(recorded)

    async def delete(self, position: schema.Position) -> Any:
        """Delete a candidate; the positions of the others stay as they are."""
        try:
            count = await self.queue.submit(Job(Answers.delete, position))
        except BusyError:
            raise
        except InputError as error:
            return error_answer(404, self.anonymous(error))
        return json_answer({"deleted": count})

    async def _learn(self) -> None:
        """Learn from feedback that has come, and then pause for as long as that took."""
        while await self._unlearned.wait():
            self._unlearned.clear()
            start = time.monotonic()
            try:
                await self.queue.submit(Job(Answers.learn, None))
            except (OverloadedError, BusyError):
                self._unlearned.set()
            except FAILURES as error:
                fields = {"reason": str(error)}
                logger.warning("nothing was learned from feedback", extra={"fields": fields})
            await asyncio.sleep(max(LEARNING_PAUSE, time.monotonic() - start))

    async def _compact(self) -> None:
        """Compact the index after the change that made it worth while."""
        try:
            await self.queue.submit(Job(Answers.compact, None))
        except (OverloadedError, BusyError):
            return  # the next addition asks for it again
        except FAILURES as error:
            logger.warning("the index was not compacted", extra={"fields": {"reason": str(error)}})


def conversations(examples: Sequence[str | Sequence[Any]]) -> list[list[Any]]:
    """Return examples as conversations; a text is one of one message."""
    return [
        [example]
        if isinstance(example, str)
        else [
            message.model_dump(exclude_unset=True)
            if isinstance(message, schema.Message)
            else message
            for message in example
        ]
        for example in examples
    ]
