"""What runs the tasks of a job: this process, several of this machine, or a cluster (`cluster.ray_engine`).

A job is a list of tasks that follows from its input alone. An engine may run a task anywhere, at any time, and again
after a failure; what a task leaves behind is the same each time. So the engine never changes what comes out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from typing import Protocol, Self, TypeVar

from rejoinder.corpora.processes import Processes

T = TypeVar("T")
R = TypeVar("R")

_WORTH_A_PROCESS = 64 * 1024 * 1024
"""Bytes of input that take clearly longer than starting a process in every stage."""


class Engine(Protocol):
    """Runs tasks."""

    @property
    def remote(self) -> bool:
        """Whether tasks run on other machines too: what they read should then not come through this process."""
        ...

    def map(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[R]:
        """Run `work` on each task.

        Args:
            work: a function at the top of a module, or a `functools.partial` of one: workers get it by pickling.
            tasks: may be lazy and large; they are taken as workers get free, only a few ahead.

        Yields:
            The results, in the order of the tasks. Results are small.

        Raises:
            Exception: what a task raised, as it was raised. No other task runs any more when it arrives, nor when
                the iterator is closed or the caller is interrupted.
        """
        ...


class LocalEngine:
    """Runs tasks in this process, or in several of this machine. A context manager, which ends those."""

    remote = False

    def __init__(self, processes: int = 1) -> None:
        """With one process, tasks run in this one; otherwise in so many others."""
        self.processes = processes
        self._workers = Processes(processes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.close()

    def map(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[R]:
        """See `Engine.map`."""
        return (work(task) for task in tasks) if self.processes == 1 else self._workers.map(work, tasks)


def local_engine(processes: int | None, size: int) -> LocalEngine:
    """The engine for an input of `size` bytes; as many processes as pay off if no number is given."""
    if processes is not None:
        return LocalEngine(processes)
    return LocalEngine(max(1, min(usable_cores(), size // _WORTH_A_PROCESS)))


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
