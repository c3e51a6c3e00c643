"""Measure the cells of a table that are not measured yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rejoinder.errors import InputError, MissingExtraError
from rejoinder.evaluation.cells import CellStore, cell_key
from rejoinder.evaluation.columns import ColumnData, read_column, training_digest, training_examples
from rejoinder.evaluation.ranking import evaluate_task
from rejoinder.evaluation.table import Cell, Column, Line, Table
from rejoinder.evaluation.table_file import DataColumn, Plan, SystemRow, filled
from rejoinder.ranker import Ranker

if TYPE_CHECKING:
    from rejoinder.corpora.example import Example

CELLS = "cells"
"""Folder of the finished cells within the folder of a table."""

Show: TypeAlias = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""Shows the progress of work with this description and so many examples, as `progress.track` does."""


class Rankers(Protocol):
    """Opens what the rows of a table name."""

    def identity(self, name: str) -> str:
        """What changes whenever the ranker would rank otherwise: the fingerprint of its weights, say.

        Raises:
            InputError: there is no such ranker.
        """
        ...

    def open(self, name: str, training: Callable[[], Sequence[Example]]) -> tuple[Ranker, Mapping[str, Any] | None]:
        """The ranker, and what it learned from `training`; None, and `training` not called, if it needs no fitting.

        Raises:
            InputError: there is no such ranker, or nothing to fit it on.
        """
        ...

    def block_size(self, name: str) -> int | None:
        """Most examples that it is given at once; None: all, since its scores depend on the others."""
        ...


@dataclass(frozen=True)
class Measurement:
    """How the cells of a table are measured.

    Attributes:
        rankers: open the systems.
        store: keeps finished cells.
        show: shows progress.
        strict: an absent model or data set is an error instead of a dash.
    """

    rankers: Rankers
    store: CellStore
    show: Show
    strict: bool = False

    def table(self, plan: Plan) -> Table:
        """Measure what is not measured yet; finished cells survive an interruption.

        Raises:
            InputError: a data set that is there cannot be ranked; with `strict`, a model or data set is missing or
                cannot be used.
        """
        if self.strict:
            self.check(plan)
        cells: dict[tuple[str, str], Cell] = {}
        columns: dict[str, Column] = {}
        for key, column in plan.columns.items():
            found, columns[key] = self._column(plan, key, column)
            cells |= {(row, key): cell for row, cell in found.items()}
        lines = {key: Line(row.name, row.group) for key, row in plan.rows.items()}
        return Table(plan.name, lines, columns, cells, plan.description)

    def check(self, plan: Plan) -> None:
        """Refuse a table of which a model or data set is missing, before anything is measured.

        Raises:
            InputError: names the first one, and the command that makes it.
        """
        for key, column in plan.columns.items():
            absent = absent_data(column)
            if absent:
                raise InputError(absent)
            for row in plan.rows.values():
                name = row.ranker_for(key, column.path)
                if name is not None:
                    self._identity(name, row, key, column)

    def _column(self, plan: Plan, key: str, column: DataColumn) -> tuple[dict[str, Cell], Column]:
        """The cells of a column by the keys of their rows, and what was ranked."""
        names = {row: name for row, system in plan.rows.items() if (name := system.ranker_for(key, column.path))}
        absent = absent_data(column)
        if absent:
            return {row: Cell(missing=absent, ranker=name) for row, name in names.items()}, Column(column.name)
        with self.show(f"Reading {column.path}", None) as advance:
            data = read_column(column, advance)
        found = {}
        for row, name in names.items():
            try:
                identity = self._identity(name, plan.rows[row], key, column)
                found[row] = self._cell(name, identity, column, data)
            except InputError as error:
                if self.strict:
                    raise
                found[row] = Cell(missing=str(error), ranker=name)
        return found, Column(column.name, about(column, data))

    def _identity(self, name: str, row: SystemRow, key: str, column: DataColumn) -> str:
        """The ranker's identity; where there is no such ranker, the error says what makes it."""
        try:
            return self.rankers.identity(name)
        except InputError as error:
            place = name.rpartition(":")[2].partition("#")[0]
            # One that is there may be damaged, or of another kind: to make it anew may not be the remedy.
            if Path(place).exists() or not row.make or isinstance(error, MissingExtraError):
                raise
            raise InputError(f"no {name}; `{filled(row.make, key, column.path)}`") from error

    def _cell(self, name: str, identity: str, column: DataColumn, data: ColumnData) -> Cell:
        task = data.task
        key = cell_key(identity, task.fingerprint, column.seed)
        kept = self.store.read(key)
        if kept is not None and (kept[1] is None or kept[1] == training_digest(column)):
            return Cell(kept[0], ranker=name, learned=kept[2])
        ranker, learned = self.rankers.open(name, lambda: self._training(column))
        with self.show(f"{column.name}: {name}", len(task)) as advance:
            block = self.rankers.block_size(name)
            result = evaluate_task(ranker, task, seed=column.seed, block_size=block, progress=advance)
        fitted_on = None if learned is None else training_digest(column)
        self.store.write(key, result, fitted_on, {"data": column.path, "ranker": name, "learned": learned})
        return Cell(result, ranker=name, learned=learned)

    def _training(self, column: DataColumn) -> Sequence[Example]:
        with self.show(f"Reading {column.train or column.path}", None) as advance:
            return training_examples(column, advance)


def absent_data(column: DataColumn) -> str:
    """Why a column cannot be measured if its data is not there, and the command that makes it; empty if it is."""
    if Path(column.path).exists():
        return ""
    return f"no {column.path}; `{column.make}`" if column.make else f"no {column.path}; give column.KEY.path"


def about(column: DataColumn, data: ColumnData) -> str:
    """What the results do not say of a column: path and part, where candidates come from, what was left out."""
    parts = [f"`{column.path}`" + (f", {column.split} part" if column.split else "")]
    parts.append(f"candidates: {data.origin}")
    if column.distinct != "none":
        what = "inputs or responses" if column.distinct == "both" else column.distinct
        parts.append(f"{data.repeated:,} examples left out whose {what} had come before")
    return "; ".join(parts)
