"""Training the rows of a file of ablations for equal compute, and comparing what came out on the same examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from rejoinder.errors import InputError, RejoinderError
from rejoinder.evaluation.ranking import RankingResult, compare, evaluate_task
from rejoinder.evaluation.tasks import RankingTask
from rejoinder.models import persistence
from rejoinder.training.ablation_table import AblationTable, Line, Trained
from rejoinder.training.ablations import BASE, Plan, Row
from rejoinder.training.costs import run_cost
from rejoinder.training.display import Display, Silent
from rejoinder.training.distributed import is_first, joined, started_with
from rejoinder.training.loop import train
from rejoinder.training.recipe_files import first_difference, load_recipe
from rejoinder.training.run_folder import RunFolder
from rejoinder.training.summary import RunSummary

ROWS, TOKENS = "rows", "tokens"
"""Folders of the rows' runs, and of the vocabularies and token arrays that they share."""

BLOCK = 5000
"""Contexts encoded between two steps of the progress bar."""


def ablate(
    plan: Plan,
    folder: str | Path,
    task: RankingTask,
    *,
    data: str,
    names: Sequence[str] = (),
    seed: int = 0,
    display: Display | None = None,
) -> AblationTable:
    """Train rows one after the other, rank the task with each, and write the table after each.

    A row that is finished is not trained again, and one that was interrupted goes on; the table has all rows of the
    plan that are finished, whether they were asked for or not. A row whose loss diverges fails alone.

    Where torchrun started several processes that all call this, they train each row together; the first one ranks,
    and only its table has results. A row that fails then ends all of them.

    Args:
        plan: see `ablations.load_plan`.
        folder: for everything that comes out: rows/NAME (runs), tokens, table.md, table.csv, table.json.
        task: what all rows rank (see `tasks.ranking_task`).
        data: its name.
        names: rows to train besides the base; none: all.
        seed: of the bootstrap.
        display: shows progress; None shows nothing.

    Raises:
        InputError: there is no such row, the folder is of something else, or it has one of these rows with another
            recipe; nothing is trained then.
        RejoinderError: the base row failed.
        TrainingInterrupted: Ctrl-C; the same call goes on from there.
    """
    display, folder = display or Silent(), Path(folder)
    rows = _rows(plan, plan.chosen(names), folder, display)
    lines: list[Line] = []
    for number, row in enumerate(rows, 1):
        display.note(f"Row {number} of {len(rows)}: {row.name}")
        base = lines[0].trained.result if lines and lines[0].trained else None
        lines.append(_line(row, folder / ROWS / row.name, task, base, seed, display))
        table = AblationTable(plan.name, data, tuple(lines))
        if is_first():
            table.save(folder)
    return table


def _rows(plan: Plan, chosen: set[str], folder: Path, display: Display) -> list[Row]:
    """The rows of the table: the chosen ones, and others that are finished. Refuses whatever would fail later."""
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / ROWS).is_dir())):
        raise InputError(f"{folder} is no folder of an ablation (it has no {ROWS}); name another one, or a new one")
    rows = []
    for row in (_sharing(row, folder) for row in plan.rows):
        run = RunFolder(folder / ROWS / row.name)
        before = load_recipe(run.recipe, resolved=True) if run.recipe.exists() else None
        difference = None if before is None else first_difference(before, row.recipe)
        if row.name in chosen and difference:
            raise InputError(
                f"{run.path} was begun with another recipe: {difference}; name another folder, or the settings that "
                "it was begun with"
            )
        if row.name in chosen or (run.summary.exists() and not difference):
            rows.append(row)
        elif run.summary.exists():
            display.note(f"{run.path} is left out of the table, it is of another recipe: {difference}")
    return rows


def _sharing(row: Row, folder: Path) -> Row:
    """The row with its vocabulary and token arrays where the others have theirs."""
    if row.recipe.data.cache:
        return row
    data = dataclasses.replace(row.recipe.data, cache=str(folder / TOKENS))
    return dataclasses.replace(row, recipe=dataclasses.replace(row.recipe, data=data))


def _line(row: Row, run: Path, task: RankingTask, base: RankingResult | None, seed: int, display: Display) -> Line:
    """Train a row, or take what is there; rank with its model."""
    try:
        summary = train(row.recipe, run, display=display)
    except InputError:
        raise
    except RejoinderError as error:
        if row.name == BASE or started_with()["WORLD_SIZE"] > 1:
            raise
        display.note(f"{row.name} failed: {error}")
        return Line(row, None, str(error))
    with joined() as processes:  # the others wait for the first, however long it ranks
        return processes.first_before_others(
            lambda: _ranked(row, summary, run, task, base, seed, display) if processes.first else Line(row, None)
        )


def _ranked(
    row: Row, summary: RunSummary, run: Path, task: RankingTask, base: RankingResult | None, seed: int, display: Display
) -> Line:
    """Rank the task with the model of a row."""
    with display.track(f"Ranking with {row.name}", len(task), "examples") as advance:
        ranker = persistence.load(summary.model)
        result = evaluate_task(ranker, task, seed=seed, block_size=BLOCK, progress=advance)
    cost = run_cost(run)
    trained = Trained(
        summary=summary,
        parameters=int(persistence.describe(Path(summary.model))["parameters"]),
        steps_per_second=None if cost is None else cost.whole.steps_per_second,
        result=result,
        minus_base=None if base is None else compare(result, base, seed=seed),
    )
    return Line(row, trained)
