"""Answers that feedback may name: this server's own and, over a database, those of all servers."""

from __future__ import annotations

import asyncio

from rejoinder.curation.shared_answers import RecentAnswer
from rejoinder.errors import BusyError, InputError
from rejoinder.serving import edits
from rejoinder.serving.background import Background
from rejoinder.serving.guard import logger
from rejoinder.serving.recent_answers import RecentAnswers, is_answer_id
from rejoinder.serving.worker.batcher import Batcher
from rejoinder.serving.worker.jobs import Job, OverloadedError
from rejoinder.stores.log_database import LogError

SHARING_PAUSE = 0.05  # seconds, in which answers gather
MOST_UNSHARED = 10_000  # answers that wait while the database is away; the oldest make room
TRIES = 3  # for an answer that another server has given just now
_SHARING = "sharing answers"


class Answered:
    """The latest answers by their ids.

    Args:
        recent: those of this server.
        is_shared: whether other servers find them, too.
    """

    def __init__(self, recent: RecentAnswers, *, is_shared: bool) -> None:
        self._recent = recent
        self._is_shared = is_shared
        self._unshared: dict[str, RecentAnswer] = {}
        self._has_unshared = asyncio.Event()

    def open(self, queue: Batcher, background: Background) -> None:
        """Begin to share answers by jobs in a queue."""
        self._queue = queue
        self._background = background
        if self._is_shared:
            background.start(_SHARING, self._share)

    async def close(self) -> None:
        """Share what was answered last."""
        if self._is_shared:
            self._background.stop(_SHARING)
            await self._share_now()

    def add(self, answer: RecentAnswer) -> str:
        """Keep an answer for a while; return its id."""
        name = self._recent.add(answer)
        if self._is_shared:
            self._keep_unshared({name: answer})
        return name

    async def find(self, name: str) -> RecentAnswer | None:
        """Return an answer by its id; None: there is none, or it was too long ago."""
        found = self._recent.get(name)
        if found is not None or not self._is_shared or not is_answer_id(name):
            return found
        for _ in range(TRIES):
            found = await self._queue.submit(Job(edits.find_shared, name))
            if found is not None:
                break
            await asyncio.sleep(2 * SHARING_PAUSE)
        return found

    def _keep_unshared(self, answers: dict[str, RecentAnswer]) -> None:
        self._unshared |= answers
        while len(self._unshared) > MOST_UNSHARED:
            del self._unshared[next(iter(self._unshared))]
        self._has_unshared.set()

    async def _share(self) -> None:
        while await self._has_unshared.wait():
            await asyncio.sleep(SHARING_PAUSE)
            await self._share_now()

    async def _share_now(self) -> None:
        """Share what waits; it goes on waiting if the database cannot be reached."""
        self._has_unshared.clear()
        answers = self._unshared
        self._unshared = {}
        if not answers:
            return
        try:
            await self._queue.submit(Job(edits.share, answers))
        except (OverloadedError, BusyError):
            self._keep_unshared(answers)
        except InputError as error:
            if isinstance(error, LogError):
                raise
            self._is_shared = False  # a role that only reads; it can log no feedback either
            fields = {"reason": str(error)}
            logger.warning("answers are known to this server alone", extra={"fields": fields})
        except BaseException:
            self._keep_unshared(answers)
            raise
