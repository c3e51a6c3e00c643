"""Ablations: a recipe and rows that each change it (CONVERT, Table 4), trained and compared."""

from __future__ import annotations

import dataclasses
import difflib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import Field, PositiveFloat

from rejoinder.corpora import Split
from rejoinder.documents import markdown_table
from rejoinder.encoders import export, persistence
from rejoinder.errors import InputError, RejoinderError
from rejoinder.evaluation.ranking import Estimate, RankingResult, compare, evaluate_task
from rejoinder.evaluation.report import describe, percent
from rejoinder.evaluation.tasks import RankingTask
from rejoinder.files import atomic_file
from rejoinder.progress import Display
from rejoinder.settings import read_toml, section, validate
from rejoinder.training.distributed import Processes, is_first, joined, launch_place
from rejoinder.training.loop import train
from rejoinder.training.metrics import run_cost
from rejoinder.training.recipe import Recipe
from rejoinder.training.recipe_files import check_stages, first_difference, load_recipe
from rejoinder.training.run import RunFolder

BASE = "base"  # the row that changes nothing; all others are compared with it
# folders of the rows' runs, and of the vocabularies and token arrays that they share
ROWS = "rows"
TOKENS = "tokens"
BLOCK = 5000  # contexts encoded between two steps of the progress bar

Percent: TypeAlias = Annotated[float, Field(ge=0, le=100)]


@section
class PublishedCost:
    """A paper's cost of a training in its table of ablations (CONVERT, Table 4).

    It is given as published_cost = {...}.
    """

    steps_per_second: PositiveFloat
    usd: PositiveFloat  # of the whole training


@section
class Change:
    """[[row]]: one line of the table."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    """Of the row's folder, and for `--row`."""
    description: str = ""  # what the table calls it, if not by its name
    settings: Annotated[tuple[str, ...], Field(min_length=1)]
    """Changed settings, as `--set` takes them: "model.heads=8"."""
    published: Percent | None = None
    """Recall at 1 that a paper gives for it, to stand beside what is measured."""
    published_cost: PublishedCost | None = None  # and what it took there


@section
class Ablations:
    """The whole file."""

    name: str  # what the table is called
    recipe: str  # that every row starts from; a relative path starts at this file's folder
    settings: tuple[str, ...] = ()  # what all rows change in it, the base row too, such as budgets
    cumulative: bool = False
    """Add the changes of all rows above to each row (ACL19, Table 2)."""
    split: Split = "test"  # that is ranked; valid if a choice follows from the table
    published: Percent | None = None  # recall at 1 that a paper gives for the recipe
    published_cost: PublishedCost | None = None  # and what it took there
    row: Annotated[tuple[Change, ...], Field(min_length=1)]  # in the table's order

    def __post_init__(self) -> None:
        names = [BASE, *(row.name for row in self.row)]
        twice = [name for number, name in enumerate(names) if name in names[:number]]
        if twice:
            if twice[0] == BASE:
                raise ValueError(f"'{BASE}' is the recipe itself; give the row another name")
            raise ValueError(f"two rows have the name '{twice[0]}'; give each its own")


@dataclass(frozen=True, slots=True)
class Run:
    """One training of a row."""

    recipe: Recipe
    path: Path


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table, ready to be trained."""

    name: str
    title: str  # what the table calls it
    settings: tuple[str, ...]  # what it changes
    published: float | None
    published_cost: PublishedCost | None
    recipe: Recipe  # the base recipe with the changes

    def runs(self, folder: Path, seeds: int) -> list[Run]:
        """Return the row's trainings, one for each seed from the recipe's on.

        All use the cache of the table.
        """
        data = self.recipe.data
        if not data.cache:  # all rows share vocabularies and token arrays
            data = dataclasses.replace(data, cache=str(folder / TOKENS))
        recipe = dataclasses.replace(self.recipe, data=data)
        runs = [Run(recipe, folder / ROWS / self.name)]
        for seed in range(recipe.seed + 1, recipe.seed + seeds):
            path = folder / ROWS / f"{self.name}.seed-{seed}"  # the name of no row has a dot
            runs.append(Run(dataclasses.replace(recipe, seed=seed), path))
        return runs


@dataclass(frozen=True, slots=True)
class Plan:
    """All lines of a table, the base first, then those of the file in their order."""

    name: str
    origin: str  # the file
    split: Split  # that is ranked
    rows: tuple[Row, ...]

    def chosen(self, names: Sequence[str]) -> set[str]:
        """Return the names of the rows to train: those asked for (all if none is) and the base."""
        known = [row.name for row in self.rows]
        for name in names:
            if name not in known:
                nearest = difflib.get_close_matches(name, known, 1)
                guess = f"; did you mean '{nearest[0]}'?" if nearest else ";"
                rows = ", ".join(known)
                raise InputError(f"{self.origin} has no row '{name}'{guess} its rows: {rows}")
        return {BASE, *names} if names else set(known)


def load_plan(
    path: str | Path, overrides: Sequence[str] = (), data: str | Path | None = None
) -> Plan:
    """Read a file of ablations (see `Ablations`) and make the recipe of each row.

    `data` is its data.train. The overrides win over the recipe and the file, not over a row. A row
    needs its own recipe, and the base's budget.
    """
    path = Path(path)
    document = read_toml(
        path,
        "no such file; give a TOML file of ablations, or a name that `rejoinder recipes` lists",
    )
    if "stage" in document:
        raise InputError(
            f"{path} is a recipe; give a file of ablations, which names a recipe and lists rows"
        )
    file = validate(Ablations, document, str(path))

    def changed(name: str, settings: Sequence[str]) -> Recipe:
        places = {
            "data.train": data,
            "name": f"{file.name}: {name}",
            "description": ", ".join(settings),
        }
        return load_recipe(
            path.parent / file.recipe, (*file.settings, *overrides, *settings), places
        )

    base = Row(
        BASE, Path(file.recipe).name, (), file.published, file.published_cost, changed(BASE, ())
    )
    check_stages(base.recipe, Processes())
    rows = [base]
    above = tuple[str, ...]()
    for change in file.row:
        settings = (*above, *change.settings)
        above = settings if file.cumulative else ()
        try:
            recipe = changed(change.name, settings)
            _check_row(base.recipe, recipe)
        except InputError as error:
            raise InputError(f"{path}: row '{change.name}': {error}") from None
        title = change.description or change.name
        cost = change.published_cost
        rows.append(Row(change.name, title, settings, change.published, cost, recipe))
    return Plan(file.name, str(path), file.split, tuple(rows))


def _check_row(base: Recipe, row: Recipe) -> None:
    """Refuse a row that would show nothing, or fail after others have been trained."""
    if first_difference(base, row) is None:
        raise InputError("it changes nothing: the base has these settings already")
    budgets = [
        [(stage.steps, stage.epochs, stage.minutes) for stage in recipe.stage]
        for recipe in (base, row)
    ]
    if budgets[0] != budgets[1]:
        raise InputError(
            "its budget is not the base's, so the two do not compare;"
            " set budgets for all rows (--set)"
        )
    check_stages(row, Processes())


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
            k: _over_seeds([each["recall"][k]["value"] for each in results])
            for k in results[0]["recall"]
        }
        mrr = _over_seeds([each["mrr"]["value"] for each in results])
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
            f"{folder} is no folder of an ablation (it has no {ROWS});"
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
            ranker = persistence.load(summary.model)
            result = evaluate_task(ranker, task, seed=seed, block_size=BLOCK, progress=advance)
        cost = run_cost(run.path)
        found = {
            "failure": None,
            "result": result.to_json(),
            "minus_base": base and compare(result, base, seed=seed).to_json(),
            "parameters": int(export.describe(Path(summary.model))["parameters"]),
            "steps_per_second": cost and cost.whole.steps_per_second,
        }
        kept = ("steps", "examples", "seconds", "best_step", "validation", "model")
        return values | found | {name: getattr(summary, name) for name in kept}, result

    with joined() as processes:  # the others wait for the first, however long it ranks
        return processes.rank_zero_first(lambda: ranked() if processes.first else (values, None))


def markdown(table: Mapping[str, Any]) -> str:
    """Return a heading, what was ranked, and the table: shares in %, 95 % intervals in brackets."""
    rows = table["rows"]
    first = rows[0]["published"]
    published = any(row["published"] is not None for row in rows)
    seeds = table.get("seeds", 1)
    over = [f"R@1, {seeds} seeds", f"MRR, {seeds} seeds"] if seeds > 1 else []
    head = ["row", "R@1", "minus base", "MRR", *over]
    if published:
        head += ["published R@1", "minus base"]
    head += ["parameters", "steps", "steps/s"]
    costed = any(row["published_cost"] for row in rows)
    if costed:
        head += ["published steps/s", "published USD"]
    lines = [[*head, "examples"]]
    for row in rows:
        base = None if row is rows[0] else first
        lines.append(
            [
                row["title"],
                *_shares(row),
                *(_over_seeds_texts(row.get("over_seeds"), seeds) if over else []),
                *(_published_texts(row["published"], base) if published else []),
                *_costs(row),
                *(_published_costs(row["published_cost"]) if costed else []),
                f"{row['examples']:,}" if row.get("result") else "",
            ]
        )
    parts = [f"# {table['name']}", table["data"], table["ranked"]]
    if over:
        parts.append(
            "Over seeds: mean ± sample standard deviation. All else is of the recipe's own seed."
        )
    return "\n\n".join([*parts, markdown_table(lines)])


def _shares(row: Mapping[str, Any]) -> list[str]:
    """Return R@1 of a row, how much that is above the base's, and MRR, or that it failed."""
    result = row.get("result")
    if not result:
        return ["failed", "", ""]
    minus = row["minus_base"] and Estimate(**row["minus_base"]["recall"]["1"])
    return [
        percent(Estimate(**result["recall"]["1"]), "{} [{}, {}]"),
        percent(minus, "{:+} [{:+}, {:+}]"),
        percent(Estimate(**result["mrr"]), "{} [{}, {}]"),
    ]


def _costs(row: Mapping[str, Any]) -> list[str]:
    """Return parameters, steps and steps per second of a row."""
    if not row.get("result"):
        return ["", "", ""]
    speed = row["steps_per_second"]
    parameters = f"{row['parameters'] / 1e6:.2f}M"
    return [parameters, f"{row['steps']:,}", f"{speed:.2f}" if speed else ""]


def _published_texts(value: float | None, base: float | None) -> list[str]:
    if value is None:
        return ["", ""]
    return [f"{value:.1f}", "" if base is None else f"{value - base:+.1f}"]


def _published_costs(cost: Mapping[str, float] | None) -> list[str]:
    return [f"{cost['steps_per_second']:.1f}", f"{cost['usd']:.0f}"] if cost else ["", ""]


def _over_seeds_texts(over: Mapping[str, Any] | None, seeds: int) -> list[str]:
    """Return R@1 and MRR over the seeds of a row, with the number of runs where some failed."""
    if over is None:
        return ["", ""]
    texts = []
    for figure in (over["recall"]["1"], over["mrr"]):
        text = f"{100 * figure['mean']:.1f}"
        if figure["deviation"] is not None:
            text += f" ± {100 * figure['deviation']:.1f}"
        if figure["runs"] < seeds:
            text += f" ({figure['runs']} run{'s' * (figure['runs'] > 1)})"
        texts.append(text)
    return texts
