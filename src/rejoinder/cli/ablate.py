"""`rejoinder ablate`: train the rows of a table of ablations and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rejoinder.cli.evaluate import parse_split, read_task
from rejoinder.cli.shell import emit
from rejoinder.progress import note


def ablate(
    file: Annotated[Path, typer.Argument(help="A recipe and rows that change it, recipes/ablations*.toml.")],
    data: Annotated[Path, typer.Option(metavar="DIR", help="Examples to train on and to rank.")],
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for runs and table.")],
    more: Annotated[list[str] | None, typer.Argument(metavar="ROW...", hidden=True)] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option("--rows", metavar="ROW...", help="Train these and the base; all rows if not given."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of all rows, a budget say; repeatable."),
    ] = None,
    candidates: Annotated[int, typer.Option(metavar="N", help="N of 1-of-N, where the data has no lists.")] = 100,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Rank at most N examples, drawn at random.")
    ] = None,
    split: Annotated[
        str, typer.Option(metavar="train|valid|test", help="What is ranked; valid if you choose by the table.")
    ] = "test",
    seed: Annotated[int, typer.Option(min=0, help="Of the groups, of --limit and of the intervals.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train each row of FILE with the same budget and compare them on the same examples: DIR/table.md, .csv, .json.

    A row that is finished is not trained again; after Ctrl-C the same command goes on where it stopped.

    Example: rejoinder ablate recipes/ablations-small.toml --data data/chitchat -o ablations --rows heads-8 no-skip
    """
    from rejoinder.errors import RejoinderError
    from rejoinder.memory import keep_memory
    from rejoinder.training.ablate import ablate as train_rows
    from rejoinder.training.ablations import load_plan
    from rejoinder.training.display import Silent, TerminalDisplay
    from rejoinder.training.distributed import is_first
    from rejoinder.training.loop import TrainingInterrupted
    from rejoinder.training.presence import ElsewhereError
    from rejoinder.training.toml_text import toml_value

    keep_memory()
    shown = is_first()  # of the processes that torchrun started
    names = [*(rows or []), *(more or [])]
    plan = load_plan(file, [*(settings or []), f"data.train={toml_value(str(data))}"])
    plan.chosen(names)  # a wrong name is refused before the data is read
    name, task = read_task(data, parse_split(split), candidates, limit, seed)
    display = TerminalDisplay() if shown else Silent()
    try:
        table = train_rows(plan, folder, task, data=name, names=names, seed=seed, display=display)
    except TrainingInterrupted as interruption:
        if not shown:
            raise typer.Exit(130) from None
        note(f"rejoinder: {interruption}")
        raise
    except ElsewhereError as error:  # another process reports it
        raise typer.Exit(error.code) from None
    if not shown:
        return
    emit({**table.to_json(), "folder": folder}, as_json, lambda _: f"{table.markdown()}\nfolder: {folder}")
    if table.failed:
        reasons = "; ".join(f"{line.row.name}: {line.failure}" for line in table.failed)
        raise RejoinderError(f"{len(table.failed)} of {len(table.lines)} rows failed, the others are done: {reasons}")
