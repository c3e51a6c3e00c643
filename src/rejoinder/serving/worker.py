"""A queue before the one thread that computes: what waits is computed together.

All of it lives on the event loop and needs no lock. Nothing waits for company while the thread is idle, unless the
batch before had several jobs: then a few milliseconds let the clients come back that were answered together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from rejoinder.errors import RejoinderError

PAUSE = 0.002  # seconds that a batch after a batch of several waits for more


class OverloadedError(RejoinderError):
    """There is no room in the queue."""


class UnavailableError(RejoinderError):
    """The server cannot do this now, and the request is not the reason."""


class Job(NamedTuple):
    """Something to compute: its kind says how, and it costs about as much as `size` texts."""

    kind: str
    item: Any
    size: int = 1


@dataclass(eq=False)
class _Waiting:
    job: Job
    result: asyncio.Future[Any]


class Batcher:
    """Computes jobs in batches on a thread of its own.

    Args:
        compute: gets jobs and gives of each the result, or the exception that its `submit` raises; on the thread.
        most: size of a batch at most; a single job may be larger.
        queue: jobs that may wait; one more is refused.
        observe: is told of each batch its jobs, its seconds, and how many jobs wait behind it.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[Job]], Sequence[Any]],
        *,
        most: int = 64,
        queue: int = 64,
        observe: Callable[[int, float, int], object] = lambda *_: None,
    ) -> None:
        self._compute, self._most, self._queue, self._observe = compute, most, queue, observe
        self._waiting: dict[_Waiting, None] = {}  # in the order in which they came
        self._arrival = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="computing")
        self._task = asyncio.get_running_loop().create_task(self._work())

    def __len__(self) -> int:
        """Jobs that wait."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether the next job would be refused."""
        return len(self._waiting) >= self._queue

    async def submit(self, job: Job) -> Any:
        """Return the result of a job; who is cancelled while it waits takes it out of the queue.

        Raises:
            OverloadedError: the queue is full.
        """
        if self.full:
            raise OverloadedError("the server has as many requests waiting as it allows; try again in a second")
        waiting = _Waiting(job, asyncio.get_running_loop().create_future())
        self._waiting[waiting] = None
        self._arrival.set()
        try:
            return await waiting.result
        finally:
            self._waiting.pop(waiting, None)

    async def close(self) -> None:
        """Finish what waits, then stop the thread."""
        while self._waiting or self._arrival.is_set():
            await asyncio.sleep(PAUSE)
        self._task.cancel()
        self._thread.shutdown()

    async def _work(self) -> None:
        several, loop = False, asyncio.get_running_loop()
        while await self._arrival.wait():
            if several and len(self._waiting) < self._most:
                await asyncio.sleep(PAUSE)
            if not (batch := self._take()):
                self._arrival.clear()
                continue
            jobs, start = [each.job for each in batch], time.perf_counter()
            try:
                results = await loop.run_in_executor(self._thread, self._compute, jobs)
            except Exception as error:  # noqa: BLE001 (whoever submitted them raises it)
                results = [error] * len(batch)
            self._observe(len(batch), time.perf_counter() - start, len(self._waiting))
            for each, result in zip(batch, results, strict=True):
                if each.result.done():  # cancelled
                    continue
                if isinstance(result, Exception):
                    each.result.set_exception(result)
                else:
                    each.result.set_result(result)
            several = len(batch) > 1

    def _take(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        for waiting in self._waiting:
            if batch and size + waiting.job.size > self._most:
                break
            batch.append(waiting)
            size += waiting.job.size
        for waiting in batch:
            del self._waiting[waiting]
        return batch
