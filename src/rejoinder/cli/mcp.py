"""`rejoinder mcp`: an index as tools of assistants that speak the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rejoinder.cli.options import Json
from rejoinder.cli.rankers import open_index
from rejoinder.cli.retrieval import IndexFolder, Model
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError

_HOST = "127.0.0.1"
_PATH = "/mcp"


def mcp(
    index: IndexFolder,
    model: Model = None,
    intents: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A classifier, for classify_intent.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="N",
            help="HTTP port on this machine; 0: any free one."
            " Default: standard input and output.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Offer an index to assistants (MCP): suggest, search, classify, give feedback.

    Example: claude mcp add replies -- rejoinder mcp replies.index

    Over HTTP the address is printed; with --json as one JSON object.
    """
    from rejoinder.integrations.mcp import make_server
    from rejoinder.retrieval.index import Index

    opened = open_index(index, model, light=True)
    if not isinstance(opened, Index):
        raise InputError(f"{index}: replies in Milvus are not offered; take an index on disk")
    classifier = None
    if intents is not None:
        from rejoinder.serving.answers import open_classifier

        classifier = open_classifier(intents)
    server = make_server(opened, classifier)
    if port is None:
        server.run("stdio")
    else:
        _run_http(server, port, as_json)


def _run_http(server: Any, port: int, as_json: bool) -> None:
    """Answer over HTTP until a signal ends it."""
    import uvicorn

    from rejoinder.cli.serve import listen

    listening = listen(_HOST, port)
    address = f"http://{_HOST}:{listening.getsockname()[1]}{_PATH}"
    application = server.streamable_http_app(streamable_http_path=_PATH, host=_HOST)
    config = uvicorn.Config(application, log_level="warning", server_header=False)
    emit({"url": address}, as_json, _text)
    uvicorn.Server(config).run([listening])


def _text(result: Mapping[str, Any]) -> str:
    return f"{result['url']} answers assistants on this machine; Ctrl-C ends it"
