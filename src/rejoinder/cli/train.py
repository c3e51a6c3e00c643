"""`rejoinder train`: train a model as a recipe says, or continue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rejoinder.cli.shell import emit
from rejoinder.progress import note


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe, *.toml.")],
    run: Annotated[Path, typer.Option("--output", "-o", metavar="RUN", help="Folder for everything that comes out.")],
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Examples to train on, instead of the recipe's data.train.")
    ] = None,
    general: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="Examples to mix in, instead of the recipe's data.mix.0.train; repeatable."),
    ] = None,
    init: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Model to start from, instead of the recipe's init.model.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, as in stage.0.minutes=2; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train a model; continue RUN where it stopped if it exists. RUN/model is the best model by validation.

    Example: rejoinder train recipes/convert-small.toml --data data/chitchat -o runs/small

    To go on from a model with data of your own:
    rejoinder train recipes/fine-tune-direct-small.toml --init runs/small/model --data data/support -o runs/support
    """
    from rejoinder.memory import keep_memory
    from rejoinder.training.display import Silent, TerminalDisplay
    from rejoinder.training.distributed import is_first
    from rejoinder.training.loop import TrainingInterrupted
    from rejoinder.training.loop import train as run_recipe
    from rejoinder.training.presence import ElsewhereError
    from rejoinder.training.recipe_files import load_recipe
    from rejoinder.training.toml_text import toml_value

    keep_memory()
    places = {"data.train": data, "init.model": init}
    places |= {f"data.mix.{number}.train": place for number, place in enumerate(general or [])}
    overrides = [*(settings or []), *(f"{key}={toml_value(str(place))}" for key, place in places.items() if place)]
    shown = is_first()  # of the processes that torchrun started
    try:
        summary = run_recipe(load_recipe(recipe, overrides), run, display=TerminalDisplay() if shown else Silent())
    except TrainingInterrupted as interruption:
        if not shown:
            raise typer.Exit(130) from None
        note(f"rejoinder: {interruption}")
        raise
    except ElsewhereError as error:  # another process reports it
        raise typer.Exit(error.code) from None
    if shown:
        emit(summary.to_json(), as_json, _text)


def _text(result: Mapping[str, Any]) -> str:
    """The summary for people."""
    from rejoinder.training.display import duration
    from rejoinder.training.summary import figure_text

    lines = []
    if result["already_finished"]:
        lines.append(f"{result['run']} is finished already; name another folder to train again")
    pairs = f"{result['steps']:,} steps, {result['examples']:,} pairs"
    lines.append(f"{pairs} in {duration(result['seconds'])}, {result['precision']}")
    for name, value in result["validation"].items():
        lines.append(f"validation {name}: {figure_text(name, value)} (step {result['best_step']:,})")
    return "\n".join([*lines, f"model: {result['model']}"])
