"""`rejoinder tokenise`: make a vocabulary and token stores ahead of training, in several processes or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rejoinder.cli.engines import AddressOption, EngineOption, ray_engine, wants_ray
from rejoinder.cli.shell import emit
from rejoinder.cli.train import DataOption, GeneralOption, InitOption, SettingsOption, places
from rejoinder.errors import InputError


def tokenise(
    recipe: Annotated[Path, typer.Argument(help="A recipe, *.toml: that of the training to come.")],
    cache: Annotated[Path, typer.Option("--output", "-o", metavar="CACHE", help="Folder for what comes out.")],
    data: DataOption = None,
    general: GeneralOption = None,
    init: InitOption = None,
    settings: SettingsOption = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as there are cores, or as pay off, if not given.")
    ] = None,
    where: EngineOption = None,
    address: AddressOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Tokenise the examples of a recipe; `rejoinder train` with data.cache=CACHE then finds them.

    Example: rejoinder tokenise recipes/convert-quick.toml --data data/reddit -o cache --processes 8, then
    rejoinder train recipes/convert-quick.toml --data data/reddit --set data.cache=cache -o runs/small
    """
    from rejoinder.corpora.engine import local_engine
    from rejoinder.files import check_shared
    from rejoinder.training.display import TerminalDisplay
    from rejoinder.training.prepare import CACHED, prepare
    from rejoinder.training.recipe_files import load_recipe

    on_ray = wants_ray(where, address)
    if on_ray and processes is not None:
        raise InputError("--processes is for this machine; a Ray cluster uses the CPUs that its nodes offer")
    plan = load_recipe(recipe, settings or [], {**places(data, general, init), "data.cache": cache})
    files = _files([plan.data.train, *(mixed.train for mixed in plan.data.mix)])
    check_shared(cache, "a cache of tokens", CACHED)
    cache.mkdir(parents=True, exist_ok=True)
    cluster = ray_engine(address, cache / "store", files) if on_ray else None
    with cluster or local_engine(processes, sum(file.stat().st_size for file in files)) as engine:
        prepared = prepare(plan, cache, TerminalDisplay(), engine)
    counts = {"train": len(prepared.train), "valid": len(prepared.valid) if prepared.valid is not None else 0}
    emit({"cache": str(cache), "examples": counts}, as_json, _text)


def _files(places: list[str]) -> list[Path]:
    """The files of examples in some places; of a place that is not there none, which `prepare` reports."""
    paths = [Path(place) for place in places if place]
    return [file for path in paths for file in (path.glob("*.parquet") if path.is_dir() else [path]) if file.is_file()]


def _text(result: Mapping[str, Any]) -> str:
    """The result for people."""
    counts = ", ".join(f"{count:,} {split}" for split, count in result["examples"].items())
    return f"examples: {counts}\nto train on them: --set data.cache={result['cache']}"
