"""A file of ablations: a recipe, and rows that each change something in it (CONVERT, Table 4, is such a table)."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from rejoinder.checking import read_toml, validate
from rejoinder.errors import InputError
from rejoinder.training.distributed import Processes
from rejoinder.training.recipe import Recipe
from rejoinder.training.recipe_files import first_difference, load_recipe
from rejoinder.training.recipe_types import STRICT
from rejoinder.training.stage_checks import check_stages

BASE = "base"
"""Name of the row that changes nothing; all others are compared with it."""

Percent = Annotated[float, Field(ge=0, le=100)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Change:
    """[[row]]: one line of the table."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    """Short name in small letters, digits and hyphens: of the row's folder, and for `--rows`."""
    description: str = ""
    """What the table calls it, if not by its name."""
    settings: Annotated[tuple[str, ...], Field(min_length=1)]
    """What it changes, each as `--set` takes it: "model.heads=8"."""
    published: Percent | None = None
    """Recall at 1 that a paper gives for it, in %, to stand beside ours."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Ablations:
    """The whole file."""

    name: str
    """What the table is called."""
    recipe: str
    """The recipe that every row starts from; a relative path starts at this file's folder."""
    settings: tuple[str, ...] = ()
    """What all rows change in it, the base row too: budgets, say."""
    cumulative: bool = False
    """Whether each row also has the changes of all rows above it (ACL19, Table 2, is such a table)."""
    published: Percent | None = None
    """Recall at 1 that a paper gives for the recipe, in %."""
    row: Annotated[tuple[Change, ...], Field(min_length=1)]
    """The rows, in the table's order."""

    def __post_init__(self) -> None:
        names = [BASE, *(row.name for row in self.row)]
        twice = [name for number, name in enumerate(names) if name in names[:number]]
        if twice:
            kept = " (the recipe itself)" if twice[0] == BASE else ""
            raise ValueError(f"two rows have the name '{twice[0]}'{kept}; give each its own")


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One line of the table, ready to be trained.

    Attributes:
        name: see `Change`; `BASE` for the recipe itself.
        title: what the table calls it.
        settings: what it changes.
        published: see `Change`.
        recipe: the base recipe with the changes.
    """

    name: str
    title: str
    settings: tuple[str, ...]
    published: float | None
    recipe: Recipe


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """All lines of a table.

    Attributes:
        name: of the table.
        origin: the file.
        rows: the base first, then those of the file in their order.
    """

    name: str
    origin: str
    rows: tuple[Row, ...]

    def chosen(self, names: Sequence[str]) -> set[str]:
        """Names of the rows to train: those asked for (all if none is) and the base, which they are compared with.

        Raises:
            InputError: there is no row of a name.
        """
        known = [row.name for row in self.rows]
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean '{near[0]}'?" if near else ";"
                raise InputError(f"{self.origin} has no row '{name}'{hint} its rows: {', '.join(known)}")
        return {BASE, *names} if names else set(known)


def load_plan(path: str | Path, overrides: Sequence[str] = ()) -> Plan:
    """Read a file of ablations and make the recipe of each row.

    Args:
        path: a TOML file; see `Ablations`.
        overrides: settings of all rows that win over the recipe's and the file's, but not over what a row changes:
            a row would else not be what its name says.

    Raises:
        InputError: the file is missing or wrong; or a row's recipe is not allowed, is that of the base, has another
            budget than the base, or does not fit its model.
    """
    path = Path(path)
    file = _read(path)
    recipe, common = path.parent / file.recipe, (*file.settings, *overrides)
    base = Row(BASE, file.recipe, (), file.published, load_recipe(recipe, common))
    check_stages(base.recipe, Processes())
    rows, above = [base], tuple[str, ...]()
    for change in file.row:
        settings = (*above, *change.settings)
        above = settings if file.cumulative else ()
        try:
            changed = load_recipe(recipe, (*common, *settings))
            _check_row(base.recipe, changed)
        except InputError as error:
            raise InputError(f"{path}: row '{change.name}': {error}") from None
        rows.append(Row(change.name, change.description or change.name, settings, change.published, changed))
    return Plan(file.name, str(path), tuple(_named(file.name, row) for row in rows))


def _read(path: Path) -> Ablations:
    document = read_toml(path, "no such file; give a TOML file of ablations (recipes/ablations*.toml)")
    if "stage" in document:
        raise InputError(f"{path} is a recipe; give a file of ablations, which names a recipe and lists rows")
    return validate(Ablations, document, str(path))


def _check_row(base: Recipe, row: Recipe) -> None:
    """Refuse a row that would tell nothing, or fail after others have been trained."""
    if first_difference(base, row) is None:
        raise InputError("it changes nothing: the base has these settings already")
    budgets = [[(stage.steps, stage.epochs, stage.minutes) for stage in recipe.stage] for recipe in (base, row)]
    if budgets[0] != budgets[1]:
        raise InputError("its budget is not the base's, so the two do not compare; set budgets for all rows (--set)")
    check_stages(row, Processes())


def _named(table: str, row: Row) -> Row:
    """The row with its own name in its recipe, for the model card."""
    described = dataclasses.replace(row.recipe, name=f"{table}: {row.name}", description=", ".join(row.settings))
    return dataclasses.replace(row, recipe=described)
