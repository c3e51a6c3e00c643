"""A process of its own that computes, so that the event loop is not blocked by the GIL."""

from __future__ import annotations

import logging.config
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any

from rejoinder.errors import InputError
from rejoinder.interrupts import interrupts_blocked
from rejoinder.memory import keep_memory
from rejoinder.serving.http.logs import LOGGING, logger
from rejoinder.serving.worker.jobs import EndedError, Job, Lane
from rejoinder.serving.worker.sources import Sources

RESTART = 1.0  # seconds until a computing process is started again
LAST_BATCH = 10.0  # seconds for what other lanes still compute at the end

ENDED = "the process that computes has ended, and another one is started; try again in a second"


class ComputingProcess:
    """A worker in a process of its own, with a pipe and a thread for each lane.

    It ends when this process does. If it ends by itself, for want of memory or since a mapped file
    was truncated, another one is started, and again every second until one has opened everything;
    if that happens before anything was open, this process ends too.
    """

    is_starting = False
    _closing = False
    _was_open = False

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._lock = threading.Lock()
        self._start(reopen=False)
        threading.Thread(target=self._watch, daemon=True).start()

    def _start(self, *, reopen: bool) -> None:
        """Start a process; OSError: it cannot be, and all is as before."""
        context = multiprocessing.get_context("spawn")
        pipes: dict[Lane, Connection] = {}
        child_ends: dict[Lane, Connection] = {}
        with ExitStack() as unless_started, ExitStack() as always:

            def make_pipe() -> tuple[Connection, Connection]:
                own, other = context.Pipe()
                unless_started.enter_context(own)
                always.enter_context(other)  # so that the child's end is noticed
                return own, other

            for lane in Lane:
                pipes[lane], child_ends[lane] = make_pipe()
            open_pipe, open_end = make_pipe()
            arguments = (self._sources, child_ends, open_end, reopen)
            process = context.Process(target=_serve, args=arguments, name="rejoinder computing")
            with interrupts_blocked():
                process.start()
            unless_started.pop_all()
        self._pipes = pipes
        self._open_pipe = open_pipe
        self._process = process

    def close(self) -> None:
        """See `Worker`."""
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
            results = _send_and_receive(self._pipes[lane], jobs)
        except _UnsendableError as error:
            if len(jobs) == 1:
                return [RuntimeError(str(error))]
            return [self._run_alone(lane, job) for job in jobs]
        self.is_starting = False
        return results

    def _run_alone(self, lane: Lane, job: Job) -> Any:
        try:
            return self.run(lane, [job])[0]
        except Exception as error:  # noqa: BLE001 (whoever submitted the job raises it)
            return error

    def _watch(self) -> None:
        """Start another process whenever this one has ended by itself."""
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
                self.is_starting = True
            while not self._is_restarted():
                pass

    def _is_restarted(self) -> bool:
        """Return whether another process runs `RESTART` seconds later, or none is wanted."""
        time.sleep(RESTART)
        with self._lock:
            if self._closing:
                return True
            try:
                self._start(reopen=True)
            except OSError as error:  # the machine has no memory, processes or files left
                fields = {"reason": str(error)}
                logger.error("no computing process can be started", extra={"fields": fields})
                return False
        return True


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
    """Answer jobs until the pipes are closed: the main function of the process."""
    # meant for the server, which finishes what it has accepted
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)

    from rejoinder.serving.worker.computing import Computing  # not before the process is started

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
    beside = [threading.Thread(target=_answer, args=(open_all, open_pipe), daemon=True)]
    beside += [
        threading.Thread(target=_answer, args=(partial(computing.run, lane), pipe), daemon=True)
        for lane, pipe in pipes.items()
        if lane is not Lane.CHANGE
    ]
    for thread in beside:
        thread.start()
    # here, so that a change is finished at the end
    _answer(partial(computing.run, Lane.CHANGE), pipes[Lane.CHANGE])
    for thread in beside:  # libraries of C++ abort if they compute while the process ends
        thread.join(LAST_BATCH)


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
