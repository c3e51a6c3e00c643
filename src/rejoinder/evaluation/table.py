"""One table of many systems on many data sets: as Markdown, CSV, JSON and a chart, in a folder."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rejoinder.evaluation.bootstrap import Estimate
from rejoinder.evaluation.report import Row
from rejoinder.evaluation.results import RankingResult
from rejoinder.files import Kind, atomic_file, check_shared, is_ours

PICTURES = ("png", "svg")
"""Kinds of the chart."""
KIND = "rejoinder table"
"""What table.json says of itself; those of earlier versions do not."""
FOLDER = Kind(
    "a table's folder",
    "table.json",
    lambda table: table.get("kind", KIND) == KIND and all("ranker" in cell for cell in table["cells"]),
    (),
)


@dataclass(frozen=True)
class Cell:
    """A system on a data set.

    Attributes:
        result: what it reached; None if it could not be measured.
        missing: then why, and what to do; empty if the table has no such system.
        ranker: what was measured: a folder, a baseline's name.
        learned: what a ranker says that was fitted for this column, of types that JSON has.
    """

    result: RankingResult | None = None
    missing: str = ""
    ranker: str = ""
    learned: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Line:
    """A row of the table: a system by its name, and the group that gives its colour in the chart."""

    name: str
    group: str = ""


@dataclass(frozen=True)
class Column:
    """A column: a data set by its name, and what there is to say about it besides the results."""

    name: str
    about: str = ""


@dataclass(frozen=True)
class Table:
    """Systems by data sets.

    Attributes:
        name: of the table.
        lines: the systems by their keys, in order.
        columns: the data sets by their keys, in order.
        cells: by the keys of line and column; where there is none, the table has no such system.
        description: Markdown that stands above it.
    """

    name: str
    lines: Mapping[str, Line]
    columns: Mapping[str, Column]
    cells: Mapping[tuple[str, str], Cell]
    description: str = ""

    def cell(self, line: str, column: str) -> Cell:
        """The cell of these keys."""
        return self.cells.get((line, column), Cell())

    def missing(self) -> dict[str, list[str]]:
        """Why cells could not be measured: for each reason, the names of system and data set."""
        reasons: dict[str, list[str]] = {}
        for line, column in self._places():
            reason = self.cell(line, column).missing
            if reason:
                reasons.setdefault(reason, []).append(f"{self.lines[line].name} on {self.columns[column].name}")
        return reasons

    def best(self, column: str) -> float | None:
        """The highest recall at 1 of a column; None if nothing was measured there."""
        results = [self.cell(line, column).result for line in self.lines]
        return max((result.recall[1].value for result in results if result), default=None)

    def rows(self) -> list[Row]:
        """The results, column by column, each from top to bottom."""
        found = []
        for line, column in self._places():
            result = self.cell(line, column).result
            if result is not None:
                found.append(Row(self.lines[line].name, self.columns[column].name, result))
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain values: an object for each cell under "cells", those that could not be measured too."""
        return {"name": self.name, "cells": [self._plain(*place) for place in self._places() if place in self.cells]}

    def csv(self) -> str:
        """A line for each cell of `to_json`; shares between 0 and 1."""
        rows = [_flat(values) for values in self.to_json()["cells"]]
        out = io.StringIO()
        writer = csv.DictWriter(out, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue()

    def save(self, folder: Path) -> list[Path]:
        """Write table.md, .csv, .json, .png and .svg into a folder, all of them or none.

        Raises:
            InputError: the folder is a file.
            MissingExtraError: matplotlib is not installed.
        """
        from rejoinder.evaluation.bars import draw_bars
        from rejoinder.evaluation.plots import save_figure
        from rejoinder.evaluation.table_markdown import markdown

        check_folder(folder)
        content = {"kind": KIND, "format": 1, **self.to_json()}
        texts = {"md": markdown(self), "csv": self.csv(), "json": json.dumps(content, indent=2) + "\n"}
        chart = draw_bars(self)
        files = {kind: folder / f"table.{kind}" for kind in (*texts, *PICTURES)}
        # No file takes its place before all are written; table.json, opened last, takes it first.
        with contextlib.ExitStack() as together:
            parts = {kind: together.enter_context(atomic_file(files[kind])) for kind in (*PICTURES, *texts)}
            for kind, text in texts.items():
                parts[kind].write_text(text, encoding="utf-8")
            for kind in PICTURES:
                save_figure(chart, parts[kind], kind)
        return list(files.values())

    def _places(self) -> list[tuple[str, str]]:
        return [(line, column) for column in self.columns for line in self.lines]

    def _plain(self, line: str, column: str) -> dict[str, Any]:
        cell = self.cell(line, column)
        names = {"system": self.lines[line].name, "data": self.columns[column].name, "ranker": cell.ranker}
        result = cell.result and cell.result.to_json()
        return {**names, "missing": cell.missing or None, "result": result, "learned": cell.learned}


def table_of_rows(rows: Sequence[Row], name: str) -> Table:
    """The table of results that were measured already; lines and columns in the order in which they come."""
    return Table(
        name,
        {row.title: Line(row.title) for row in rows},
        {row.data: Column(row.data) for row in rows},
        {(row.title, row.data): Cell(row.result, ranker=row.model) for row in rows},
    )


def check_folder(folder: Path) -> None:
    """Refuse a place where a table cannot go, before anything is computed: it must be new, or have a table's files."""
    if not is_ours(folder, FOLDER):
        check_shared(folder, FOLDER.name, ["cells"])


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """A cell of `to_json` without tables in it."""
    flat = {key: value for key, value in values.items() if key not in ("result", "learned")}
    result = values["result"] or {}
    for k, estimate in result.get("recall", {}).items():
        flat |= _spread(f"recall@{k}", Estimate(**estimate))
    if result:
        flat |= _spread("mrr", Estimate(**result["mrr"]))
    return flat | {key: value for key, value in result.items() if key not in ("recall", "mrr")}


def _spread(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
