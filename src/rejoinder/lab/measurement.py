"""Measure the systems and data sets of a plan (recipes/tables/main.toml); keep finished cells."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rejoinder.encoders.protocol import Ranker
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.evaluation.ranking import evaluate_task
from rejoinder.evaluation.result import RankingResult
from rejoinder.evaluation.tasks import (
    RankingTask,
    training_examples,
)
from rejoinder.files import atomic_file
from rejoinder.json_parsing import parse_json
from rejoinder.lab.columns import about_column, absent_data, read_column, training_digest
from rejoinder.lab.plan import DataColumn, SystemRow, TablePlan
from rejoinder.lab.table import Cell, Table
from rejoinder.progress import Track

if TYPE_CHECKING:
    from rejoinder.corpora.schema import Example

FORMAT = 1  # format of the files of finished cells

T = TypeVar("T")


class Rankers(Protocol):
    """Opens the rankers that the rows of a table name, or raises InputError."""

    def identity(self, name: str) -> str:
        """Return a value that changes whenever the ranker would rank differently."""

    def open(
        self, name: str, training: Callable[[], Sequence[Example]]
    ) -> tuple[Ranker, Mapping[str, Any] | None]:
        """Return the ranker, and its parameters learned from `training`, if any."""

    def block_size(self, name: str) -> int | None:
        """Return the maximum number of examples to rank at once.

        None: all, for scores that depend on the other examples.
        """


@dataclass(frozen=True)
class Measurement:
    """Measures the cells of a table.

    Each is kept as a JSON file in `folder`, named by ranker, task and seed.
    """

    rankers: Rankers
    folder: Path
    show: Track
    strict: bool = False  # an absent model or data set is an error instead of a dash

    def table(
        self, plan: TablePlan, rows: Sequence[str] = (), columns: Sequence[str] = ()
    ) -> Table:
        """Measure the cells of these rows and columns (none: all) that are not finished."""
        systems = _chosen("row", plan.row, rows)
        data = _chosen("column", plan.column, columns)
        general = {row.left_on: plan.column[row.left_on] for row in systems.values() if row.left_on}
        if self.strict:  # before anything is measured
            self._refuse_absent(systems, data, general)
        table = Table(
            plan.name, {row.name: row.group for row in systems.values()}, {}, {}, plan.description
        )
        table.left_on.update(
            {row.name: general[row.left_on].name for row in systems.values() if row.left_on}
        )
        read = functools.cache(lambda key: self._read(general[key]))  # read once, for all columns
        for key, column in data.items():
            names = [
                (row, name)
                for row in systems.values()
                if (name := row.ranker_for(key, column.path))
            ]
            absent = absent_data(column)
            if not absent:
                try:
                    task, repeated = read(key) if key in general else self._read(column)
                except InputError as error:  # too few examples, say: the others go on
                    if self.strict:
                        raise
                    absent = str(error)
            if absent:
                table.columns[column.name] = ""
                table.cells.update(
                    {
                        (row.name, column.name): Cell(
                            missing=absent, ranker=name, published=row.published.get(key)
                        )
                        for row, name in names
                    }
                )
                continue
            table.columns[column.name] = about_column(column, repeated)
            for row, name in names:
                cell = self._measured(name, row, key, column, task)
                if cell.result and row.left_on not in ("", key):
                    reading = functools.partial(read, row.left_on)
                    left = self._left(cell, general[row.left_on], reading)
                    left = replace(left, published=row.published_left.get(key))
                    cell = replace(cell, left=left)
                table.cells[row.name, column.name] = replace(cell, published=row.published.get(key))
        return table

    def _refuse_absent(
        self,
        systems: Mapping[str, SystemRow],
        data: Mapping[str, DataColumn],
        general: Mapping[str, DataColumn],
    ) -> None:
        for key, column in (*data.items(), *general.items()):
            if absent := absent_data(column):
                raise InputError(absent)
            for row in systems.values():
                name = row.ranker_for(key, column.path)
                if name and key in data:
                    self._identity(name, row, key, column)

    def _read(self, column: DataColumn) -> tuple[RankingTask, int]:
        with self.show(f"Reading {column.path}", None, "examples") as advance:
            return read_column(column, advance)

    def _measured(
        self, name: str, row: SystemRow, key: str, column: DataColumn, task: RankingTask
    ) -> Cell:
        def opened() -> tuple[Ranker, Mapping[str, Any] | None]:
            return self._open(name, row, key, column)

        try:
            return self._cell(name, self._identity(name, row, key, column), column, task, opened)
        except InputError as error:
            if self.strict:
                raise
            return Cell(missing=str(error), ranker=name)

    def _left(
        self, cell: Cell, general: DataColumn, reading: Callable[[], tuple[RankingTask, int]]
    ) -> Cell:
        """Return the result of a cell's ranker on the general data, or why it is absent."""
        reason = absent_data(general)
        if cell.learned is not None:
            reason = (
                f"{cell.ranker} learns from the data of each column;"
                " left_on is for models that are trained"
            )
        if reason and self.strict:
            raise InputError(reason)
        if reason:
            return Cell(missing=reason, ranker=cell.ranker)
        try:
            task, _ = reading()
            identity = self.rankers.identity(cell.ranker)
            opened = functools.partial(self.rankers.open, cell.ranker, tuple)
            return self._cell(cell.ranker, identity, general, task, opened)
        except InputError as error:  # too few examples, say: the rest of the table goes on
            if self.strict:
                raise
            return Cell(missing=str(error), ranker=cell.ranker)

    def _identity(self, name: str, row: SystemRow, key: str, column: DataColumn) -> str:
        """Return the ranker's identity.

        If the ranker is missing, the error names the command that makes it.
        """
        try:
            return self.rankers.identity(name)
        except InputError as error:
            raise _with_command(error, name, row, key, column) from None

    def _open(
        self, name: str, row: SystemRow, key: str, column: DataColumn
    ) -> tuple[Ranker, Mapping[str, Any] | None]:
        """Return the ranker, fitted; an absent one is an error as for `_identity`."""
        is_there = False

        def training() -> Sequence[Example]:
            nonlocal is_there
            is_there = True
            return self._training(column)

        try:
            return self.rankers.open(name, training)
        except InputError as error:
            if is_there:
                raise
            raise _with_command(error, name, row, key, column) from None

    def _cell(
        self,
        name: str,
        identity: str,
        column: DataColumn,
        task: RankingTask,
        opened: Callable[[], tuple[Ranker, Mapping[str, Any] | None]],
    ) -> Cell:
        """Return a cell, computed or as its file has it."""
        key = hashlib.sha256(
            json.dumps([FORMAT, identity, task.fingerprint, column.seed]).encode()
        ).hexdigest()
        file = self.folder / f"{key[:32]}.json"
        if kept := _kept_cell(file, column, name):
            return kept
        ranker, learned = opened()
        with self.show(f"{column.name}: {name}", len(task), "examples") as advance:
            block = self.rankers.block_size(name)
            result = evaluate_task(
                ranker, task, seed=column.seed, block_size=block, progress=advance
            )
        about = {"data": column.path, "ranker": name, "learned": learned}
        fitted_on = None if learned is None else training_digest(column)
        values = {"about": about, "fitted_on": fitted_on, "result": result.to_json(ranks=True)}
        with atomic_file(file) as part:
            part.write_text(json.dumps(values) + "\n", encoding="utf-8")
        return Cell(result, ranker=name, learned=learned)

    def _training(self, column: DataColumn) -> Sequence[Example]:
        path = column.training_path
        limit = column.train_examples
        with self.show(f"Reading {path}", None, "examples") as advance:
            return training_examples(
                path, Path(column.path), column.part, limit, column.seed, advance
            )


def _with_command(
    error: InputError, name: str, row: SystemRow, key: str, column: DataColumn
) -> InputError:
    """Return the error of an absent ranker with the command that makes it, else the error."""
    folder = name.rpartition(":")[2].partition("#")[0]
    # An existing one may be damaged, or of another kind; making it again may not help.
    if Path(folder).exists() or not row.make or isinstance(error, MissingExtraError):
        return error
    return InputError(f"no {name}; `{row.command_for(key, column.path)}`")


def _kept_cell(file: Path, column: DataColumn, ranker: str) -> Cell | None:
    """Return a finished cell, if its file exists and is whole.

    Return None also if its ranker was fitted on other examples.
    """
    try:
        content = parse_json(file.read_text(encoding="utf-8"))
        cell = Cell(
            RankingResult.from_json(content["result"]),
            ranker=ranker,
            learned=content["about"]["learned"],
        )
        fitted_on = content["fitted_on"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return cell if fitted_on is None or fitted_on == training_digest(column) else None


def _chosen(kind: str, known: Mapping[str, T], keys: Sequence[str]) -> dict[str, T]:
    """Return the items with these keys (none: all), in the plan's order."""
    for key in keys:
        if key not in known:
            raise InputError(f"the table has no {kind} '{key}'; it has {', '.join(known)}")
    return {key: value for key, value in known.items() if not keys or key in keys}
