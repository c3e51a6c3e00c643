"""`rejoinder list`: what there is to name in other commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import typer

from rejoinder.cli.listing.data import corpora, formats
from rejoinder.cli.listing.models import models
from rejoinder.cli.listing.recipes import recipes
from rejoinder.cli.shell import Command, guarded

listing = typer.Typer(
    name="list",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List what other commands take by name.",
    epilog="Example: rejoinder list models",
)
VERBS: Mapping[str, Callable[..., None]] = {
    "List bundled models and model folders": models,
    "List recipes": recipes,
    "List the corpora that `data` reads, or describe one": corpora,
    "List the formats of replies and chats, or describe one": formats,
}
"""The verbs with their summaries."""
for _summary, _verb in VERBS.items():
    listing.command(_verb.__name__, cls=Command, short_help=_summary)(guarded(_verb))
