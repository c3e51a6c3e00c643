"""`rejoinder train` and `rejoinder recipes`: run a recipe, list those that there are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from rejoinder.cli.arguments import (
    Json,
    Settings,
)
from rejoinder.cli.shell import emit
from rejoinder.progress import note

if TYPE_CHECKING:
    from rejoinder.progress import Display

RecipeFile: TypeAlias = Annotated[
    Path,
    typer.Argument(
        help="A recipe: a *.toml file, or the name of one that `rejoinder recipes` lists."
    ),
]
Data: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Training examples (sets data.train).")
]
General: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="DIR", help="Examples to mix in: data.mix.0.train; repeatable."),
]
Init: TypeAlias = Annotated[
    str | None, typer.Option(metavar="MODEL", help="Model to start from: init.model.")
]


def train(
    recipe: RecipeFile,
    run: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="RUN", help="Folder for the results."),
    ],
    data: Data = None,
    general: General = None,
    init: Init = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Train a model; continue RUN where it stopped if it exists.

    RUN/model is the best model by validation.

    Example: rejoinder train convert-quick --data data/chitchat -o runs/small

    To fine-tune a model on your own data: rejoinder train fine-tune-direct-small --init
    runs/small/model --data data/support -o runs/support
    """
    from rejoinder.environment import keep_memory
    from rejoinder.settings import find_recipe
    from rejoinder.training import distributed, loop, recipe_files

    keep_memory()
    loaded = recipe_files.load_recipe(
        find_recipe(recipe), settings or [], recipe_places(data, general, init)
    )
    with first_process_shows() as display:
        summary = loop.train(loaded, run, display=display)
    if distributed.is_first():
        emit(summary.to_json(), as_json, _train_text)


_VERBS = {"ablations": "lab ablate", "tables": "lab table"}  # of the folders of recipes


def recipes(as_json: Json = False) -> None:
    """List the recipes that come with Rejoinder; commands accept these names.

    Example: rejoinder recipes --json
    """
    from rejoinder import settings

    found = []
    for name, path in settings.recipes().items():
        document = settings.read_toml(path, "gone")
        verb = _VERBS.get(name.partition("/")[0], "train")
        about = document["description" if verb == "train" else "name"]
        found.append({"name": name, "verb": verb, "description": about, "path": str(path)})
    width = max(len(each["name"]) for each in found)
    lines = []
    for verb in ("train", *_VERBS.values()):
        lines += ["", f"rejoinder {verb}"]
        lines += [
            f"  {each['name']:<{width}}  {each['description']}"
            for each in found
            if each["verb"] == verb
        ]
    emit({"recipes": found}, as_json, lambda _: "\n".join(lines[1:]))


@contextlib.contextmanager
def first_process_shows() -> Iterator[Display]:
    """Return the display of a training.

    Only the first process of torchrun reports errors.
    """
    from rejoinder.progress import Display, TerminalDisplay
    from rejoinder.training import distributed, loop

    try:
        yield TerminalDisplay() if distributed.is_first() else Display()
    except loop.TrainingInterrupted as interruption:
        if not distributed.is_first():
            raise typer.Exit(130) from None
        note(f"rejoinder: {interruption}")
        raise
    except distributed.RankZeroFailedError as error:  # another process reports it
        raise typer.Exit(error.code) from None


def recipe_places(
    data: Path | None, general: list[str] | None, init: str | None
) -> dict[str, Path | str | None]:
    """Return the settings that name data and the model to start from."""
    mixed = {f"data.mix.{number}.train": place for number, place in enumerate(general or [])}
    return {"data.train": data, "init.model": init, **mixed}


def _train_text(result: Mapping[str, Any]) -> str:
    from rejoinder.progress import duration
    from rejoinder.training.run import FEW, figure_texts

    done = f"{result['run']} is finished already; name another folder to train again"
    pairs = f"{result['steps']:,} steps, {result['examples']:,} pairs"
    lines = [*([done] if result["already_finished"] else [])]
    lines.append(f"{pairs} in {duration(result['seconds'])}, {result['precision']}")
    for name, value in figure_texts(result["validation"]).items():
        lines.append(f"validation {name}: {value} (step {result['best_step']:,})")
    if examples := result["validation"].get("examples"):
        lines.append(
            f"chosen by {'mrr' if examples < FEW else 'recall@1'}"
            f" on {examples:,.0f} validation examples"
        )
    return "\n".join([*lines, f"model: {result['model']}"])
