"""The table of an ablation: what each row reached, beside what it costs, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rejoinder.evaluation.bootstrap import Estimate
from rejoinder.evaluation.ranking import Comparison, RankingResult
from rejoinder.evaluation.report import describe, percent
from rejoinder.files import atomic_file
from rejoinder.training.ablations import Row
from rejoinder.training.summary import RunSummary


@dataclass(frozen=True)
class Trained:
    """What came out of a row.

    Attributes:
        summary: of its run.
        parameters: numbers in its model, embeddings included.
        steps_per_second: of training alone; None if the run's metrics are gone.
        result: its ranking of the test examples.
        minus_base: paired difference to the base; None for the base itself.
    """

    summary: RunSummary
    parameters: int
    steps_per_second: float | None
    result: RankingResult
    minus_base: Comparison | None


@dataclass(frozen=True)
class Line:
    """A row with what came out, or with the reason why nothing did (its loss diverged, say)."""

    row: Row
    trained: Trained | None
    failure: str = ""


@dataclass(frozen=True)
class AblationTable:
    """The lines so far.

    Attributes:
        name: of the table.
        data: of the examples that were ranked.
        lines: the base first.
    """

    name: str
    data: str
    lines: Sequence[Line]

    @property
    def failed(self) -> list[Line]:
        """Lines of rows that could not be trained."""
        return [line for line in self.lines if line.trained is None]

    def to_json(self) -> dict[str, Any]:
        """Plain values: a flat object for each row under "rows"."""
        return {"name": self.name, "data": self.data, "rows": [_plain_row(line) for line in self.lines]}

    def markdown(self) -> str:
        """A heading, what was ranked, the table: shares in %, 95 % intervals in brackets."""
        heading = [f"# {self.name}", "", self.data, ""]
        done = [line.trained for line in self.lines if line.trained]
        if done:
            heading += [describe(done[0].result), ""]
        return "\n".join([*heading, *_aligned(self._cells())]) + "\n"

    def csv(self) -> str:
        """The numbers of `to_json` that fit a flat table, a line for each row; shares between 0 and 1."""
        rows = [_flat_row(line) for line in self.lines]
        out = io.StringIO()
        writer = csv.DictWriter(out, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue()

    def save(self, folder: Path) -> None:
        """Write table.md, table.csv and table.json."""
        texts = {"md": self.markdown(), "csv": self.csv(), "json": json.dumps(self.to_json(), indent=2) + "\n"}
        for kind, text in texts.items():
            with atomic_file(folder / f"table.{kind}") as part:
                part.write_text(text, encoding="utf-8")

    def _cells(self) -> list[list[str]]:
        """Header and lines of the Markdown table; columns of published figures only if there are any."""
        base = self.lines[0].row.published if self.lines else None
        published = any(line.row.published is not None for line in self.lines)
        header = ["row", "R@1", "minus base", "MRR", *(["published R@1", "minus base"] if published else [])]
        rows = [[*header, "parameters", "steps", "steps/s", "examples"]]
        for line in self.lines:
            theirs, minus = line.row.published, base if line is not self.lines[0] else None
            beside = [_number(theirs), _minus(theirs, minus)] if published else []
            rows.append([line.row.title.replace("|", "\\|"), *_figures(line), *beside, *_costs(line)])
        return rows


def _plain_row(line: Line) -> dict[str, Any]:
    row, trained = line.row, line.trained
    values: dict[str, Any] = {"row": row.name, "title": row.title, "settings": list(row.settings)}
    values |= {"published": row.published, "failure": line.failure or None}
    if trained is None:
        return values
    summary = trained.summary
    return {
        **values,
        "result": trained.result.to_json(),
        "minus_base": None if trained.minus_base is None else trained.minus_base.to_json(),
        "parameters": trained.parameters,
        "steps": summary.steps,
        "steps_per_second": trained.steps_per_second,
        "examples": summary.examples,
        "seconds": summary.seconds,
        "best_step": summary.best_step,
        "validation": summary.validation,
        "model": summary.model,
    }


def _flat_row(line: Line) -> dict[str, Any]:
    plain = _plain_row(line)
    nested = ("result", "minus_base", "validation", "settings")
    flat = {key: value for key, value in plain.items() if key not in nested}
    flat["settings"] = " ".join(line.row.settings)
    if line.trained is not None:
        result, difference = line.trained.result, line.trained.minus_base
        flat |= result.recall[1].columns("recall@1") | result.mrr.columns("mrr")
        if difference is not None:
            flat |= difference.recall[1].columns("recall@1_minus_base") | difference.mrr.columns("mrr_minus_base")
    return flat


def _figures(line: Line) -> list[str]:
    """R@1, its difference to the base, MRR."""
    if line.trained is None:
        return ["failed", "", ""]
    result, difference = line.trained.result, line.trained.minus_base
    form = "{} [{}, {}]"
    minus = "" if difference is None else _signed(difference.recall[1])
    return [percent(result.recall[1], form), minus, percent(result.mrr, form)]


def _costs(line: Line) -> list[str]:
    """Parameters, steps, steps per second, examples seen."""
    if line.trained is None:
        return [""] * 4
    summary, speed = line.trained.summary, line.trained.steps_per_second
    shown = "" if speed is None else f"{speed:.2f}"
    return [f"{line.trained.parameters / 1e6:.2f}M", f"{summary.steps:,}", shown, f"{summary.examples:,}"]


def _signed(estimate: Estimate) -> str:
    value, low, high = (f"{100 * number:+.1f}" for number in (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _minus(value: float | None, base: float | None) -> str:
    return "" if value is None or base is None else f"{value - base:+.1f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table whose columns are as wide as their widest cell, so that it reads as plain text too."""
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return [
        "| " + " | ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])]) + " |"
        for cells in (rows[0], rule, *rows[1:])
    ]
