"""The parent of several servers: it starts again those that end, until a signal ends all.

It needs uvicorn as soon as it is imported.
"""

from __future__ import annotations

import time
from multiprocessing.connection import wait
from pickle import UnpicklingError
from typing import Any

from uvicorn.supervisors.multiprocess import Multiprocess, Process

from rejoinder.serving.http.logs import logger
from rejoinder.serving.responses import forget_worker

RESTART = 5.0  # seconds between two starts of a worker that cannot begin
LOOK = 0.5  # seconds after which a signal to end is noticed


class Supervisor(Multiprocess):
    """uvicorn's supervisor, for workers that cannot begin while their database is away.

    uvicorn's own waits two minutes, in which it heeds no signal, for the answer of a worker that
    has ended meanwhile. And it ends the server if one worker's start fails.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._restarted_at: dict[int, float] = {}  # by the numbers of workers, `time.monotonic`
        self._alive: set[int | None] = set()  # process ids

    def keep_subprocess_alive(self) -> None:
        """Replace the workers that have ended, or hang."""
        for number, process in enumerate(self.processes):
            if self._answers(process) or self.should_exit.is_set():
                continue
            process.kill()
            process.process.join()
            now = time.monotonic()
            if now < self._restarted_at.get(number, -RESTART) + RESTART:
                continue
            fields = {"pid": process.pid, "code": process.exitcode}
            logger.error("a worker has ended; another one is started", extra={"fields": fields})
            new = Process(self.config, self.sockets)
            new.start()
            self._restarted_at[number] = now
            self.processes[number] = new
        self._forget_ended()

    def _forget_ended(self) -> None:
        """Leave out of the metrics the workers that have ended since, or were replaced."""
        alive = {process.pid for process in self.processes if process.exitcode is None}
        for pid in self._alive - alive:
            forget_worker(pid)
        self._alive = alive

    def _answers(self, process: Process) -> bool:
        """Return whether a worker answers; wait until it does or ends, or the server ends."""
        if process.exitcode is not None:
            return False
        process.parent_conn.send(b"ping")
        deadline = time.monotonic() + self.config.timeout_worker_healthcheck
        while time.monotonic() < deadline and not self.should_exit.is_set():
            ready = wait([process.parent_conn, process.process.sentinel], LOOK)
            if process.process.sentinel in ready:
                return False
            if ready:
                return _has_answered(process)
        return False


def _has_answered(process: Process) -> bool:
    """Return whether a worker has sent a whole answer, and was not killed within it."""
    try:
        process.parent_conn.recv()
    except (EOFError, OSError, UnpicklingError):
        return False
    return True
