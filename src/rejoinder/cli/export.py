"""`rejoinder export` and `rejoinder models`: a trained model in other forms; what models are at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rejoinder.cli.options import Json, Overwrite
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError


def export(
    model: Annotated[str, typer.Argument(help="A model folder, a bundled model's name, or an id on the Hub.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write.")],
    quantized: Annotated[
        bool, typer.Option("--quantized", help="8-bit embeddings, 16 bits for the rest: a model folder to load.")
    ] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="Both encoders as ONNX files, with the vocabulary.")] = False,
    sentence_transformers: Annotated[
        bool, typer.Option("--sentence-transformers", help="A folder that SentenceTransformer opens.")
    ] = False,
    transformers: Annotated[
        bool, typer.Option("--transformers", help="The transformer inside, as a checkpoint that transformers opens.")
    ] = False,
    side: Annotated[
        Literal["context", "response"] | None,
        typer.Option(help="With --sentence-transformers: what plain `encode` takes texts as."),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a trained model in another form.

    Example: rejoinder export demo/run/model --quantized -o demo/small
    """
    forms = {"--quantized": quantized, "--onnx": onnx, "--sentence-transformers": sentence_transformers}
    forms["--transformers"] = transformers
    chosen = [form for form, wanted in forms.items() if wanted]
    if len(chosen) != 1:
        given = f"{' and '.join(chosen)} were given; " if chosen else ""
        raise InputError(f"{given}give one form to write the model in: {', '.join(forms)}")
    if side is not None and not sentence_transformers:
        raise InputError(f"--side is for --sentence-transformers alone; {chosen[0]} has both sides")
    if sentence_transformers:
        from rejoinder.models.sentence_module import export_sentence_transformers

        result = export_sentence_transformers(model, output, side or "context", overwrite=overwrite)
        text = (
            f'SentenceTransformer("{result["path"]}", trust_remote_code=True): encode_query for contexts, '
            f"encode_document for responses, encode for {result['side']}s\nmodel: {result['path']}"
        )
    else:
        result, text = _write(chosen[0], model, output, overwrite)
    emit({"model": model, "form": chosen[0].removeprefix("--"), **result}, as_json, lambda _: text)


def _write(form: str, model: str, output: Path, overwrite: bool) -> tuple[dict[str, Any], str]:
    from rejoinder.models.export import export_onnx, export_quantized, export_transformer

    if form == "--onnx":
        result = export_onnx(model, output, overwrite=overwrite)
        return result, f"{' and '.join(result['files'])}, {result['bytes'] / 1e6:.1f} MB\nfolder: {result['path']}"
    if form == "--transformers":
        result = export_transformer(model, output, overwrite=overwrite)
        return result, (
            f"{result['parameters']:,} parameters, {result['bytes'] / 1e6:.1f} MB\n"
            f"to start a model from it: --set init.transformer={result['path']}"
        )
    result = export_quantized(model, output, overwrite=overwrite)
    untrained = (
        "rounded after training, which changes the vectors a little; quantization.enabled = true in the recipe "
        "trains a model for it\n"
    )
    return result, (
        f"{result['bytes'] / 1e6:.1f} MB instead of {result['full_bytes'] / 1e6:.1f}: "
        f"embeddings in 8 bits, the rest in {result['half']}\n"
        f"{'' if result['trained'] else untrained}model: {result['path']}"
    )


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
    as_json: Json = False,
) -> None:
    """List the models that come with the package, and the model folders below some folders, with their sizes.

    Example: rejoinder models runs --sizes --price-per-hour 4.65 --steps 966000
    """
    from rejoinder.models.persistence import describe, sizes
    from rejoinder.training.metrics import run_cost

    with_sizes = with_sizes or price is not None or steps is not None
    found = []
    for folder, named in _model_folders(folders or []):
        row = describe(folder) | named
        if with_sizes:
            cost = run_cost(folder.resolve().parent)  # of the run that wrote it, where it is still beside it
            row |= {"sizes": asdict(sizes(folder)), "run": None if cost is None else cost.to_json(price, steps)}
        found.append(row)
    emit({"models": found}, as_json, lambda _: _sizes_table(found) if found and with_sizes else _list(found))


def _model_folders(given: Sequence[str]) -> list[tuple[Path, dict[str, Any]]]:
    """Return folders to list, with the name and the data's licence of a bundled model.

    A clone without weights lacks the folders of bundled models: that is an error only where a name is given.
    """
    from rejoinder.models import bundled
    from rejoinder.models.persistence import find, model_folders

    def is_there(name: str) -> bool:
        folder = bundled.weights(name).folder
        return bundled.is_name(name) and folder is not None and folder.is_dir()

    found: list[tuple[Path, dict[str, Any]]] = []
    for place in given or [*filter(is_there, bundled.names()), "."]:
        if bundled.is_name(place):
            found.append((find(place), {"name": place, "data_licence": bundled.weights(place).data_licence}))
        elif Path(place).is_dir():
            found += [(folder, {}) for folder in model_folders(Path(place))]
        else:
            raise InputError(
                f"{place} is not a folder; name folders to look for models in, or a model: {', '.join(bundled.names())}"
            )
    return found


def _list(found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return "no model folder here; `rejoinder train RECIPE -o RUN` makes one"
    return "\n".join(
        f"{_title(model)}  {model['kind']}{', quantised' if model['quantized'] else ''}, "
        f"{model['parameters'] / 1e6:.1f}M parameters, {model['bytes'] / 1e6:.1f} MB, {model['fingerprint'][:12]}"
        f"{', trained on data under ' + model['data_licence'] if 'data_licence' in model else ''}"
        for model in found
    )


def _title(model: Mapping[str, Any]) -> str:
    return str(model.get("name", model["path"]))


def _sizes_table(found: Sequence[Mapping[str, Any]]) -> str:
    rows: list[Sequence[str]] = [("model", "embedding", "network", "fp32", "quantised", "folder")]
    for model in found:
        sizes = model["sizes"]
        counts = (f"{sizes[f'{part}_parameters'] / 1e6:.1f}M" for part in ("embedding", "network"))
        bytes_ = (sizes["fp32_bytes"], sizes["quantized_bytes"], model["bytes"])
        rows.append((_title(model), *counts, *(f"{number / 1e6:.1f} MB" for number in bytes_)))
    runs = [model["run"] for model in found if model["run"] is not None]
    return "\n".join([*_aligned(rows), *(["", *_runs_table(runs)] if runs else [])])


def _runs_table(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    from rejoinder.training.display import duration

    cost, stated = ["cost"] if "cost" in runs[0] else [], runs[0].get("stated")
    rows = [["run", "steps", "steps/s", "time", *cost, *([f"{stated['steps']:,} steps", *cost] if stated else [])]]
    for run in runs:
        row = [run["run"], f"{run['steps']:,}", f"{run['steps_per_second']:.2f}"]
        for account in (run, run["stated"]) if stated else (run,):
            row += [duration(account["seconds"]), *(f"{account[name]:,.2f}" for name in cost)]
        rows.append(row)
    return _aligned(rows)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows with columns two blanks apart, the first to the left, the others to the right."""
    left, *right = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        "  ".join([row[0].ljust(left), *(cell.rjust(width) for cell, width in zip(row[1:], right, strict=True))])
        for row in rows
    ]
