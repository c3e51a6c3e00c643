"""`rejoinder models`: what is at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rejoinder.cli.shell import emit


def models(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="FOLDER...", help="Where to look; here if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the model folders below some folders, with their sizes and fingerprints.

    Example: rejoinder models runs
    """
    from rejoinder.errors import InputError
    from rejoinder.models.persistence import describe, model_folders

    places = folders or [Path()]
    for place in places:
        if not place.is_dir():
            raise InputError(f"{place} is not a folder; name folders to look for models in")
    found = [describe(folder) for place in places for folder in model_folders(place)]
    emit({"models": found}, as_json, lambda _: _table(found))


def _table(found: list[dict[str, Any]]) -> str:
    if not found:
        return "no model folder here; `rejoinder train RECIPE -o RUN` makes one"
    return "\n".join(
        f"{model['path']}  {model['kind']}, {model['parameters'] / 1e6:.1f}M parameters, "
        f"{model['bytes'] / 1e6:.1f} MB, {model['fingerprint'][:12]}"
        for model in found
    )
