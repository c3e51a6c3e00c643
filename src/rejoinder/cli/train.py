"""`rejoinder train`: run a recipe."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from rejoinder.cli.arguments import Json, SettingsOption
from rejoinder.cli.shell import emit
from rejoinder.errors import INTERRUPTED_CODE
from rejoinder.progress import note

if TYPE_CHECKING:
    from rejoinder.training.display import Display


RecipeFile: TypeAlias = Annotated[
    Path,
    typer.Argument(
        help="A recipe: a *.toml file, or the name of one that `rejoinder list recipes` lists."
    ),
]

DataOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Training examples (sets data.train).")
]

General: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DIR",
        help="Examples to mix in: data.mix.0.train. Repeat it to divide the share evenly.",
    ),
]

InitOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="MODEL", help="Model to start from: init.model.")
]


def train(
    recipe: RecipeFile,
    run: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="RUN", help="Folder for the results."),
    ],
    data: DataOption = None,
    general: General = None,
    init: InitOption = None,
    settings: SettingsOption = None,
    as_json: Json = False,
) -> None:
    """Train a model; continue RUN where it stopped if it exists.

    RUN/model is the best model by validation.

    Example: rejoinder train convert-quick --data data/chitchat -o runs/small

    To fine-tune a model on your own data: rejoinder train fine-tune-direct-small --init
    runs/small/model --data data/support -o runs/support
    """
    from rejoinder.memory import keep_memory
    from rejoinder.settings import find_recipe
    from rejoinder.training import distributed, loop, recipe_files

    keep_memory()
    loaded = recipe_files.load_recipe(
        find_recipe(recipe), settings or [], recipe_places(data, init), mixed=general or ()
    )
    with first_process_shows(run) as display:
        summary = loop.train(loaded, run, display=display)
    if distributed.is_first():
        emit(summary.to_json(), as_json, _train_text)


@contextlib.contextmanager
def first_process_shows(folder: Path) -> Iterator[Display]:
    """Return the display of a training that writes to a folder.

    Only the first process of torchrun reports errors, and on Ctrl-C what is in the folder.
    """
    from rejoinder.training import distributed, loop
    from rejoinder.training.display import Display, TerminalDisplay

    try:
        yield TerminalDisplay() if distributed.is_first() else Display()
    except KeyboardInterrupt as interruption:
        if distributed.is_first():
            if not folder.exists():
                raise
            if isinstance(interruption, loop.TrainingInterrupted):
                note(f"rejoinder: interrupted: {interruption} (in {folder})")
            else:
                note(f"rejoinder: interrupted; {folder} remains: the same command goes on with it")
        raise typer.Exit(INTERRUPTED_CODE) from None
    except distributed.RankZeroFailedError as error:  # another process reports it
        raise typer.Exit(error.code) from None


def recipe_places(data: Path | None, init: str | None) -> dict[str, Path | str | None]:
    """Return the settings that name the data and the model to start from."""
    return {"data.train": data, "init.model": init}


def _train_text(result: Mapping[str, Any]) -> str:
    from rejoinder.progress import duration
    from rejoinder.training.run.card import figure_texts
    from rejoinder.training.run.state import FEW

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
