"""Engines, which run tasks: in this process, in several of this machine, or on a cluster.

A task may run anywhere, at any time, and again after a failure: its files follow from its input
alone. The engine of a cluster is `cluster.RayEngine`.
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
from rejoinder.interrupts import interrupts_blocked
from rejoinder.memory import keep_memory

T = TypeVar("T")
R = TypeVar("R")
TaskAnswer: TypeAlias = tuple[BaseException | None, Any]
"""The exception of a task, or None; its result."""

# Input that takes clearly longer than starting a process in every stage.
_BYTES_PER_PROCESS = 64 * 1024 * 1024
_AT_ONCE = 2  # tasks of a worker: one runs, one waits
_MAX_WAITING = 64  # results per worker that wait for an earlier task to end
_LOOK_SECONDS = 0.5  # between two calls of `on_wait`


class WorkerDiedError(RejoinderError):
    """A worker process exited without reporting an error."""


class Engine(Protocol):
    """Runs tasks."""

    @property
    def processes(self) -> int | None:
        """Number of processes on this machine; None: on others too, which read their own input."""

    def map(
        self,
        work: Callable[[T], R],
        tasks: Iterable[T],
        on_wait: Callable[[], object] | None = None,
    ) -> Generator[R]:
        """Run `work`, a function of a module or a partial, on each task; yield results in order.

        Tasks may be lazy and large: only a few are taken ahead. `on_wait` is called twice a second
        while all results are awaited from other processes. An exception of a task is raised here.
        All other tasks have ended when it is raised, when the iterator is closed, and when the
        caller is interrupted.
        """


class LocalEngine:
    """Runs tasks in this process or in worker processes. A context manager, which ends these."""

    def __init__(self, processes: int = 1) -> None:
        self.processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self._parent_pipe: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def map(
        self,
        work: Callable[[T], R],
        tasks: Iterable[T],
        on_wait: Callable[[], object] | None = None,
    ) -> Generator[R]:
        """See `Engine.map`."""
        if self.processes == 1:
            yield from map(work, tasks)
            return
        pool = self._start()

        def submit(task: T) -> Future[TaskAnswer]:
            with interrupts_blocked():  # starts a worker, which would report it while it imports
                return pool.submit(attempt, work, task)

        try:
            yield from in_order(submit, tasks, lambda: self.processes, on_wait)
        except BrokenExecutor:
            self.close()
            raise WorkerDiedError(
                "a worker process was killed or ended by itself;"
                " if memory ran out, give fewer --processes"
            ) from None
        except BaseException:
            self.close()
            raise

    def _start(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # safe whatever threads this process has
            child_end, self._parent_pipe = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(self.processes, context, _begin_worker, (child_end,))
        return self._pool

    def close(self) -> None:
        """End the workers at once: their files are whole or absent."""
        if self._pool is not None and self._parent_pipe is not None:
            self._parent_pipe.close()
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def _begin_worker(child_end: Connection) -> None:
    """Prepare a worker, which exits when its parent closes the pipe or is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent ends its workers
    if keep_memory():  # the next task needs as much again
        # Arrow's own allocator would release it.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

    def exit_with_parent() -> None:
        with suppress(EOFError, OSError):
            child_end.recv()
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


def in_order(
    submit: Callable[[T], Future[TaskAnswer]],
    tasks: Iterable[T],
    workers: Callable[[], int],
    on_wait: Callable[[], object] | None = None,
) -> Generator[Any]:
    """Yield the results of tasks in their order, or raise the exception of the first that fails.

    `submit` starts `attempt` on a task; `workers()` is the number of workers at the moment.
    """
    remaining = iter(tasks)
    due: deque[Future[TaskAnswer]] = deque()
    running: set[Future[TaskAnswer]] = set()
    while True:
        room = min(
            _AT_ONCE * workers() - len(running),
            _MAX_WAITING * workers() - len(due),
        )
        for task in itertools.islice(remaining, max(0, room)):
            due.append(submit(task))
            running.add(due[-1])
        if not due:
            return
        timeout = None if on_wait is None else _LOOK_SECONDS
        done, running = wait(running, timeout, return_when=FIRST_COMPLETED)
        if on_wait is not None and not done:
            on_wait()
        for future in done:
            error, _ = future.result()
            if error is not None:
                raise error
        while due and due[0] not in running:
            yield due.popleft().result()[1]


def attempt(work: Callable[[T], R], task: T) -> TaskAnswer:
    """Run a task; return its exception instead of raising it.

    An exception that cannot be pickled becomes a RuntimeError with the same text.
    """
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
    """Return an engine for an input of `size` bytes.

    `processes` None: one for each core, fewer for small inputs.
    """
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return LocalEngine(processes or max(1, min(cores, size // _BYTES_PER_PROCESS)))
