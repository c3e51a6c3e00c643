"""`rejoinder models`: what is at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rejoinder.cli.shell import emit


def models(
    folders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FOLDER|NAME...", help="Where to look, or a bundled model; if not given, all of these, and here."
        ),
    ] = None,
    with_sizes: Annotated[
        bool, typer.Option("--sizes", help="Show parameters and bytes, in float32 and quantised, and runs' speeds.")
    ] = False,
    price: Annotated[
        float | None, typer.Option("--price-per-hour", min=0, help="Of the machine: show what the runs cost.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Show the time (and cost) of this number of steps at each run's speed.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the models that come with the package, and the model folders below some folders, with their sizes.

    Example: rejoinder models runs --sizes --price-per-hour 4.65 --steps 966000
    """
    from rejoinder.models.persistence import describe

    shown = with_sizes or price is not None or steps is not None
    found = [
        describe(folder) | more | (_size_and_cost(folder, price, steps) if shown else {})
        for folder, more in _places(folders or [])
    ]
    emit({"models": found}, as_json, lambda _: _sizes_table(found) if shown else _table(found))


def _places(given: Sequence[str]) -> list[tuple[Path, dict[str, Any]]]:
    """Model folders, with name and licence of the data of those that have a name. Nothing given: all, and those here.

    Raises:
        InputError: one of them is neither a folder nor a model's name; or the model of a name that was given is absent.
    """
    from rejoinder.errors import InputError
    from rejoinder.models import bundled
    from rejoinder.models.persistence import find, model_folders

    found: list[tuple[Path, dict[str, Any]]] = []
    for place in given or [name for name in bundled.names() if _is_there(name)]:
        if bundled.is_name(place):
            found.append((find(place), {"name": place, "data_licence": bundled.weights(place).data_licence}))
        elif Path(place).is_dir():
            found += [(folder, {}) for folder in model_folders(Path(place))]
        else:
            raise InputError(
                f"{place} is not a folder; name folders to look for models in, or a model: {', '.join(bundled.names())}"
            )
    return found if given else [*found, *((folder, {}) for folder in model_folders(Path()))]


def _is_there(name: str) -> bool:
    """Whether a model's folder is there (in a clone without weights it is not), and its name means it here."""
    from rejoinder.models import bundled

    folder = bundled.weights(name).folder
    return bundled.is_name(name) and folder is not None and folder.is_dir()


def _size_and_cost(folder: Path, price: float | None, steps: int | None) -> dict[str, Any]:
    """`sizes` of a model folder, and `run`: what the run took that wrote it, where it is still beside it."""
    from rejoinder.models.persistence import sizes
    from rejoinder.training.metrics import run_cost

    cost = run_cost(folder.resolve().parent)
    return {"sizes": asdict(sizes(folder)), "run": None if cost is None else cost.to_json(price, steps)}


def _table(found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return "no model folder here; `rejoinder train RECIPE -o RUN` makes one"
    return "\n".join(
        f"{_title(model)}  {model['kind']}{', quantised' if model['quantized'] else ''}, "
        f"{model['parameters'] / 1e6:.1f}M parameters, "
        f"{model['bytes'] / 1e6:.1f} MB, {model['fingerprint'][:12]}"
        f"{', trained on data under ' + model['data_licence'] if 'data_licence' in model else ''}"
        for model in found
    )


def _title(model: Mapping[str, Any]) -> str:
    """What a model is opened by."""
    return str(model.get("name", model["path"]))


def _sizes_table(found: Sequence[Mapping[str, Any]]) -> str:
    """The columns of the paper's tables of models and of ablations."""
    if not found:
        return _table(found)
    rows: list[Sequence[str]] = [("model", "embedding", "network", "fp32", "quantised", "folder")]
    for model in found:
        sizes = model["sizes"]
        counts = (f"{sizes[f'{part}_parameters'] / 1e6:.1f}M" for part in ("embedding", "network"))
        bytes_ = (sizes["fp32_bytes"], sizes["quantized_bytes"], model["bytes"])
        rows.append((_title(model), *counts, *(f"{number / 1e6:.1f} MB" for number in bytes_)))
    runs = [model["run"] for model in found if model["run"] is not None]
    return "\n".join([*_aligned(rows), *(["", *_runs_table(runs)] if runs else [])])


def _runs_table(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    priced, stated = "cost" in runs[0], runs[0].get("stated")
    head = ["run", "steps", "steps/s", "time", *(["cost"] if priced else [])]
    head += [f"{stated['steps']:,} steps", *(["cost"] if priced else [])] if stated else []
    return _aligned([head, *(_run_row(run) for run in runs)])


def _run_row(run: Mapping[str, Any]) -> list[str]:
    from rejoinder.training.display import duration

    row = [run["run"], f"{run['steps']:,}", f"{run['steps_per_second']:.2f}"]
    for account in (run, run.get("stated")):
        if account is not None:
            row += [duration(account["seconds"]), *([f"{account['cost']:,.2f}"] if "cost" in account else [])]
    return row


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns two blanks apart, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left, *right = widths
    return [
        "  ".join([row[0].ljust(left), *(cell.rjust(width) for cell, width in zip(row[1:], right, strict=True))])
        for row in rows
    ]
