"""One table of many systems on many data sets, as Markdown and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rejoinder.documents import markdown_table
from rejoinder.evaluation import report
from rejoinder.evaluation.report import Row
from rejoinder.evaluation.result import RankingResult


@dataclass(frozen=True)
class Cell:
    """A system on a data set: its result, or the reason for its absence.

    The reason is empty if the table has no such system.
    """

    result: RankingResult | None = None
    missing: str = ""
    ranker: str = ""  # the measured ranker: a folder, a baseline's name
    learned: Mapping[str, Any] | None = None
    """Parameters of a ranker that was fitted for this column, as JSON values."""
    left: Cell | None = None
    """Result of the same ranker on the general data, if the table shows it."""
    published: float | None = None
    """Recall at 1 in % that a paper gives for it."""


@dataclass(frozen=True)
class Table:
    """Results of systems on data sets, both by name, in order."""

    name: str
    systems: dict[str, str]  # each with its group, which gives the colour in the chart
    columns: dict[str, str]  # data sets, each with facts that the results lack
    cells: dict[tuple[str, str], Cell]
    description: str = ""  # Markdown that stands above it
    left_on: dict[str, str] = field(default_factory=dict)
    """The data set of `left`, by system."""

    def cell(self, system: str, column: str) -> Cell:
        """Return a cell, an empty one if the table has no such system."""
        return self.cells.get((system, column), Cell())

    def missing(self) -> dict[str, list[str]]:
        """Return the reasons why cells could not be measured, and these cells."""
        reasons: dict[str, list[str]] = {}
        for system, column in self._places():
            cell = self.cell(system, column)
            if cell.missing:
                reasons.setdefault(cell.missing, []).append(f"{system} on {column}")
            if cell.left and cell.left.missing:
                where = f"{system} of {column} on {self.left_on[system]}"
                reasons.setdefault(cell.left.missing, []).append(where)
        return reasons

    def rows(self) -> list[Row]:
        """Return the results, column by column, each from top to bottom.

        Results on the general data follow.
        """
        rows = [
            Row(system, column, result)
            for system, column in self._places()
            if (result := self.cell(system, column).result)
        ]
        for system, column in self._places():
            left = self.cell(system, column).left
            if left and left.result:
                rows.append(Row(f"{system}, of {column}", self.left_on[system], left.result))
        return rows

    def results(self, column: str) -> list[RankingResult]:
        """Return the results of a column."""
        return [result for system in self.systems if (result := self.cell(system, column).result)]

    def to_json(self) -> dict[str, Any]:
        """Return JSON values: an object for each cell, including unmeasured ones."""
        return {
            "name": self.name,
            "cells": [
                self._plain(system, column)
                for system, column in self._places()
                if (system, column) in self.cells
            ],
        }

    def markdown(self) -> str:
        """Return recall at 1, the data sets, missing cells with reasons, then all figures."""
        parts = [f"# {self.name}\n"]
        if self.description.strip():
            parts.append(f"{self.description.strip()}\n")
        parts.append("R@1 in %, with 95 % intervals; the best of each column in bold.\n")
        if self.left_on:
            names = " or ".join(dict.fromkeys(self.left_on.values()))
            parts.append(
                f"left: R@1 of the same model on {names}, after it was trained for the column.\n"
            )
        parts += [self.recall_markdown(), self._about_columns()]
        if missing := self.missing():
            notes = enumerate(missing.items(), 1)
            lines = (
                f"{number}. {reason} (for {', '.join(cells)})\n"
                for number, (reason, cells) in notes
            )
            parts.append("Not measured:\n\n" + "".join(lines))
        if rows := self.rows():
            parts += ["## All figures\n", report.markdown(rows)]
        return "\n".join(parts)

    def recall_markdown(self) -> str:
        """Return R@1: a line for each system, a column for each data set.

        Dashes refer to the notes.
        """
        numbers = {reason: number for number, reason in enumerate(self.missing(), 1)}
        best = {
            name: max((result.recall[1].value for result in self.results(name)), default=None)
            for name in self.columns
        }

        def figure(cell: Cell, form: str) -> str:
            if cell.result is None:
                return f"- ({numbers[cell.missing]})" if cell.missing else ""
            return report.percent(cell.result.recall[1], form)

        def shown(system: str, column: str) -> str:
            cell = self.cell(system, column)
            is_best = cell.result is not None and cell.result.recall[1].value == best[column]
            text = figure(cell, "**{}** [{}, {}]" if is_best else "{} [{}, {}]")
            parts = [text, *_papers(cell)]
            if cell.left:
                parts += [f"left {figure(cell.left, '{} [{}, {}]')}", *_papers(cell.left)]
            return "; ".join(part for part in parts if part)

        rows = (
            [system, *(shown(system, column) for column in self.columns)] for system in self.systems
        )
        return markdown_table([["", *self.columns], *rows])

    def _places(self) -> list[tuple[str, str]]:
        return [(system, column) for column in self.columns for system in self.systems]

    def _plain(self, system: str, column: str) -> dict[str, Any]:
        cell = self.cell(system, column)
        left = cell.left and {"data": self.left_on[system], **_measured(cell.left)}
        return {
            "system": system,
            "data": column,
            **_measured(cell),
            "learned": cell.learned,
            "left": left,
        }

    def _about_columns(self) -> str:
        lines = []
        for column, about in self.columns.items():
            sentences = [
                "; ".join(report.describe(result).splitlines())
                for result in self.results(column)[:1]
            ]
            if sentences := [*sentences, *filter(None, [about])]:
                lines.append(f"- **{column}**: {'. '.join(sentences)}\n")
        return "".join(lines)


def _measured(cell: Cell) -> dict[str, Any]:
    result = cell.result and cell.result.to_json()
    return {
        "ranker": cell.ranker,
        "missing": cell.missing or None,
        "result": result,
        "published": cell.published,
    }


def _papers(cell: Cell) -> list[str]:
    return [] if cell.published is None else [f"paper {cell.published:.1f}"]


def table_of_rows(rows: Sequence[Row], name: str) -> Table:
    """Return the table of measured results, in their order."""
    return Table(
        name,
        dict.fromkeys((row.title for row in rows), ""),
        dict.fromkeys((row.data for row in rows), ""),
        {(row.title, row.data): Cell(row.result, ranker=row.model) for row in rows},
    )
