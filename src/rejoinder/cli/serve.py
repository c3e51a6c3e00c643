"""`rejoinder serve`: replies over HTTP."""

from __future__ import annotations

import gc
import ipaddress
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from rejoinder.cli.options import Json
from rejoinder.cli.retrieval import IndexFolder, MinConfidence, Model, Rerank, RerankTop
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    import uvicorn
    from fastapi import FastAPI

    from rejoinder.encoders.protocol import Ranker
    from rejoinder.serving.guard import Keys
    from rejoinder.serving.worker import Worker

GRACE = 30  # seconds for accepted requests to be answered after the signal to end
START = 120  # seconds for a worker to open its model


Host: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="Address to listen on; beyond this machine it needs an API key."
    ),
]


def serve(
    index: IndexFolder,
    host: Host = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0: any free one.")
    ] = 8000,
    model: Model = None,
    intents: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A classifier, for /v1/intents.")
    ] = None,
    rerank: Rerank = None,
    rerank_top: RerankTop = 50,
    min_confidence: MinConfidence = None,
    beside: Annotated[
        Path | None,
        typer.Option(metavar="INDEX", help="A second index, to compare with on the page."),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, metavar="N", help="Processes, each with the models.")
    ] = 1,
    queue: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum of waiting requests; others get 429.")
    ] = 64,
    log_texts: Annotated[
        bool, typer.Option("--log-texts", help="Include texts in the log.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Answer over HTTP: replies, embeddings, re-ranking, intents, candidates.

    A page to try it on is at /.

    Example: rejoinder serve replies.index, and then
    curl localhost:8000/v1/replies -H 'content-type: application/json' -d '{"messages": ["Hello!"]}'

    REJOINDER_WRITE_KEY and REJOINDER_READ_KEY turn authentication on: a read key asks, a write key
    also changes candidates and reloads. SIGHUP opens index and models again; SIGTERM answers what
    was accepted, and ends.
    """
    if find_spec("uvicorn") is None:
        raise MissingExtraError("rejoinder serve", "serve")
    from rejoinder.serving.answers import Sources

    keys = _keys(host)
    sources = Sources(
        index=index,
        model=model,
        intents=intents,
        rerank_top=rerank_top,
        calibrated=min_confidence is not None,
        reranker=None if rerank is None else partial(open_ranker, rerank),
        second=None if beside is None else Sources(index=beside),
    )
    settings: dict[str, Any] = {
        "sources": sources,
        "keys": keys,
        "local": not keys,
        "queue": queue,
        "log_texts": log_texts,
        "minimum_confidence": min_confidence,
        "workers": workers,
    }
    listening = listen(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
    announce = partial(emit, {"url": address}, as_json, _text)
    if workers > 1:
        _run_workers(settings, workers, listening, announce)
    else:
        _run_one(settings, listening, announce)


def _keys(host: str) -> Keys:
    """Return the API keys, without which only this machine may reach the server."""
    from rejoinder.serving.guard import READ_KEY, WRITE_KEY, Keys

    keys = Keys.from_environment()
    if not keys and not is_loopback(host):
        raise InputError(
            f"{host} can be reached from other machines;"
            f" set {WRITE_KEY} or {READ_KEY}, or leave --host out"
        )
    return keys


def _run_workers(
    settings: dict[str, Any],
    workers: int,
    listening: socket.socket,
    announce: Callable[[], None],
) -> None:
    from uvicorn.supervisors import Multiprocess

    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", folder)
        settings["answers"] = Path(tempfile.mkdtemp(dir=folder))
        announce()
        Multiprocess(_config(partial(_worker, settings), workers), [listening]).run()


def _run_one(
    settings: Mapping[str, Any], listening: socket.socket, announce: Callable[[], None]
) -> None:
    from rejoinder.serving.worker import ComputingProcess

    with ThreadPoolExecutor(1) as meanwhile, ComputingProcess(settings["sources"]) as computing:
        opening = meanwhile.submit(computing.open)  # while this process imports FastAPI
        import uvicorn

        config = _config(_worker(settings, computing))
        opening.result()
        announce()
        uvicorn.Server(config).run([listening])


def _config(application: Any, workers: int = 1) -> uvicorn.Config:
    import uvicorn

    from rejoinder.serving.guard import LOGGING
    from rejoinder.serving.protocol import protocol

    http: Any = protocol
    return uvicorn.Config(
        application,
        factory=workers > 1,
        workers=workers,
        log_config=LOGGING,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=http,
        ws="none",
        timeout_graceful_shutdown=GRACE,
        timeout_worker_healthcheck=START,
    )


def _worker(settings: Mapping[str, Any], worker: Worker | None = None) -> FastAPI:
    """Make the application of a worker process, which ends with the process that started it."""
    from rejoinder.environment import keep_memory
    from rejoinder.serving.app import Settings, make_app

    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()
    keep_memory()
    gc.freeze()
    return make_app(Settings(**settings), worker)


def _end_after(parent: BaseProcess) -> None:
    """End this process, as it ends at a signal, once its parent has ended, if only by a kill."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def open_ranker(name: str) -> Ranker:
    """Open what ranks the best replies again; in a worker too."""
    from rejoinder.cli.rankers import Rankers

    return Rankers().ranker(name)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; InputError: the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        reason = error if number is None or number < 0 else os.strerror(number)
        raise InputError(
            f"cannot listen at {host}, port {port}: {reason}; take another --port or --host"
        ) from None


def _text(result: Mapping[str, Any]) -> str:
    return f"{result['url']} answers, to a browser with a page; Ctrl-C ends it"
