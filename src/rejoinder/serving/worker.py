"""Queue, batches, and the process that computes them.

A request's job waits in a queue on the event loop, which needs no lock. One thread takes what waits
as a batch. Nothing waits for company while that thread is idle, unless the batch before had several
jobs: then a few milliseconds let the clients come back that were answered together. Batches are
computed in a process of their own, so that the event loop is not blocked by the GIL.
"""

from __future__ import annotations

import asyncio
import gc
import logging.config
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from rejoinder.curation.log_file import LogError
from rejoinder.errors import BusyError, InputError, RejoinderError
from rejoinder.memory import keep_memory
from rejoinder.serving.answers import Answers, Sources, UnavailableError
from rejoinder.serving.guard import LOGGING, logger, places

PAUSE = 0.002  # seconds that a batch after a batch of several waits for more
RESTART = 1.0  # seconds until a computing process is started again
ENDED = "the process that computes has ended, and another one is started; try again in a second"
NEVER_SPLIT = (BusyError, LogError, UnavailableError, OSError)  # errors that each job would get
Work: TypeAlias = Callable[[Answers, list[Any]], Sequence[Any]]


class OverloadedError(RejoinderError):
    """There is no room in the queue."""


class EndedError(UnavailableError):
    """The computing process has ended before it has answered: it may have done what it was told."""


class Job(NamedTuple):
    """A method of `Answers` and the item of one request for it.

    It costs about as much as `size` texts. The method gets the items of all jobs of a batch that
    have the same method.
    """

    work: Work
    item: Any
    size: int = 1


class Lane(Enum):
    """A queue with a thread of its own.

    What two lanes compute may run at once, two batches of one lane never do.
    """

    SEARCH = "search"
    CHANGE = "change"
    INFO = "info"
    REPORT = "report"
    FEEDBACK = "feedback"


class Worker(Protocol):
    """Computes batches of jobs."""

    def open(self) -> None:
        """Open index and models, beside those that go on answering until the new ones are there."""

    def run(self, lane: Lane, jobs: Sequence[Job]) -> Sequence[Any]:
        """Return of each job its result or its exception."""


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


class Computing:
    """A worker in this process."""

    def __init__(self, sources: Sources, answers: Answers | None = None) -> None:
        self.sources = sources
        self._answers = answers

    @property
    def answers(self) -> Answers:
        """Return what is open."""
        assert self._answers is not None
        return self._answers

    def open(self) -> None:
        """See `Worker`."""
        self._answers = self.sources.open()
        gc.unfreeze()  # what was frozen the last time, and has just been replaced, goes
        gc.collect()
        gc.freeze()  # models stay: looking through them for garbage would hold requests up

    def run(self, lane: Lane, jobs: Sequence[Job]) -> list[Any]:
        """See `Worker`."""
        if lane is Lane.SEARCH:  # where no other search runs meanwhile
            self.answers.refresh()
        results = self._dispatch(jobs)
        for result in results:
            # its traceback would hold on to files until garbage is collected
            if isinstance(result, Exception):
                result.__cause__ = None
                result.__context__ = None
                result.__traceback__ = None
        return results

    def _dispatch(self, jobs: Sequence[Job]) -> list[Any]:
        results: list[Any] = [None] * len(jobs)
        groups: dict[Work, list[int]] = {}
        for number, job in enumerate(jobs):
            groups.setdefault(job.work, []).append(number)
        for work, numbers in groups.items():
            items = [jobs[number].item for number in numbers]
            outcomes = _run_batch_or_split(partial(work, self.answers), items)
            for number, outcome in zip(numbers, outcomes, strict=True):
                results[number] = outcome
        return results


def _run_batch_or_split(
    work: Callable[[list[Any]], Sequence[Any]], items: list[Any]
) -> Sequence[Any]:
    """Do the work for all items at once.

    If that fails, do it one by one, so that only the culprit fails.
    """
    try:
        return work(items)
    except Exception as error:  # noqa: BLE001 (whoever submitted the job raises it)
        if len(items) > 1 and not isinstance(error, NEVER_SPLIT):
            return [result for item in items for result in _run_batch_or_split(work, [item])]
        error.__notes__ = places(error)  # the traceback does not go to another process
        return [error] * len(items)


class ComputingProcess:
    """A worker in a process of its own, with a pipe and a thread for each lane.

    It ends when this process does. If it ends by itself, for want of memory or since a mapped file
    was truncated, another one is started, and again every second until one has opened everything;
    if that happens before anything was open, this process ends too.
    """

    _closing = False
    _was_open = False

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._lock = threading.Lock()
        self._start(reopen=False)
        threading.Thread(target=self._watch, daemon=True).start()

    def _start(self, *, reopen: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: dict[Lane, Connection] = {}
        child_ends: dict[Lane, Connection] = {}
        for lane in Lane:
            self._pipes[lane], child_ends[lane] = context.Pipe()
        self._open_pipe, open_end = context.Pipe()
        arguments = (self._sources, child_ends, open_end, reopen)
        self._process = context.Process(target=_serve, args=arguments, name="rejoinder computing")
        self._process.start()
        for pipe in (*child_ends.values(), open_end):
            pipe.close()  # so that the child's end is noticed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closing = True
        for pipe in (*self._pipes.values(), self._open_pipe):
            pipe.close()
        self._process.join()

    def open(self) -> None:
        """See `Worker`."""
        _send_and_receive(self._open_pipe, [])
        self._was_open = True

    def run(self, lane: Lane, jobs: Sequence[Job]) -> list[Any]:
        """See `Worker`. If jobs cannot be sent together, they are sent one by one."""
        try:
            return _send_and_receive(self._pipes[lane], jobs)
        except _UnsendableError as error:
            if len(jobs) == 1:
                return [RuntimeError(str(error))]
            return [self._run_alone(lane, job) for job in jobs]

    def _run_alone(self, lane: Lane, job: Job) -> Any:
        try:
            return self.run(lane, [job])[0]
        except Exception as error:  # noqa: BLE001 (whoever submitted the job raises it)
            return error

    def _watch(self) -> None:
        while True:
            wait([self._process.sentinel])
            self._process.join()
            with self._lock:
                if self._closing:
                    return
                fields = {"code": self._process.exitcode}
                if not self._was_open:
                    logger.critical(
                        "the computing process has ended, and the server with it",
                        extra={"fields": fields},
                    )
                    os._exit(1)
                logger.critical(
                    "the computing process has ended; another one is started",
                    extra={"fields": fields},
                )
                time.sleep(RESTART)
                self._start(reopen=True)


class _UnsendableError(Exception):
    """Jobs cannot be pickled; nothing was sent."""


def _send_and_receive(pipe: Connection, jobs: Sequence[Job]) -> list[Any]:
    try:
        pipe.send(jobs)
    except OSError:
        raise EndedError(ENDED) from None
    except Exception as error:  # noqa: BLE001 (pickle raises many kinds)
        raise _UnsendableError(f"no process can be sent this: {type(error).__name__}") from None
    try:
        results: list[Any] | Exception = pipe.recv()
    except (EOFError, OSError):
        raise EndedError(ENDED) from None
    if isinstance(results, Exception):
        raise results
    return results


def _serve(
    sources: Sources, pipes: dict[Lane, Connection], open_pipe: Connection, reopen: bool
) -> None:
    # meant for the server, which finishes what it has accepted
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    keep_memory()
    logging.config.dictConfig(LOGGING)
    computing = Computing(sources)

    def open_all(_: Sequence[Job]) -> list[Any]:
        computing.open()
        return []

    if reopen:
        try:
            computing.open()
        except (InputError, OSError) as error:
            logger.error(
                "index and models cannot be opened again", extra={"fields": {"reason": str(error)}}
            )
            sys.exit(1)
    threading.Thread(target=_answer, args=(open_all, open_pipe), daemon=True).start()
    for lane, pipe in pipes.items():
        if lane is not Lane.CHANGE:
            threading.Thread(
                target=_answer, args=(partial(computing.run, lane), pipe), daemon=True
            ).start()
    # here, so that a change is finished at the end
    _answer(partial(computing.run, Lane.CHANGE), pipes[Lane.CHANGE])


def _answer(work: Callable[[Sequence[Job]], list[Any]], pipe: Connection) -> None:
    """Answer what comes through a pipe until its other end is closed."""
    while True:
        try:
            jobs = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            results: list[Any] | Exception = work(jobs)
        except Exception as error:  # noqa: BLE001 (the other end raises it)
            results = error
        try:
            pipe.send(results)
        except OSError:  # the other end is closed
            return
        except Exception as error:  # noqa: BLE001 (pickle raises many kinds; the other end waits for an answer)
            unsendable = RuntimeError(f"no process can send this: {error}")
            pipe.send(
                [_sendable(result) for result in results]
                if isinstance(results, list)
                else unsendable
            )


def _sendable(result: Any) -> Any:
    """Return a result of a job, or in its place an error, if no process can send it."""
    try:
        ForkingPickler.dumps(result)
    except Exception as error:  # noqa: BLE001 (pickle raises many kinds)
        return RuntimeError(f"no process can send this: {error}")
    return result
