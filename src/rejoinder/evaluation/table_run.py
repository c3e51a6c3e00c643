"""Measure the systems and data sets of a plan (recipes/tables/main.toml); keep finished cells."""

from __future__ import annotations

import functools
import hashlib
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeAlias, TypeVar

from pydantic import Field

from rejoinder.encoders import Ranker
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.evaluation.ranking import RankingResult, evaluate_task
from rejoinder.evaluation.table import Cell, Table
from rejoinder.evaluation.tasks import (
    FIT_EXAMPLES,
    Copies,
    RankingTask,
    all_responses,
    ranked_part,
    ranking_task,
    sample,
    training_examples,
)
from rejoinder.files import atomic_file, file_digest, parse_json
from rejoinder.progress import Advance, Track, silent
from rejoinder.settings import Count, Natural, section

if TYPE_CHECKING:
    from rejoinder.corpora import Example, Split

CANDIDATES = 100  # of 1-of-N, unless a column says otherwise
FORMAT = 1  # format of the files of finished cells

# Names a row or column in `--set`, and in the names of folders.
Key: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
Name: TypeAlias = Annotated[str, Field(min_length=1)]

T = TypeVar("T")


@section
class SystemRow:
    """[row.KEY]: a system.

    In `ranker` and `make`, {column} is the key of a column and {data} its path.
    """

    name: Name
    ranker: (
        Name | dict[str, str]
    )  # as for `rejoinder evaluate`, or one per column, by the column's key
    make: str = ""  # the command that makes the ranker, for the table's notes
    settings: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Further settings of that command, as `--set` takes them, by the key of a column."""
    skip: tuple[str, ...] = ()  # keys of columns without this system
    group: str = ""  # systems of one group have one colour in the chart
    left_on: str = ""
    """Key of the column on whose data the models of the other columns are also ranked (ACL19, Table
    3)."""

    def ranker_for(self, column: str, data: str) -> str | None:
        """Return the ranker of a column; None if the column lacks this system."""
        chosen = self.ranker if isinstance(self.ranker, str) else self.ranker.get(column)
        return None if chosen is None or column in self.skip else _filled(chosen, column, data)

    def command_for(self, column: str, data: str) -> str:
        """Return the command that makes the ranker of a column; empty if the plan has none."""
        options = (f" --set {shlex.quote(setting)}" for setting in self.settings.get(column, ()))
        return _filled(self.make, column, data) + "".join(options)


@section
class DataColumn:
    """[column.KEY]: a data set, and how it is ranked."""

    name: Name
    path: Name  # folder or file of examples
    make: str = ""  # the command that makes the data, for the table's notes
    split: Literal["train", "valid", "test", "all"] | None = None
    """Default: test for a folder, all for a file."""
    candidates: Annotated[int, Field(ge=2)] | Literal["given", "all"] | None = None
    """N: 1-of-N, even if the data has lists; given: the data's lists; all: every different response
    of all parts. Default without `draw`: 100."""
    draw: Count | None = None
    """Instead of `candidates`: number drawn for each example from other threads' responses."""
    distinct: Literal["none", "inputs", "responses", "both"] = "none"
    """Keep only the first of the examples with the same newest message, the same response, or
    either."""
    copies: Copies = "wrong"
    """Count of a candidate with the right one's text; wrong: as in the papers."""
    limit: Count | None = None  # maximum of ranked examples, drawn at random
    seed: Natural = 0  # seed of `draw`, `limit`, groups, training examples and intervals
    train: str = ""
    """Data whose training part fits learning rankers, such as TF-IDF; `path` if empty."""
    train_examples: Count = FIT_EXAMPLES  # maximum of its examples, drawn at random (DATA19)

    def __post_init__(self) -> None:
        if self.candidates is not None and self.draw is not None:
            raise ValueError("candidates and draw are both set; set one of them")

    @property
    def part(self) -> Split | None:
        """The ranked part; None: all."""
        return None if self.split == "all" else ranked_part(Path(self.path), self.split)

    @property
    def training_path(self) -> Path:
        """Data whose training part fits rankers."""
        return Path(self.train or self.path)


@section
class TablePlan:
    """The whole file."""

    name: Name
    description: str = ""  # Markdown that stands above the table
    row: Annotated[dict[Key, SystemRow], Field(min_length=1)]  # the systems, in the table's order
    column: Annotated[dict[Key, DataColumn], Field(min_length=1)]
    """The data sets, in the table's order."""

    def __post_init__(self) -> None:
        for group in (self.row, self.column):
            names = [each.name for each in group.values()]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(
                    f"two rows or columns are called {twice!r}; give each its own name"
                )
        for key, row in self.row.items():
            if row.settings and not row.make:
                raise ValueError(
                    f"row.{key} has settings, but no command that they belong to; give make"
                )
            own = row.ranker if isinstance(row.ranker, dict) else ()
            named = [*row.skip, *row.settings, *own, *filter(None, [row.left_on])]
            if wrong := [column for column in named if column not in self.column]:
                raise ValueError(
                    f"row.{key} names the column '{wrong[0]}';"
                    f" the columns are {', '.join(self.column)}"
                )


def _filled(text: str, column: str, data: str) -> str:
    return text.replace("{column}", column).replace("{data}", data)


def read_column(column: DataColumn, progress: Advance = silent) -> tuple[RankingTask, int]:
    """Read the examples of a column with their candidates.

    Also return the number of omitted repeats.
    """
    from rejoinder.corpora.examples import read_examples

    try:
        distinct = _Distinct(read_examples(column.path, column.part), column.distinct)
        examples: Iterable[Example] = distinct
        if column.candidates != "given":
            examples = (
                replace(each, candidates=(), label=None) if each.candidates else each
                for each in distinct
            )
        if column.draw is not None:
            examples = _draw(examples, column.draw, column.seed, Path(column.path))
        kept = sample(examples, column.limit, column.seed, progress=progress)
        if column.candidates == "given" and not any(example.candidates for example in kept):
            raise InputError(
                'the data has no lists of candidates; give candidates = N, "all", or draw = N'
            )
        count = column.candidates if isinstance(column.candidates, int) else CANDIDATES
        pool = all_responses(column.path) if column.candidates == "all" else None
        task = ranking_task(
            kept, candidates=count, pool=pool, copies=column.copies, seed=column.seed
        )
        return task, distinct.repeated
    except InputError as error:
        raise InputError(f"{column.name}: {error}") from error


class _Distinct:
    """Iterator of the examples with a new input or response; counts the others."""

    def __init__(
        self, examples: Iterable[Example], by: Literal["none", "inputs", "responses", "both"]
    ) -> None:
        self.examples = examples
        self.by = by
        self.repeated = 0

    def __iter__(self) -> Iterator[Example]:
        seen: set[tuple[str, str]] = set()
        for example in self.examples:
            texts = {("inputs", example.context[-1]), ("responses", example.response)}
            texts = {text for text in texts if self.by in (text[0], "both")}
            if texts & seen:
                self.repeated += 1
            else:
                seen |= texts
                yield example


def _draw(examples: Iterable[Example], count: int, seed: int, path: Path) -> Iterator[Example]:
    """Give each example candidates from the responses of other threads.

    `data convai2 --set draw=N` does the same.
    """
    from rejoinder.corpora.lines import Reading
    from rejoinder.corpora.readers.dialogues import Convai2Settings, draw_candidates

    named = (
        replace(each, id=each.id or f"{place}", thread=each.thread or f"example {place}")
        for place, each in enumerate(examples)
    )
    return draw_candidates(named, path, Reading(), Convai2Settings(draw=count, seed=seed))


def _training_digest(column: DataColumn) -> str:
    """Return a digest that changes with the examples that may be learned from."""
    path = column.training_path
    files = sorted(path.glob("train-*.parquet")) if path.is_dir() else [path]
    digests = [(file.name, file_digest(file)) for file in files]
    return hashlib.sha256(repr((digests, column.train_examples, column.seed)).encode()).hexdigest()


def _about(column: DataColumn, repeated: int) -> str:
    """Return the facts of a column beside its results.

    The facts are path, part, candidates and omitted examples.
    """
    origins = {"given": "given by the data", "all": "all responses of the data"}
    origin = origins.get(str(column.candidates), f"1-of-{column.candidates or CANDIDATES}")
    if column.draw is not None:
        origin = f"{column.draw} drawn from other threads, seed {column.seed}"
    parts = [
        f"`{column.path}`" + (f", {column.split} part" if column.split else ""),
        f"candidates: {origin}",
    ]
    if column.distinct != "none":
        what = "inputs or responses" if column.distinct == "both" else column.distinct
        parts.append(f"{repeated:,} examples left out whose {what} had come before")
    return "; ".join(parts)


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
            absent = _absent(column)
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
                        (row.name, column.name): Cell(missing=absent, ranker=name)
                        for row, name in names
                    }
                )
                continue
            table.columns[column.name] = _about(column, repeated)
            for row, name in names:
                cell = self._measured(name, row, key, column, task)
                if cell.result and row.left_on not in ("", key):
                    reading = functools.partial(read, row.left_on)
                    cell = replace(cell, left=self._left(cell, general[row.left_on], reading))
                table.cells[row.name, column.name] = cell
        return table

    def _refuse_absent(
        self,
        systems: Mapping[str, SystemRow],
        data: Mapping[str, DataColumn],
        general: Mapping[str, DataColumn],
    ) -> None:
        for key, column in (*data.items(), *general.items()):
            if absent := _absent(column):
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
        try:
            return self._cell(name, self._identity(name, row, key, column), column, task)
        except InputError as error:
            if self.strict:
                raise
            return Cell(missing=str(error), ranker=name)

    def _left(
        self, cell: Cell, general: DataColumn, reading: Callable[[], tuple[RankingTask, int]]
    ) -> Cell:
        """Return the result of a cell's ranker on the general data, or why it is absent."""
        reason = _absent(general)
        if cell.learned is not None:
            reason = (
                f"{cell.ranker} learns from the data of each column;"
                " left_on is for models that are trained"
            )
        if reason and self.strict:
            raise InputError(reason)
        if reason:
            return Cell(missing=reason, ranker=cell.ranker)
        task, _ = reading()
        return self._cell(cell.ranker, self.rankers.identity(cell.ranker), general, task)

    def _identity(self, name: str, row: SystemRow, key: str, column: DataColumn) -> str:
        """Return the ranker's identity.

        If the ranker is missing, the error names the command that makes it.
        """
        try:
            return self.rankers.identity(name)
        except InputError as error:
            place = name.rpartition(":")[2].partition("#")[0]
            # An existing one may be damaged, or of another kind; making it again may not help.
            if Path(place).exists() or not row.make or isinstance(error, MissingExtraError):
                raise
            raise InputError(f"no {name}; `{row.command_for(key, column.path)}`") from error

    def _cell(self, name: str, identity: str, column: DataColumn, task: RankingTask) -> Cell:
        key = hashlib.sha256(
            json.dumps([FORMAT, identity, task.fingerprint, column.seed]).encode()
        ).hexdigest()
        file = self.folder / f"{key[:32]}.json"
        if kept := _kept_cell(file, column, name):
            return kept
        ranker, learned = self.rankers.open(name, lambda: self._training(column))
        with self.show(f"{column.name}: {name}", len(task), "examples") as advance:
            block = self.rankers.block_size(name)
            result = evaluate_task(
                ranker, task, seed=column.seed, block_size=block, progress=advance
            )
        about = {"data": column.path, "ranker": name, "learned": learned}
        fitted_on = None if learned is None else _training_digest(column)
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


def _kept_cell(file: Path, column: DataColumn, ranker: str) -> Cell | None:
    """Return a finished cell, if its file exists and is whole.

    Return None also if its ranker was fitted on other examples.
    """
    try:
        found = parse_json(file.read_text(encoding="utf-8"))
        cell = Cell(
            RankingResult.from_json(found["result"]),
            ranker=ranker,
            learned=found["about"]["learned"],
        )
        fitted_on = found["fitted_on"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return cell if fitted_on is None or fitted_on == _training_digest(column) else None


def _chosen(kind: str, known: Mapping[str, T], keys: Sequence[str]) -> dict[str, T]:
    """Return the items with these keys (none: all), in the plan's order."""
    for key in keys:
        if key not in known:
            raise InputError(f"the table has no {kind} '{key}'; it has {', '.join(known)}")
    return {key: each for key, each in known.items() if not keys or key in keys}


def _absent(column: DataColumn) -> str:
    """Return a note on a column's missing data with its command, else an empty text."""
    if Path(column.path).exists():
        return ""
    return (
        f"no {column.path}; `{column.make}`"
        if column.make
        else f"no {column.path}; give column.KEY.path"
    )
