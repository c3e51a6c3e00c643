"""Ablations: a recipe and rows that each change it (CONVERT, Table 4)."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field, PositiveFloat

from rejoinder.corpora.pipeline.summary import SUMMARY
from rejoinder.corpora.splits import Split
from rejoinder.errors import InputError
from rejoinder.json_parsing import parse_json
from rejoinder.settings import read_toml, section, validate
from rejoinder.training.distributed import Processes
from rejoinder.training.recipe.settings import Recipe
from rejoinder.training.recipe_files import check_stages, first_difference, load_recipe

BASE = "base"  # the row that changes nothing; all others are compared with it
# folders of the rows' runs, and of the vocabularies and token arrays that they share
ROWS = "rows"
TOKENS = "tokens"

Percent: TypeAlias = Annotated[float, Field(ge=0, le=100)]
DataPart: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9-]+ (train|valid|test)$")]
"""A corpus, as `rejoinder list corpora` calls it, and a part of it: "dstc7 test"."""
Published: TypeAlias = Percent | dict[DataPart, Percent]
"""Recall at 1 that a paper gives, for the plan's part of any data, or by data and part."""


@section
class PublishedCost:
    """A paper's cost of a training in its table of ablations (CONVERT, Table 4).

    It is given as published_cost = {...}.
    """

    steps_per_second: PositiveFloat
    usd: PositiveFloat  # of the whole training


@section
class SettingChange:
    """[[row]]: one line of the table."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    """Of the row's folder, and for `--row`."""
    description: str = ""  # what the table calls it, if not by its name
    settings: Annotated[tuple[str, ...], Field(min_length=1)]
    """Changed settings, as `--set` takes them: "model.heads=8"."""
    published: Published | None = None
    """Recall at 1 that a paper gives for it, to stand beside what is measured on the same data and
    part."""
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
    published: Published | None = None  # recall at 1 that a paper gives for the recipe
    published_cost: PublishedCost | None = None  # and what it took there
    row: Annotated[tuple[SettingChange, ...], Field(min_length=1)]  # in the table's order

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
    path: str | Path,
    overrides: Sequence[str] = (),
    data: str | Path | None = None,
    split: Split | None = None,
) -> Plan:
    """Read a file of ablations (see `Ablations`) and make the recipe of each row.

    `data` is its data.train, `split` the part to rank instead of the file's. The overrides win over
    the recipe and the file, not over a row. A row needs its own recipe, and the base's budget.
    Published figures of other data, or of another part, are left out.
    """
    path = Path(path)
    document = read_toml(
        path,
        "no such file; give a TOML file of ablations, or a name of `rejoinder list recipes`",
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

    ranked = split or file.split
    source = "" if data is None else _source_of(Path(data))

    def comparable(published: float | dict[str, float] | None) -> float | None:
        if isinstance(published, dict):
            return published.get(f"{source} {ranked}")
        return published if ranked == file.split else None

    base = Row(
        BASE,
        Path(file.recipe).name,
        (),
        comparable(file.published),
        file.published_cost,
        changed(BASE, ()),
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
        published = comparable(change.published)
        rows.append(Row(change.name, title, settings, published, cost, recipe))
    return Plan(file.name, str(path), ranked, tuple(rows))


def _source_of(folder: Path) -> str:
    """Return the corpus of a folder that `rejoinder data` wrote; of anything else, nothing."""
    try:
        summary = parse_json((folder / SUMMARY).read_text(encoding="utf-8"))
        return str(summary["source"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


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
