"""The same application on a Ray cluster.

Run `serve run rejoinder.serving.ray:app index=/shared/replies`, or with `index` an address of
PostgreSQL. Each replica opens the index and its model. A replica takes in what another one has
changed when it computes its next batch, as the workers of `rejoinder serve` do, so all of them must
reach one and the same folder or database.
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from rejoinder.errors import MissingExtraError
from rejoinder.memory import limit_onednn_cache
from rejoinder.serving.app import make_app
from rejoinder.serving.guard import Keys
from rejoinder.serving.server_settings import ServerSettings
from rejoinder.serving.worker.computing import Computing
from rejoinder.serving.worker.sources import Sources, absolute_name
from rejoinder.stores.address import store_of

OWN = {"/admin/reload", "/metrics"}
"""Addresses that would reach one replica only, whichever: Ray replaces replicas and measures
requests itself."""


class Options(BaseModel):
    """Options of `app`; the names mean the same for `rejoinder serve`."""

    model_config = ConfigDict(extra="forbid")
    index: str | Path  # a folder, or postgresql://HOST/DB?index=NAME
    model: str | None = None
    intents: Path | None = None
    min_confidence: float | None = None
    queue: int = 64
    replicas: int = 2


def app(options: Options) -> Any:
    """Return the application for Ray Serve. Keys come from the environment of whoever calls this.

    The password of a database comes from the environment or the files of each replica's node.

    Raises:
        InputError: the address of a database names no index.
        MissingExtraError: Ray Serve is missing.
    """
    try:
        from ray import serve
    except ImportError as error:
        raise MissingExtraError("serving on Ray", "cluster") from error
    index = absolute_name(options.index)  # the current folder of a replica is another one
    store_of(index)
    sources = Sources(
        index=index,
        model=options.model,
        intents=options.intents and options.intents.absolute(),
        calibrated=options.min_confidence is not None,
    )
    keys = Keys.from_environment()
    settings = ServerSettings(
        sources=sources,
        keys=keys,
        local=not keys,
        queue=options.queue,
        minimum_confidence=options.min_confidence,
    )

    def make() -> Any:
        limit_onednn_cache()
        computing = Computing(sources)
        computing.open()
        made = make_app(settings, computing)
        made.router.routes[:] = [
            route for route in made.router.routes if getattr(route, "path", "") not in OWN
        ]
        return made

    # Twice as many requests as may wait reach a replica: its queue answers 429 to those beyond it.
    replica = serve.deployment(
        name="rejoinder", num_replicas=options.replicas, max_ongoing_requests=2 * options.queue
    )
    return replica(serve.ingress(make)()).bind()
