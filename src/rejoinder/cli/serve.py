"""`rejoinder serve`, `desk` and `mcp`: replies over HTTP, in a help desk, to assistants."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from rejoinder.cli.arguments import (
    DeviceName,
    EngineOption,
    Host,
    IndexName,
    Json,
    MinimumConfidence,
    RankerName,
)
from rejoinder.cli.models import named_model, open_index
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.serving.addresses import is_loopback, listen, reserve

if TYPE_CHECKING:
    from rejoinder.encoders.protocol import Ranker
    from rejoinder.serving.desk.events import Desk
    from rejoinder.serving.guard import Keys

TOKEN = "REJOINDER_DESK_TOKEN"  # noqa: S105 (the name of a variable)
_MCP_HOST = "127.0.0.1"
_MCP_PATH = "/mcp"

Port: TypeAlias = Annotated[
    int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0: any free one.")
]
IntentsFolder: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="A classifier, for /v1/intents.")
]
Beside: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="INDEX", help="A second index to compare on the page."),
]
Workers: TypeAlias = Annotated[
    int, typer.Option(min=1, metavar="N", help="Server processes; each opens the models.")
]
Queue: TypeAlias = Annotated[
    int,
    typer.Option(min=1, metavar="N", help="Maximum number of waiting requests; others get 429."),
]


def serve(
    index: IndexName,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    intents: IntentsFolder = None,
    ranker: RankerName = None,
    minimum_confidence: MinimumConfidence = None,
    beside: Beside = None,
    workers: Workers = 1,
    queue: Queue = 64,
    device: DeviceName = "cpu",
    engine: EngineOption = "auto",
    log_texts: Annotated[
        bool, typer.Option("--log-texts", help="Include texts in the log.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Answer over HTTP: replies, embeddings, re-ranking, intents, candidates.

    / is a web page for trying the server.

    Example: rejoinder serve replies.index, and then
    curl localhost:8000/v1/replies -H 'content-type: application/json' -d '{"messages": ["Hello!"]}'

    REJOINDER_WRITE_KEY and REJOINDER_READ_KEY turn authentication on: a read key allows requests, a
    write key also changes and reloads. SIGHUP reloads index and models; SIGTERM answers accepted
    requests and ends.
    """
    if find_spec("uvicorn") is None:
        raise MissingExtraError("rejoinder serve", "serve")
    from rejoinder.serving.server_processes import run_many, run_one
    from rejoinder.serving.worker.sources import Sources, absolute_name

    keys = _keys(host)
    sources = Sources(
        index=index,
        device=device,
        engine=engine,
        model=named_model(),
        intents=intents,
        calibrated=minimum_confidence is not None,
        ranker=ranker,
        open_ranker=open_ranker,
        second=None if beside is None else Sources(index=beside, device=device, engine=engine),
    )
    settings: dict[str, Any] = {
        "sources": sources,
        "keys": keys,
        "local": not keys,
        "queue": queue,
        "log_texts": log_texts,
        "minimum_confidence": minimum_confidence,
        "workers": workers,
    }
    listening = reserve(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"

    announce = partial(emit, {"url": address}, as_json, _text)
    run = run_one if workers == 1 else run_many
    try:
        run(settings, listening, announce)
    except InputError as error:  # it names an index by its absolute path
        for name in filter(None, (index, beside)):
            error.args = (str(error).replace(str(absolute_name(name)), name),)
        raise


def _keys(host: str) -> Keys:
    """Return the API keys, without which only this machine may reach the server."""
    from rejoinder.serving.guard import API_KEYS, Keys

    keys = Keys.from_environment()
    if not keys and not is_loopback(host):
        raise InputError(
            f"{host} can be reached from other machines; set {API_KEYS}, or leave --host out"
        )
    return keys


def open_ranker(name: str) -> Ranker:
    """Open the re-ranking model, also in a worker."""
    from rejoinder.cli.models import OpenRankers

    return OpenRankers().ranker(name)


def _text(result: Mapping[str, Any]) -> str:
    return f"{result['url']} is ready, with a page for browsers; Ctrl-C ends it"


def desk(
    index: IndexName,
    desk_url: Annotated[
        str, typer.Option("--desk", metavar="URL", help="Address of the desk; notes go only there.")
    ],
    kind: Annotated[
        Literal["chatwoot", "generic"],
        typer.Option(help="Kind of desk; generic: any other, see docs/support-desk.md."),
    ] = "chatwoot",
    host: Host = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0: any free one.")
    ] = 8001,
    as_json: Json = False,
) -> None:
    """Suggest three replies to each message of a customer, in a note for the agents.

    What the agents send is logged as feedback.

    REJOINDER_DESK_TOKEN is the token for notes in Chatwoot. REJOINDER_DESK_SECRET is the webhook's
    secret, which signs events. The command prints the webhook's address.

    Example: rejoinder desk replies.index --desk https://chatwoot.example.com
    """
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        raise MissingExtraError("rejoinder desk", "serve")
    from rejoinder.serving.bounds import run
    from rejoinder.serving.desk.address import Address
    from rejoinder.serving.desk.index import IndexSearcher
    from rejoinder.serving.desk.server import PATH, SECRET, Receiver, make_receiver

    token = os.environ.get(TOKEN, "")
    secret = os.environ.get(SECRET, "")
    address = Address(desk_url)
    chosen = _desk(kind, token, secret)
    if not secret and not is_loopback(host):
        raise InputError(
            f"{host} can be reached from other machines, and events are not signed; set {SECRET}, "
            "or leave --host out"
        )
    opened = open_index(index, light=True)
    listening = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    application = make_receiver(Receiver(chosen, address, IndexSearcher(opened), secret))
    emit(
        {"url": f"http://{shown}:{listening.getsockname()[1]}{PATH}", "to": address.url},
        as_json,
        _desk_text,
    )
    run(application, listening)


def _desk(kind: str, token: str, secret: str) -> Desk:
    from rejoinder.serving.desk.events import Chatwoot, Generic

    if kind == "generic":
        return Generic(secret)
    if not token:
        raise InputError(
            f"Chatwoot needs a token for notes; set {TOKEN} to that of an agent bot (Settings,"
            " Bots) or of an agent (Profile settings, Access token)"
        )
    return Chatwoot(token)


def _desk_text(result: Mapping[str, Any]) -> str:
    return f"{result['url']} receives events from {result['to']}; Ctrl-C ends it"


def mcp(
    index: IndexName,
    intents: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A classifier, for classify_intent.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="N",
            help="HTTP port on this machine; 0: any free one. Default: standard input and output.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Offer an index to assistants (MCP): suggest, search, classify, give feedback.

    Example: claude mcp add replies -- rejoinder mcp replies.index

    Over HTTP, the command prints its address.
    """
    from rejoinder.integrations.mcp import make_server

    opened = open_index(index, light=True)
    classifier = None
    if intents is not None:
        from rejoinder.serving.worker.opening import open_classifier

        classifier = open_classifier(intents)
    server = make_server(opened, classifier)
    if port is None:
        server.run("stdio")
    else:
        _run_http(server, port, as_json)


def _run_http(server: Any, port: int, as_json: bool) -> None:
    """Answer over HTTP until a signal ends it."""
    from rejoinder.integrations.mcp import MOST_BYTES, make_application
    from rejoinder.serving.bounds import BoundedBodies, run

    listening = listen(_MCP_HOST, port)
    address = f"http://{_MCP_HOST}:{listening.getsockname()[1]}{_MCP_PATH}"
    emit({"url": address}, as_json, _mcp_text)
    run(
        BoundedBodies(make_application(server, _MCP_PATH, _MCP_HOST), most_bytes=MOST_BYTES),
        listening,
    )


def _mcp_text(result: Mapping[str, Any]) -> str:
    return f"{result['url']} answers assistants on this machine; Ctrl-C ends it"
