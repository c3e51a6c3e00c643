"""What runs the tasks of a job: this process, several of this machine, or a cluster (`cluster.ray_engine`).

A task may run anywhere, at any time, and again after a failure: what it leaves behind follows from the input alone.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Protocol, Self, TypeAlias, TypeVar

from rejoinder.errors import RejoinderError
from rejoinder.memory import keep_memory

T = TypeVar("T")
R = TypeVar("R")
Answer: TypeAlias = tuple[BaseException | None, Any]  # what a task raised, or None, and its result

_WORTH_A_PROCESS = 64 * 1024 * 1024  # bytes of input that take clearly longer than starting a process in every stage
_AT_ONCE = 2  # tasks that a worker has: one to work on, and one to go on with at once
_WAITING = 64  # most results for each worker that wait for an earlier task to end


class WorkerDiedError(RejoinderError):
    """A worker process ended without a word."""


class Engine(Protocol):
    """Runs tasks."""

    remote: bool  # whether tasks run on other machines too, and should read their input there

    def map(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[R]:
        """Run `work`, a module's function or a partial of one, on each task, and give the results in order.

        Tasks may be lazy and large: only a few are taken ahead. What a task raised is raised; no other task runs any
        more when it arrives, nor when the iterator is closed or the caller is interrupted.
        """


class LocalEngine:
    """Runs tasks in this process or, with several processes, in others of this machine. Ends those as it is left."""

    remote = False

    def __init__(self, processes: int = 1) -> None:
        self.processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self._leash: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def map(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[R]:
        """See `Engine.map`."""
        if self.processes == 1:
            yield from map(work, tasks)
            return
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # safe whatever threads this process has
            there, self._leash = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(self.processes, context, _begin_worker, (there,))
        pool = self._pool
        try:
            yield from in_order(lambda task: pool.submit(attempt, work, task), tasks, lambda: self.processes)
        except BrokenExecutor:
            self.close()
            advice = "if memory ran out, give fewer --processes; finished work is kept"
            raise WorkerDiedError(f"a worker process was killed or ended by itself; {advice}") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes, whatever they do: their files are whole or not there."""
        if self._pool is not None and self._leash is not None:
            self._leash.close()
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def _begin_worker(leash: Connection) -> None:
    """Make a process a worker: it ends as soon as the other end of the pipe is closed, if only by a kill."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one ends the others
    if keep_memory():  # the next task needs as much again
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # Arrow's own allocator would give it back

    def follow() -> None:
        with suppress(EOFError, OSError):
            leash.recv()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def in_order(submit: Callable[[T], Future[Answer]], tasks: Iterable[T], workers: Callable[[], int]) -> Generator[Any]:
    """Give the results of tasks in their order, or raise what the first one to fail raised.

    `submit` begins `attempt` on a task as one of the `workers()` workers gets free.
    """
    rest = iter(tasks)
    due: deque[Future[Answer]] = deque()
    running: set[Future[Answer]] = set()
    while True:
        room = min(_AT_ONCE * workers() - len(running), _WAITING * workers() - len(due))
        for task in itertools.islice(rest, max(0, room)):
            due.append(submit(task))
            running.add(due[-1])
        if not due:
            return
        done, running = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            if (error := future.result()[0]) is not None:
                raise error
        while due and due[0] not in running:
            yield due.popleft().result()[1]


def attempt(work: Callable[[T], R], task: T) -> Answer:
    """Do a task in a worker. An error becomes part of the answer; one that cannot be pickled is described in words."""
    try:
        return None, work(task)
    except BaseException as error:  # noqa: BLE001 (raised where the answers arrive)
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 (just pickled)
        except Exception:  # noqa: BLE001 (whatever a foreign class does when it is copied)
            return RuntimeError(f"{type(error).__name__}: {error}"), None
        return error, None


def local_engine(processes: int | None, size: int) -> LocalEngine:
    """Return the engine for an input of `size` bytes; as many processes as pay off if no number is given."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return LocalEngine(processes or max(1, min(cores, size // _WORTH_A_PROCESS)))
