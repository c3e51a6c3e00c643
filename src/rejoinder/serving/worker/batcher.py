"""A queue whose jobs are computed in batches.

A job waits in a queue on the event loop, which needs no lock. One thread takes what waits as a
batch, at once. Only after a batch of several jobs it waits 2 ms before it takes the next one, so
that the next requests of those clients share it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rejoinder.serving.worker.jobs import Job, OverloadedError

PAUSE = 0.002  # seconds that a batch after a batch of several waits for more


@dataclass(eq=False)
class _Waiting:
    job: Job
    result: asyncio.Future[Any]


class Batcher:
    """Computes jobs in batches on a thread of its own.

    Args:
        compute: returns of each job of a batch the result, or the exception that its `submit`
            raises; on the thread.
        max_size: of a batch; a single job may be larger.
        queue: jobs that may wait; one more is refused.
        observe: is called after each batch with its jobs, its seconds, and how many jobs wait
            behind it.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[Job]], Sequence[Any]],
        *,
        max_size: int = 64,
        queue: int = 64,
        observe: Callable[[int, float, int], object] = lambda *_: None,
    ) -> None:
        self._compute = compute
        self._max_size = max_size
        self._queue = queue
        self._observe = observe
        self._waiting: dict[_Waiting, None] = {}  # in the order in which they came
        self._arrival = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="computing")
        self._task = asyncio.get_running_loop().create_task(self._work())

    def __len__(self) -> int:
        """Return how many jobs wait."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Return whether the next job would be refused."""
        return len(self._waiting) >= self._queue

    async def submit(self, job: Job, *, finish: bool = False) -> Any:
        """Return the result of a job; who is cancelled while it waits takes it out of the queue.

        With `finish`, who is cancelled while it is computed gets the result all the same: what it
        changes is changed, and must not be told as refused.

        Raises:
            OverloadedError: the queue is full.
        """
        if self.full:
            raise OverloadedError(
                "the server has as many requests waiting as it allows; try again in a second"
            )
        waiting = _Waiting(job, asyncio.get_running_loop().create_future())
        self._waiting[waiting] = None
        self._arrival.set()
        try:
            while True:
                try:
                    return await (asyncio.shield(waiting.result) if finish else waiting.result)
                except asyncio.CancelledError:
                    if not finish or waiting in self._waiting:
                        raise
        finally:
            self._waiting.pop(waiting, None)

    async def close(self) -> None:
        """Finish what waits, then stop the thread."""
        while self._waiting or self._arrival.is_set():
            await asyncio.sleep(PAUSE)
        self._task.cancel()
        self._thread.shutdown()

    async def _work(self) -> None:
        """Compute what waits, batch after batch."""
        loop = asyncio.get_running_loop()
        after_several = False
        while await self._arrival.wait():
            if after_several and len(self._waiting) < self._max_size:
                await asyncio.sleep(PAUSE)
            if not (batch := self._take()):
                self._arrival.clear()
                continue
            jobs = [waiting.job for waiting in batch]
            start = time.perf_counter()
            try:
                results = await loop.run_in_executor(self._thread, self._compute, jobs)
            except Exception as error:  # noqa: BLE001 (whoever submitted them raises it)
                results = [error] * len(batch)
            self._observe(len(batch), time.perf_counter() - start, len(self._waiting))
            for waiting, result in zip(batch, results, strict=True):
                if waiting.result.done():  # cancelled
                    continue
                if isinstance(result, Exception):
                    waiting.result.set_exception(result)
                else:
                    waiting.result.set_result(result)
            after_several = len(batch) > 1

    def _take(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        for waiting in self._waiting:
            if batch and size + waiting.job.size > self._max_size:
                break
            batch.append(waiting)
            size += waiting.job.size
        for waiting in batch:
            del self._waiting[waiting]
        return batch
