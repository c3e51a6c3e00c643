"""How far running tasks are, told through small files in the work folder, whatever engine runs them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from rejoinder.corpora.work import RUNNING

_INTERVAL = 0.5


class Report:
    """A task's own account of the bytes that it has read. A context manager; call it with each number of bytes."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / RUNNING / name
        self._bytes = 0
        self._next = time.monotonic() + _INTERVAL

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._path.unlink(missing_ok=True)

    def __call__(self, count: int) -> None:
        """Count bytes, and tell about twice a second."""
        self._bytes += count
        if time.monotonic() >= self._next:
            self._path.parent.mkdir(exist_ok=True)
            self._path.write_text(str(self._bytes))
            self._next = time.monotonic() + _INTERVAL


@contextlib.contextmanager
def watched(folder: Path, show: Callable[[int], object]) -> Iterator[Callable[[int], None]]:
    """While the `with` block runs, call `show` about twice a second with the bytes read by all tasks.

    Yields:
        A function to call with the bytes of each task that is finished.
    """
    finished, over = 0, threading.Event()

    def finish(count: int) -> None:
        nonlocal finished
        finished += count
        show(finished)

    def watch() -> None:
        while not over.wait(_INTERVAL):
            show(finished + sum(map(_told, (folder / RUNNING).glob("*"))))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield finish
    finally:
        over.set()
        thread.join()


def _told(path: Path) -> int:
    """What a report says; 0 if it is just being written, or removed."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


class Stages:
    """The progress of a job of several stages, in bytes of its input.

    Each stage has its share of the whole work, so that rate and time left hold for the whole job: a byte counts as
    done when all stages are through with it. Of an input of unknown size the bytes read are all that is told.
    """

    def __init__(self, total: int | None, advance: Callable[[int], object] | None) -> None:
        """With the size of the input and the function to call with the number of further bytes done."""
        self._total, self._advance = total, advance
        self._base = self._share = 0.0
        self._shown = 0
        self._lock = threading.Lock()

    def begin(self, share: float) -> None:
        """Begin the next stage, which is this share of the whole work."""
        self.at(1.0)
        self._base, self._share = self._base + self._share, share

    def read(self, count: int) -> None:
        """In a stage that reads the input: so many of its bytes are read."""
        if self._total is None:
            self._show(count)
        else:
            self.at(count / max(1, self._total))

    def at(self, part: float) -> None:
        """So much of the stage is done, from 0 to 1."""
        if self._total is not None:
            self._show(round(self._total * (self._base + self._share * min(1.0, part))))

    def _show(self, count: int) -> None:
        with self._lock:
            more = count - self._shown
            if self._advance is not None and more > 0:
                self._advance(more)
                self._shown = count
