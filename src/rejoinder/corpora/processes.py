"""Tasks in several processes: results in order, tasks taken as they are needed, nothing left running.

`concurrent.futures` would take all tasks at once, and after Ctrl-C its workers live until their tasks end.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from rejoinder.errors import RejoinderError

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 2
"""Tasks that a worker has: one to work on, and one to go on with at once."""
_WAITING = 64
"""Most results per process that wait for an earlier task to end."""


class WorkerDiedError(RejoinderError):
    """A worker process ended without a word."""


def map_in_processes(work: Callable[[T], R], tasks: Iterable[T], count: int) -> Generator[R]:
    """Run `work` on each task in up to `count` processes, started for it; see `engine.Engine.map`."""
    numbered = enumerate(tasks)
    results: dict[int, Any] = {}
    due, given = 0, -1
    with _Workers(work, count) as workers:
        while True:
            while given - due < _WAITING * count and (worker := workers.free()) is not None:
                if (task := next(numbered, None)) is None:
                    break
                given = task[0]
                worker.give(*task)
            if not workers.busy():
                return
            results.update(workers.answers())
            while due in results:
                yield results.pop(due)
                due += 1


class _Workers:
    """Some processes, each started when there is a task for it; all are ended with the `with` block."""

    def __init__(self, work: Callable[..., Any], count: int) -> None:
        self._work, self._count = work, count
        self._workers: list[_Worker] = []

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    def free(self) -> _Worker | None:
        """The one with the fewest tasks, if it can take one more."""
        idle = [worker for worker in self._workers if not worker.tasks]
        if not idle and len(self._workers) < self._count:
            self._workers.append(_Worker(self._work))
        least = min(self._workers, key=lambda worker: len(worker.tasks))
        return least if len(least.tasks) < _AT_ONCE else None

    def busy(self) -> bool:
        """Whether a task is not finished."""
        return any(worker.tasks for worker in self._workers)

    def answers(self) -> Iterator[tuple[int, Any]]:
        """Wait for results: numbers of tasks and what they gave, at least one.

        Raises:
            Exception: what a task raised.
            WorkerDiedError: a process is gone.
        """
        by_connection = {worker.connection: worker for worker in self._workers if worker.tasks}
        for connection in wait(list(by_connection)):
            assert isinstance(connection, Connection)
            yield by_connection[connection].answer()


class _Worker:
    """One process, the numbers of its tasks, and the pipe to it."""

    def __init__(self, work: Callable[..., Any]) -> None:
        context = multiprocessing.get_context("spawn")  # safe whatever threads this process has
        self.tasks: deque[int] = deque()
        self.connection, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, work), daemon=True)
        self._process.start()
        there.close()

    def give(self, number: int, task: Any) -> None:
        """Send a task."""
        self.tasks.append(number)
        with self._alive():
            self.connection.send(task)

    def answer(self) -> tuple[int, Any]:
        """The result of the task that it finished."""
        with self._alive():
            error, result = self.connection.recv()
        if error is not None:
            raise error
        return self.tasks.popleft(), result

    def end(self) -> None:
        """End the process, whatever it does: its files are whole or not there."""
        self._process.kill()
        self._process.join()
        self.connection.close()

    @contextlib.contextmanager
    def _alive(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join()
            code = self._process.exitcode or 0
            reason = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            advice = "if memory ran out, give fewer --processes; finished work is kept"
            raise WorkerDiedError(f"a worker process {reason}; {advice}") from None


def _serve(connection: Connection, work: Callable[[Any], Any]) -> None:
    """What a worker does: answer each task with (error, None) or (None, result)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one ends the others
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, tasks), daemon=True).start()
    while True:
        connection.send_bytes(_attempt(work, tasks.get()))


def _receive(connection: Connection, tasks: queue.SimpleQueue[bytes]) -> None:
    """Take tasks off the pipe, so that giving one never waits for another; end with the process that gives them."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            tasks.put(connection.recv_bytes())
    os._exit(1)


def _attempt(work: Callable[[Any], Any], task: bytes) -> bytes:
    try:
        return pickle.dumps((None, work(pickle.loads(task))))  # noqa: S301 (from our own process)
    except BaseException as error:  # noqa: BLE001 (raised where the results arrive)
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        return _portable(error)


def _portable(error: BaseException) -> bytes:
    """The error pickled; one that cannot be is told in words."""
    try:
        data = pickle.dumps((error, None))
        pickle.loads(data)  # noqa: S301 (just pickled)
    except Exception:  # noqa: BLE001 (whatever a foreign class does when it is copied)
        return pickle.dumps((RuntimeError(f"{type(error).__name__}: {error}"), None))
    return data
