"""What computes: in this process, or in one of its own, so that an event loop never waits for its turn at Python."""

from __future__ import annotations

import gc
import logging.config
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any, Literal, Self, TypeAlias, get_args

from rejoinder.errors import InputError
from rejoinder.memory import keep_memory
from rejoinder.serving.answers import Answers, Sources
from rejoinder.serving.guard import LOGGING, logger
from rejoinder.serving.projection import ReplyMap
from rejoinder.serving.worker import Job, UnavailableError

Method: TypeAlias = Literal["open", "compute", "write", "tell", "draw"]
Compute: TypeAlias = Callable[[Method, Sequence[Job]], list[Any]]
"""Calls a method of `Computing`. Different methods may run at once, one of them not twice."""
ENDED = "the process that computes has ended, and another one is started; try again in a second"
RESTART = 1.0  # seconds until a computing process is started again
OLD = 60.0  # seconds from which a map of an index that has changed is drawn anew


class Computing:
    """Computes in this process."""

    _map: tuple[str, float, ReplyMap] | None = None  # of which index, and when it was drawn

    def __init__(self, sources: Sources, answers: Answers | None = None) -> None:
        self.sources, self._answers = sources, answers

    def __call__(self, method: Method, jobs: Sequence[Job]) -> list[Any]:
        """Return of each job its result or its exception."""
        found: list[Any] = getattr(self, method)(jobs)
        return found

    @property
    def answers(self) -> Answers:
        """What answers now."""
        assert self._answers is not None
        return self._answers

    def open(self, _: Sequence[Job]) -> list[Any]:
        """Open index and models, beside those that go on answering until the new ones are there."""
        self._answers = self.sources.open()
        gc.unfreeze()  # what was frozen the last time, and has just been replaced, goes
        gc.collect()
        gc.freeze()  # models stay: looking through them for garbage would hold requests up
        return []

    def compute(self, jobs: Sequence[Job]) -> list[Any]:
        """Answer questions; see `Answers.compute`."""
        return self.answers.compute(jobs)

    def write(self, jobs: Sequence[Job]) -> list[Any]:
        """Change the candidates; see `Answers.write`."""
        return self.answers.write(jobs)

    def tell(self, jobs: Sequence[Job]) -> list[Any]:
        """Tell what there is, or what is wrong; see `Answers.facts` and `Answers.trouble`."""
        return [self.answers.trouble() if job.kind == "trouble" else self.answers.facts() for job in jobs]

    def draw(self, jobs: Sequence[Job]) -> list[Any]:
        """Place the replies so that like ones are near each other, coloured by the payload's field that a job names."""
        index = self.answers.index
        if self._map is None or (index.fingerprint != self._map[0] and time.monotonic() > self._map[1] + OLD):
            self._map = index.fingerprint, time.monotonic(), ReplyMap.draw(index)
        return [self._map[2].to_json(job.item) for job in jobs]


class ComputingProcess:
    """Computes in a process of its own, with a pipe and a thread for each method.

    It ends when this one does. If it ends by itself, for want of memory or since a mapped file was truncated, another
    one is started, and again every second until one has opened everything; if that happens before anything was open,
    this one ends too.
    """

    _closing = False
    _was_open = False

    def __init__(self, sources: Sources) -> None:
        self._sources, self._lock = sources, threading.Lock()
        self._start(reopen=False)
        threading.Thread(target=self._watch, daemon=True).start()

    def _start(self, *, reopen: bool) -> None:
        context = multiprocessing.get_context("spawn")
        pairs = {method: context.Pipe() for method in get_args(Method)}
        theirs = {method: pipe for method, (_, pipe) in pairs.items()}
        self._pipes: dict[Method, Connection] = {method: pipe for method, (pipe, _) in pairs.items()}
        arguments = (self._sources, theirs, reopen)
        self._process = context.Process(target=_serve, args=arguments, name="rejoinder computing")
        self._process.start()
        for pipe in theirs.values():
            pipe.close()  # so that it notices our end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closing = True
        for pipe in self._pipes.values():
            pipe.close()
        self._process.join()

    def __call__(self, method: Method, jobs: Sequence[Job]) -> list[Any]:
        """See `Computing`. If jobs cannot be sent together, they are sent one by one."""
        pipe = self._pipes[method]
        try:
            pipe.send(jobs)
        except OSError:
            raise UnavailableError(ENDED) from None
        except Exception as error:  # noqa: BLE001 (pickle raises many kinds, and has sent nothing)
            if len(jobs) > 1:
                return [self._alone(method, job) for job in jobs]
            raise RuntimeError(f"no process can be sent this: {type(error).__name__}") from None
        try:
            found: list[Any] | Exception = pipe.recv()
        except (EOFError, OSError):
            raise UnavailableError(ENDED) from None
        if isinstance(found, Exception):
            raise found
        self._was_open = self._was_open or method == "open"
        return found

    def _alone(self, method: Method, job: Job) -> Any:
        try:
            return self(method, [job])[0]
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
                    logger.critical("the computing process has ended, and the server with it", extra={"fields": fields})
                    os._exit(1)
                logger.critical("the computing process has ended; another one is started", extra={"fields": fields})
                time.sleep(RESTART)
                self._start(reopen=True)


def _serve(sources: Sources, pipes: dict[Method, Connection], reopen: bool) -> None:
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # meant for the server, which finishes what it has accepted
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    keep_memory()
    logging.config.dictConfig(LOGGING)
    computing = Computing(sources)
    if reopen:
        try:
            computing.open(())
        except (InputError, OSError) as error:
            logger.error("index and models cannot be opened again", extra={"fields": {"reason": str(error)}})
            sys.exit(1)
    for method, pipe in pipes.items():
        if method != "write":
            threading.Thread(target=_answer, args=(computing, method, pipe), daemon=True).start()
    _answer(computing, "write", pipes["write"])


def _answer(compute: Compute, method: Method, pipe: Connection) -> None:
    while True:
        try:
            jobs = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            found: list[Any] | Exception = compute(method, jobs)
        except Exception as error:  # noqa: BLE001 (raised where it was asked for)
            found = error
        try:
            pipe.send(found)
        except OSError:  # nobody is there any more
            return
        except Exception as error:  # noqa: BLE001 (pickle raises many kinds; whoever asked waits for an answer)
            whole = RuntimeError(f"no process can send this: {error}")
            pipe.send([_sendable(each) for each in found] if isinstance(found, list) else whole)


def _sendable(result: Any) -> Any:
    """Return a result of a job, or in its place an error, if no process can send it."""
    try:
        ForkingPickler.dumps(result)
    except Exception as error:  # noqa: BLE001 (pickle raises many kinds)
        return RuntimeError(f"no process can send this: {error}")
    return result
