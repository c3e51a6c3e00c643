"""Sharing answers with other servers over one database, so that feedback may name them there."""

from __future__ import annotations

import asyncio
import time

from rejoinder.curation.shared_answers import RecentAnswer
from rejoinder.errors import BusyError, InputError
from rejoinder.serving import edits
from rejoinder.serving.background import Background
from rejoinder.serving.http.logs import logger
from rejoinder.serving.recent_answers import is_answer_id
from rejoinder.serving.worker.batcher import Batcher
from rejoinder.serving.worker.jobs import Job, OverloadedError
from rejoinder.stores.log.database import LogError
from rejoinder.stores.store import StaleError, UnreachableError

SHARING_PAUSE = 0.05  # seconds, in which answers gather
MOST_UNSHARED = 10_000  # answers that wait while the database is away; the oldest make room
REFUSED = 60.0  # seconds until sharing is tried again where the database does not let it
TRIES = 3  # for an answer that another server has given just now
_NAME = "sharing answers"


class Sharing:
    """Shares answers by jobs in a queue; no request waits for that.

    Args:
        queue: that of feedback.
        background: what runs beside the requests.
    """

    def __init__(self, queue: Batcher, background: Background) -> None:
        self._queue = queue
        self._background = background
        self._refused_until = 0.0  # of `time.monotonic`
        self._refusal = ""  # why, as the log has it
        self._unshared: dict[str, RecentAnswer] = {}
        self._has_unshared = asyncio.Event()
        background.start(_NAME, self._share)

    async def close(self) -> None:
        """Share what was answered last, if the database can be reached."""
        self._background.stop(_NAME)
        try:
            await self._share_now()
        except (InputError, OSError) as error:
            fields = {"reason": str(error)}
            logger.warning("the last answers were not shared", extra={"fields": fields})

    def add(self, name: str, answer: RecentAnswer) -> None:
        """Share an answer soon, by its id."""
        if not self._is_refused():
            self._keep({name: answer})

    async def find(self, name: str) -> RecentAnswer | None:
        """Return an answer by its id; None: there is none, or it was too long ago."""
        if self._is_refused() or not is_answer_id(name):
            return None
        for _ in range(TRIES):
            answer: RecentAnswer | None = await self._queue.submit(Job(edits.find_shared, name))
            if answer is not None:
                return answer
            await asyncio.sleep(2 * SHARING_PAUSE)
        return None

    def _keep(self, answers: dict[str, RecentAnswer]) -> None:
        self._unshared |= answers
        while len(self._unshared) > MOST_UNSHARED:
            del self._unshared[next(iter(self._unshared))]
        self._has_unshared.set()

    def _is_refused(self) -> bool:
        return time.monotonic() < self._refused_until

    def _refuse(self, reason: str) -> None:
        """Share nothing for a while; say why, unless that was the reason the last time, too."""
        self._refused_until = time.monotonic() + REFUSED
        if reason != self._refusal:
            self._refusal = reason
            fields = {"reason": reason}
            logger.warning("answers are known to this server alone", extra={"fields": fields})

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
            self._keep(answers)
        except InputError as error:
            if isinstance(error, UnreachableError):
                self._keep(answers)
            if isinstance(error, (LogError, StaleError, UnreachableError)):
                raise
            self._refuse(str(error))  # a role that only reads: it can log no feedback either
        except BaseException:
            self._keep(answers)
            raise
