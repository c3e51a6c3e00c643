"""Endpoints that change the index or write to its log."""

from __future__ import annotations

import asyncio
import base64
import errno
import functools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rejoinder.conversations import read_contexts
from rejoinder.corpora.example import Candidate
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.recognition import distinct, read_candidates
from rejoinder.errors import BusyError, InputError
from rejoinder.files import is_plain
from rejoinder.retrieval.editing import Editor
from rejoinder.retrieval.feedback import Change
from rejoinder.retrieval.learning import Outcome
from rejoinder.serving import edits, forms, schema
from rejoinder.serving.answers import UnavailableError
from rejoinder.serving.guard import logger
from rejoinder.serving.recent import RecentAnswers
from rejoinder.serving.responses import error_answer, json_answer
from rejoinder.serving.worker import Batcher, Job, Lane, OverloadedError, Worker

_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
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
        positions, is_fragmented = await self.queue.submit(Job(edits.add, new, size=len(new)))
        self._compact_if(is_fragmented)
        return json_answer({"positions": positions}, 201)

    async def import_file(self, body: forms.ImportRequest) -> Any:
        """Add the replies of a file, in any form that `rejoinder index build` reads.

        Those whose texts the index has already are left out.
        """
        new, notes = await asyncio.to_thread(_read_file, body.name, body.content)
        job = Job(edits.add_new, new, size=len(new))
        positions, is_fragmented = await self.queue.submit(job)
        self._compact_if(is_fragmented)
        answer = {"positions": positions, "known": len(new) - len(positions), "notes": notes}
        return json_answer(answer, 201)

    async def edit(self, body: forms.EditRequest) -> Any:
        """Edit, merge, move or undo; the change is in the log and can be undone."""
        job = Job(edits.edit, _edit(body))
        try:
            change = await self.queue.submit(job)
        except BusyError:
            raise
        except InputError as error:
            return error_answer(404, self.anonymous(error))
        return json_answer(_change(change))

    async def changes(self, limit: schema.PageSize = 50) -> Any:
        """List the latest changes of replies, newest first."""
        latest = await self.feedback_queue.submit(Job(edits.latest, limit))
        return json_answer({"changes": [_change(each) for each in latest]})

    async def add_examples(self, body: schema.ExamplesRequest) -> Any:
        """Add conversations that a candidate answers.

        They count in every later request.
        """
        examples = conversations(body.examples)
        read_contexts(examples)  # here, so that no other request fails by one conversation
        try:
            count = await self.queue.submit(Job(edits.add_examples, (body.position, examples)))
        except BusyError:
            raise
        except InputError as error:
            return error_answer(404, self.anonymous(error), "position")
        return json_answer({"added": count})

    async def feedback(self, body: forms.FeedbackRequest) -> Any:
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
            job = Job(edits.feedback, (index, Outcome(**values)))
            recorded, at_once = await self.feedback_queue.submit(job)
        except BusyError:
            raise
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            return error_answer(403, "this server may not write the log beside its index")
        except InputError as error:
            return error_answer(404, self.anonymous(error))
        if at_once:
            self._unlearned.set()
        return json_answer(recorded)

    async def delete(self, position: schema.Position) -> Any:
        """Delete a candidate; the positions of the others stay as they are."""
        try:
            count = await self.queue.submit(Job(edits.delete, position))
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
                await self.queue.submit(Job(edits.learn, None))
            except (OverloadedError, BusyError):
                self._unlearned.set()
            except FAILURES as error:
                fields = {"reason": str(error)}
                logger.warning("nothing was learned from feedback", extra={"fields": fields})
            await asyncio.sleep(max(LEARNING_PAUSE, time.monotonic() - start))

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


def _edit(body: forms.EditRequest) -> edits.Edit:
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


def _read_file(name: str, content: str) -> tuple[list[Candidate], list[str]]:
    """Return the distinct replies of a file of that name, in base64, and how it was understood."""
    try:
        raw = base64.b64decode(content, validate=True)
    except ValueError as error:
        raise InputError(f"content is no base64 ({error}); send the file's bytes in it") from None
    suffix = "".join(part for part in Path(name).suffixes[-2:] if is_plain(f"file{part}"))
    reading = Reading()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        path.write_bytes(raw)
        try:
            found = list(distinct(read_candidates(path, None, None, reading)))
        except InputError as error:
            raise InputError(str(error).replace(str(path), name)) from None
        notes = [note.replace(str(path), name) for note in reading.notes]
    if not found:
        raise InputError(f"{name} holds no replies")
    dropped = [f"left out: {count:,} {reason}" for reason, count in reading.dropped.items()]
    return found, [*notes, *dropped]
