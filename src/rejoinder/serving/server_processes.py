"""The processes of `rejoinder serve`: one, or several that share a socket.

Each opens index and models before it listens, so a balancer sends nothing to a server that cannot
answer yet.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rejoinder.serving.addresses import begin_to_listen
from rejoinder.serving.http.exchange import Receive, Scope, Send
from rejoinder.serving.worker.process import ComputingProcess

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess
    from multiprocessing.queues import SimpleQueue

    from fastapi import FastAPI

    from rejoinder.serving.supervisor import Supervisor
    from rejoinder.serving.worker.jobs import Worker


def run_one(
    settings: Mapping[str, Any], listening: socket.socket, announce: Callable[[], None]
) -> None:
    """Answer in this process until a signal ends it."""
    computing = ComputingProcess(settings["sources"])
    with ThreadPoolExecutor(1) as meanwhile, contextlib.closing(computing):
        opening = meanwhile.submit(computing.open)  # while this process imports FastAPI
        from rejoinder.serving.bounds import run

        application = _application(settings, computing)
        opening.result()
        begin_to_listen(listening)
        announce()
        run(application, listening)


def run_many(
    settings: Mapping[str, Any], listening: socket.socket, announce: Callable[[], None]
) -> None:
    """Answer in as many processes as `settings` says, until a signal ends them.

    Raises:
        Exception: the first process to report could not open index and models, or not listen.
    """
    from rejoinder.serving.bounds import configure
    from rejoinder.serving.supervisor import Supervisor

    reports = multiprocessing.get_context("spawn").SimpleQueue()
    failures: list[Exception] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", folder)
        answers = Path(tempfile.mkdtemp(dir=folder))
        shared = {**settings, "answers": answers, "answers_key": os.urandom(32)}
        application = partial(_worker, shared, listening, reports)
        supervisor = Supervisor(configure(application, workers=settings["workers"]), [listening])
        arguments = (reports, supervisor, announce, failures)
        threading.Thread(target=_read_reports, args=arguments, daemon=True).start()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, partial(_end_at_once, supervisor))
        supervisor.run()
    if failures:
        raise failures[0]


def _end_at_once(supervisor: Supervisor, *_: object) -> None:
    """End the workers, also while they are replaced, when uvicorn takes no other signal."""
    # by a thread: the one that the signal has interrupted may hold the event's lock
    threading.Thread(target=supervisor.should_exit.set).start()


def _read_reports(
    reports: SimpleQueue[Exception | None],
    supervisor: Supervisor,
    announce: Callable[[], None],
    failures: list[Exception],
) -> None:
    """Announce the server when a process answers; end it if the first one cannot begin."""
    from rejoinder.serving.http.logs import logger

    first = reports.get()
    if first is None:
        announce()
    else:
        failures.append(first)
        supervisor.should_exit.set()
    while True:
        if (error := reports.get()) is not None and not failures:
            fields = {"reason": str(error)}
            logger.error("a worker cannot open index and models", extra={"fields": fields})


def _worker(
    settings: Mapping[str, Any], listening: socket.socket, reports: SimpleQueue[Exception | None]
) -> ReportedStart:
    """Make the application of one of several processes, which reports that it answers."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_after, args=(parent,), daemon=True).start()
    computing = ComputingProcess(settings["sources"])
    # uvicorn's handler would let it open all of it first
    on_signal = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        computing.open()
        application = _application(settings, computing)
        begin_to_listen(listening)
    except Exception as error:  # noqa: BLE001 (the process that started this one raises it)
        computing.close()
        reports.put(error)
        sys.exit(1)
    finally:
        signal.signal(signal.SIGTERM, on_signal)
    return ReportedStart(application, reports)


class ReportedStart:
    """ASGI application that reports, by None, that it has started and answers from now on.

    It reports the error if it cannot start.
    """

    def __init__(
        self, app: Callable[[Scope, Receive, Send], Any], reports: SimpleQueue[Exception | None]
    ) -> None:
        self._app = app
        self._reports = reports
        self._has_started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on what comes, and report the end of the start."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            await self._app(scope, receive, self._reporting(send))
        except Exception as error:
            if not self._has_started:
                self._reports.put(error)
            raise

    def _reporting(self, send: Send) -> Send:
        async def report(message: Scope) -> None:
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                self._has_started = True
                self._reports.put(None)

        return report


def _application(settings: Mapping[str, Any], computing: Worker) -> FastAPI:
    from rejoinder.memory import keep_memory
    from rejoinder.serving.app import make_app
    from rejoinder.serving.server_settings import ServerSettings

    keep_memory()
    gc.freeze()
    return make_app(ServerSettings(**settings), computing)


def _end_after(parent: BaseProcess) -> None:
    """End this process, as by a signal, once its parent has ended, even by a kill."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
