"""Tasks in several processes: results in order, tasks taken as they are needed, nothing left running.

`concurrent.futures` would take all tasks at once, and after Ctrl-C its workers live until their tasks end.
"""

from __future__ import annotations

import contextlib
import functools
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
from rejoinder.memory import keep_memory

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 2
"""Tasks that a worker has: one to work on, and one to go on with at once."""
_WAITING = 64
"""Most results per process that wait for an earlier task to end."""
_WORK, _TASK = b"w", b"t"


class WorkerDiedError(RejoinderError):
    """A worker process ended without a word."""


class Processes:
    """Some worker processes, each started when there is a task for it. They stay for the next work until `close`."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._workers: list[_Worker] = []

    def map(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[R]:
        """Run `work` on each task; see `engine.Engine.map`. One such call at a time."""
        data = pickle.dumps(work)
        numbered = enumerate(tasks)
        results: dict[int, R] = {}
        due, given = 0, -1
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)  # unless all goes well
            while True:
                while given - due < _WAITING * self._count and (worker := self._free()) is not None:
                    if (task := next(numbered, None)) is None:
                        break
                    given = task[0]
                    worker.give(data, *task)
                if not any(worker.tasks for worker in self._workers):
                    stack.pop_all()
                    return
                results.update(self._answers())
                while due in results:
                    yield results.pop(due)
                    due += 1

    def close(self) -> None:
        """End the processes, whatever they do: their files are whole or not there."""
        while self._workers:
            self._workers.pop().end()

    def _free(self) -> _Worker | None:
        """The one with the fewest tasks, if it can take one more."""
        if len(self._workers) < self._count and all(worker.tasks for worker in self._workers):
            self._workers.append(_Worker())
        least = min(self._workers, key=lambda worker: len(worker.tasks))
        return least if len(least.tasks) < _AT_ONCE else None

    def _answers(self) -> Iterator[tuple[int, Any]]:
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

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # safe whatever threads this process has
        self.tasks: deque[int] = deque()
        self.connection, there = context.Pipe()
        self._work = b""
        self._process = context.Process(target=_serve, args=(there,), daemon=True)
        self._process.start()
        there.close()

    def give(self, work: bytes, number: int, task: Any) -> None:
        """Send a task, and before it what is to be done with it, if that is new."""
        self.tasks.append(number)
        with self._alive():
            if work != self._work:
                self.connection.send_bytes(_WORK + work)
                self._work = work
            self.connection.send_bytes(_TASK + pickle.dumps(task))

    def answer(self) -> tuple[int, Any]:
        """The result of the task that it finished."""
        with self._alive():
            error, result = self.connection.recv()
        if error is not None:
            raise error
        return self.tasks.popleft(), result

    def end(self) -> None:
        """End the process."""
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


def _serve(connection: Connection) -> None:
    """What a worker does: answer each task with (error, None) or (None, result)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one ends the others
    if keep_memory():  # the next task needs as much again
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # Arrow's own allocator would give it back
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, messages), daemon=True).start()
    work = b""
    while True:
        message = messages.get()
        if message.startswith(_WORK):
            work = message[1:]
        else:
            connection.send_bytes(attempt(work, message[1:]))


def _receive(connection: Connection, messages: queue.SimpleQueue[bytes]) -> None:
    """Take tasks off the pipe, so that giving one never waits for another; end with the process that gives them."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            messages.put(connection.recv_bytes())
    os._exit(1)


def attempt(work: bytes, task: bytes) -> bytes:
    """Do a task, wherever that is.

    Args:
        work: the function, pickled. All that is unpickled here and where the answer arrives comes from our own job.
        task: its argument, pickled.

    Returns:
        (error, None) or (None, result), pickled; an error that cannot be is told in words.
    """
    try:
        return pickle.dumps((None, _load(work)(pickle.loads(task))))  # noqa: S301
    except BaseException as error:  # noqa: BLE001 (raised where the results arrive)
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        return _portable(error)


@functools.lru_cache(1)
def _load(work: bytes) -> Callable[[Any], Any]:
    function: Callable[[Any], Any] = pickle.loads(work)  # noqa: S301
    return function


def _portable(error: BaseException) -> bytes:
    """The error pickled; one that cannot be is told in words."""
    try:
        data = pickle.dumps((error, None))
        pickle.loads(data)  # noqa: S301 (just pickled)
    except Exception:  # noqa: BLE001 (whatever a foreign class does when it is copied)
        return pickle.dumps((RuntimeError(f"{type(error).__name__}: {error}"), None))
    return data
