"""`rejoinder desk`: suggestions in a help desk, by its webhooks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Any, Literal

import typer

from rejoinder.cli.options import Json
from rejoinder.cli.rankers import open_index
from rejoinder.cli.retrieval import IndexFolder, Model
from rejoinder.cli.serve import Host, is_loopback, listen
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError, MissingExtraError

TOKEN = "REJOINDER_DESK_TOKEN"  # noqa: S105 (names of variables)
SECRET = "REJOINDER_DESK_SECRET"  # noqa: S105


def desk(
    index: IndexFolder,
    to: Annotated[
        str, typer.Option(metavar="URL", help="The desk's address; notes go there alone.")
    ],
    kind: Annotated[
        Literal["chatwoot", "generic"],
        typer.Option(help="Which desk; generic: any, as docs/desks.md says."),
    ] = "chatwoot",
    host: Host = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="0: any that is free.")
    ] = 8001,
    model: Model = None,
    as_json: Json = False,
) -> None:
    """Put the best three replies beside each message of a customer, as a note for the agents.

    What agents send then is feedback on the replies.

    REJOINDER_DESK_TOKEN is the token by which Chatwoot takes notes, REJOINDER_DESK_SECRET the
    secret of the webhook, which signs events. The webhook's address is printed.

    Example: rejoinder desk replies.index --to https://chatwoot.example.com
    """
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        raise MissingExtraError("rejoinder desk", "serve")
    from rejoinder.retrieval.index import Index
    from rejoinder.serving.desk import PATH, IndexSearcher, Receiver, make_receiver
    from rejoinder.serving.desks import Address

    token = os.environ.get(TOKEN, "")
    secret = os.environ.get(SECRET, "")
    address = Address(to)
    chosen = _desk(kind, token, secret)
    if not secret and not is_loopback(host):
        raise InputError(
            f"{host} can be reached from other machines, and events are not signed; set {SECRET}, "
            "or leave --host out"
        )
    opened = open_index(index, model, light=True)
    if not isinstance(opened, Index):
        raise InputError(f"{index}: replies in Milvus take no feedback; take an index on disk")
    listening = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    application = make_receiver(Receiver(chosen, address, IndexSearcher(opened), secret))
    import uvicorn

    from rejoinder.serving.guard import LOGGING

    config = uvicorn.Config(
        application, log_config=LOGGING, access_log=False, server_header=False, ws="none"
    )
    emit(
        {"url": f"http://{shown}:{listening.getsockname()[1]}{PATH}", "to": address.url},
        as_json,
        _text,
    )
    uvicorn.Server(config).run([listening])


def _desk(kind: str, token: str, secret: str) -> Any:
    from rejoinder.serving.desks import Chatwoot, Generic

    if kind == "generic":
        return Generic(secret)
    if not token:
        raise InputError(
            f"Chatwoot takes no notes without a token; set {TOKEN} to that of an agent bot "
            "(Settings, Bots) or of an agent (Profile settings, Access token)"
        )
    return Chatwoot(token)


def _text(result: Mapping[str, Any]) -> str:
    return f"{result['url']} takes events of {result['to']}; Ctrl-C ends it"
