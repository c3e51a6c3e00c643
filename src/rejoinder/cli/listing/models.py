"""`rejoinder list models`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rejoinder.cli.arguments import Json
from rejoinder.cli.shell import emit, megabytes
from rejoinder.errors import InputError


def models(
    folders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FOLDER|NAME...", help="Folder to search, or a bundled model. Default: all."
        ),
    ] = None,
    with_sizes: Annotated[
        bool, typer.Option("--sizes", help="Show parameters, bytes and training speeds.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List bundled models and the model folders below other folders.

    Example: rejoinder list models runs --sizes
    """
    from rejoinder.encoders.folders import describe

    rows = []
    for folder, named in _model_folders(folders or []):
        row = describe(folder) | named
        if with_sizes:
            from rejoinder.encoders.export.folder import sizes
            from rejoinder.training.metrics import run_cost

            # of the run, if the model is still in its folder
            cost = run_cost(folder.resolve().parent)
            row |= {
                "sizes": asdict(sizes(folder)),
                "run": None if cost is None else cost.to_json(),
            }
        rows.append(row)
    emit(
        {"models": rows},
        as_json,
        lambda _: _sizes_table(rows) if rows and with_sizes else _list(rows),
    )


def _model_folders(names: Sequence[str]) -> list[tuple[Path, dict[str, Any]]]:
    """Return folders to list, with the name and the data's licence of a bundled model."""
    from rejoinder.encoders import bundled
    from rejoinder.encoders.folders import find, model_folders

    # a clone may lack weights, which is an error only if their name was passed
    def is_there(name: str) -> bool:
        folder = bundled.weights(name).folder
        return bundled.is_name(name) and folder is not None and folder.is_dir()

    folders: list[tuple[Path, dict[str, Any]]] = []
    for source in names or [*filter(is_there, bundled.names()), "."]:
        if bundled.is_name(source):
            folders.append(
                (
                    find(source),
                    {"name": source, "data_licence": bundled.weights(source).data_licence},
                )
            )
        elif Path(source).is_dir():
            folders += [(folder, {}) for folder in model_folders(Path(source))]
        else:
            known = ", ".join(bundled.names())
            raise InputError(
                f"{source} is not a folder; name folders to look for models in, or a model: {known}"
            )
    return folders


def _list(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "no model folder here; `rejoinder train RECIPE -o RUN` makes one"
    lines = []
    for model in rows:
        facts = [
            f"{_title(model)}  {model['kind']}",
            *(["quantised"] if model["quantized"] else []),
        ]
        facts += [
            f"{model['parameters'] / 1e6:.1f}M parameters",
            megabytes(model),
            model["fingerprint"][:12],
        ]
        facts += (
            [f"trained on data under {model['data_licence']}"] if "data_licence" in model else []
        )
        lines.append(", ".join(facts))
    return "\n".join(lines)


def _title(model: Mapping[str, Any]) -> str:
    return str(model.get("name", model["path"]))


def _sizes_table(listed: Sequence[Mapping[str, Any]]) -> str:
    rows: list[Sequence[str]] = [("model", "embedding", "network", "fp32", "quantised", "folder")]
    for model in listed:
        sizes = model["sizes"]
        counts = (f"{sizes[f'{part}_parameters'] / 1e6:.1f}M" for part in ("embedding", "network"))
        bytes_ = (sizes["fp32_bytes"], sizes["quantized_bytes"], model["bytes"])
        rows.append((_title(model), *counts, *(f"{number / 1e6:.1f} MB" for number in bytes_)))
    runs = [model["run"] for model in listed if model["run"] is not None]
    return "\n".join([*_aligned(rows), *(["", *_runs_table(runs)] if runs else [])])


def _runs_table(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    from rejoinder.progress import duration

    rows = [["run", "steps", "steps/s", "time"]]
    for run in runs:
        speed = f"{run['steps_per_second']:.2f}"
        rows.append([run["run"], f"{run['steps']:,}", speed, duration(run["seconds"])])
    return _aligned(rows)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows with columns two spaces apart, the first left-aligned, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = widths[0]
    right = widths[1:]
    return ["  ".join([row[0].ljust(left), *map(str.rjust, row[1:], right)]) for row in rows]
