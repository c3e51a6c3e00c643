"""Train the rows of an ablation and compare them on the same examples."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rejoinder.encoders import folders, persistence
from rejoinder.errors import InputError, RejoinderError
from rejoinder.evaluation.ranking import evaluate_task
from rejoinder.evaluation.report import describe
from rejoinder.evaluation.result import RankingResult, compare
from rejoinder.evaluation.tasks import RankingTask
from rejoinder.files import atomic_file
from rejoinder.lab.ablation_plan import BASE, ROWS, Plan, Row, Run
from rejoinder.lab.ablation_table import markdown
from rejoinder.training.display import Display
from rejoinder.training.distributed import is_first, joined, launch_place
from rejoinder.training.loop import train
from rejoinder.training.metrics import run_cost
from rejoinder.training.recipe_files import first_difference, load_recipe
from rejoinder.training.run.folder import RunFolder

BLOCK = 5000  # contexts encoded between two steps of the progress bar


def ablate(
    plan: Plan,
    folder: str | Path,
    task: RankingTask,
    *,
    data: str,
    names: Sequence[str] = (),
    seed: int = 0,
    seeds: int = 1,
    display: Display | None = None,
) -> dict[str, Any]:
    """Train rows one after the other, rank the task with each, and write the table after each.

    A row that is finished is not trained again, and one that was interrupted goes on; the table has
    all rows of the plan that are finished. A row whose loss diverges fails alone. Processes that
    torchrun started train each row together; the first one ranks, and only its table has results.

    The folder gets rows/NAME (runs), tokens, table.md and table.json, whose content is returned for
    `markdown` to show. `data` is what the table calls the task, `names` are the rows to train
    besides the base (none: all), `seed` is the bootstrap's. With `seeds` above 1 each row is also
    trained with the seeds that follow its recipe's (rows/NAME.seed-K), and the table has mean and
    sample deviation over them besides what the recipe's own seed gives. A row that is unknown, or a
    folder of something else, is an InputError before anything is trained.
    """
    display = display or Display()
    folder = Path(folder)
    rows = _rows(plan, plan.chosen(names), folder, seeds, display)
    table: dict[str, Any] = {"name": plan.name, "data": data, "ranked": "", "rows": []}
    if seeds > 1:
        table["seeds"] = seeds
    base: RankingResult | None = None
    for number, (row, runs) in enumerate(rows, 1):
        lines = []
        for run in runs:
            with_seed = f" (seed {run.recipe.seed})" if seeds > 1 else ""
            display.note(f"Row {number} of {len(rows)}: {row.name}{with_seed}")
            values, result = _line(row, run, task, base, seed, display)
            lines.append({"seed": run.recipe.seed} | values)
            if base is None and result is not None:
                base = result
                table["ranked"] = describe(result)
        table["rows"].append(_row_values(lines, seeds))
        if is_first():
            texts = {"md": markdown(table), "json": json.dumps(table, indent=2) + "\n"}
            for kind, text in texts.items():
                with atomic_file(folder / f"table.{kind}") as part:
                    part.write_text(text, encoding="utf-8")
    return table


def _row_values(lines: Sequence[Mapping[str, Any]], seeds: int) -> dict[str, Any]:
    """Return the values of a row: its own seed's, and with several seeds those of all."""
    values = dict(lines[0])
    del values["seed"]
    if seeds == 1:
        return values
    of_run = ["seed", "failure", "result", "steps", "examples", "seconds", "best_step"]
    of_run += ["steps_per_second", "model"]
    values["seeds"] = [{key: line[key] for key in of_run if key in line} for line in lines]
    failures = [f"seed {line['seed']}: {line['failure']}" for line in lines if line.get("failure")]
    if failures:
        values["failure"] = "; ".join(failures)
    if results := [line["result"] for line in lines if line.get("result")]:
        recall = {
            k: _over_seeds([result["recall"][k]["value"] for result in results])
            for k in results[0]["recall"]
        }
        mrr = _over_seeds([result["mrr"]["value"] for result in results])
        values["over_seeds"] = {"recall": recall, "mrr": mrr}
    return values


def _over_seeds(values: Sequence[float]) -> dict[str, Any]:
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "deviation": deviation, "runs": len(values)}


def _rows(
    plan: Plan, chosen: set[str], folder: Path, seeds: int, display: Display
) -> list[tuple[Row, Sequence[Run]]]:
    """Return the rows of the table with their trainings.

    They are the chosen rows, and of others what is finished. Refuse whatever would fail later.
    """
    if folder.exists() and (
        not folder.is_dir() or (any(folder.iterdir()) and not (folder / ROWS).is_dir())
    ):
        raise InputError(
            f"{folder} is not a folder of an ablation (it has no {ROWS});"
            " name another one, or a new one"
        )
    rows: list[tuple[Row, Sequence[Run]]] = []
    for row in plan.rows:
        runs = [
            run for run in row.runs(folder, seeds) if _belongs(run, row.name in chosen, display)
        ]
        # the row's own seed is what the table shows first
        if runs and runs[0].recipe.seed == row.recipe.seed:
            rows.append((row, runs))
    return rows


def _belongs(run: Run, chosen: bool, display: Display) -> bool:
    """Return whether a training is in the table.

    Refuse a chosen one that was begun with another recipe.
    """
    kept = RunFolder(run.path)
    before = load_recipe(kept.recipe, resolved=True) if kept.recipe.exists() else None
    difference = None if before is None else first_difference(before, run.recipe)
    if chosen and difference:
        raise InputError(
            f"{run.path} was begun with another recipe: {difference};"
            " name another folder, or the settings that it was begun with"
        )
    if difference and kept.summary.exists():
        display.note(f"{run.path} is left out of the table, it is of another recipe: {difference}")
    return chosen or (kept.summary.exists() and not difference)


def _line(
    row: Row, run: Run, task: RankingTask, base: RankingResult | None, seed: int, display: Display
) -> tuple[dict[str, Any], RankingResult | None]:
    """Do one training of a row and rank the task with it.

    Return its values and the result, or why there is none.
    """
    values: dict[str, Any] = {"row": row.name, "title": row.title, "settings": list(row.settings)}
    values["published"] = row.published
    values["published_cost"] = row.published_cost and dataclasses.asdict(row.published_cost)
    try:
        summary = train(run.recipe, run.path, display=display)
    except InputError:
        raise
    except RejoinderError as error:  # such as a loss that diverged
        if row.name == BASE or launch_place()["WORLD_SIZE"] > 1:
            raise
        display.note(f"{run.path.name} failed: {error}")
        return values | {"failure": str(error)}, None

    def ranked() -> tuple[dict[str, Any], RankingResult]:
        with display.track(f"Ranking with {run.path.name}", len(task), "examples") as advance:
            ranker = persistence.load(summary.model, device=run.recipe.compute.device)
            result = evaluate_task(ranker, task, seed=seed, block_size=BLOCK, progress=advance)
        cost = run_cost(run.path)
        figures = {
            "failure": None,
            "result": result.to_json(),
            "minus_base": base and compare(result, base, seed=seed).to_json(),
            "parameters": int(folders.describe(Path(summary.model))["parameters"]),
            "steps_per_second": cost and cost.whole.steps_per_second,
        }
        kept = ("steps", "examples", "seconds", "best_step", "validation", "model")
        return values | figures | {name: getattr(summary, name) for name in kept}, result

    with joined() as processes:  # the others wait for the first, however long it ranks
        return processes.rank_zero_first(lambda: ranked() if processes.first else (values, None))
