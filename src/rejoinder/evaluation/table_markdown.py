"""A table of systems and data sets as Markdown."""

from __future__ import annotations

from collections.abc import Mapping

from rejoinder.evaluation import report
from rejoinder.evaluation.table import Cell, Table

DASH = "-"


def markdown(table: Table) -> str:
    """Recall at 1, what was ranked, what is missing and why, then all other figures; each part under the last."""
    parts = [f"# {table.name}\n"]
    if table.description.strip():
        parts.append(f"{table.description.strip()}\n")
    parts.append("R@1 in %, with 95 % intervals; the best of each column in bold.\n")
    parts.append(recall_table(table))
    parts.append(_columns(table))
    if table.missing():
        parts.append(_missing(table))
    rows = table.rows()
    if rows:
        parts += ["## All figures\n", report.markdown(rows)]
    return "\n".join(parts)


def recall_table(table: Table) -> str:
    """Recall at 1 alone: a line for each system, a column for each data set; dashes refer to the notes."""
    numbers = {reason: number for number, reason in enumerate(table.missing(), 1)}
    rows = [["", *(column.name for column in table.columns.values())], ["---", *["---:"] * len(table.columns)]]
    for line, system in table.lines.items():
        cells = (_shown(table.cell(line, column), table.best(column), numbers) for column in table.columns)
        rows.append([system.name, *cells])
    return "".join(f"| {' | '.join(_escape(text) for text in row)} |\n" for row in rows)


def _shown(cell: Cell, best: float | None, numbers: Mapping[str, int]) -> str:
    if cell.result is None:
        return f"{DASH} ({numbers[cell.missing]})" if cell.missing else ""
    estimate = cell.result.recall[1]
    return report.percent(estimate, "**{}** [{}, {}]" if estimate.value == best else "{} [{}, {}]")


def _columns(table: Table) -> str:
    """What was ranked in each column, as a list."""
    lines = []
    for key, column in table.columns.items():
        results = [cell.result for line in table.lines if (cell := table.cell(line, key)).result]
        said = [" ".join(report.describe(result).splitlines()) for result in results[:1] if result]
        lines.append(f"- **{column.name}**: {'. '.join([*said, *([column.about] if column.about else [])])}\n")
    return "".join(line for line in lines if not line.endswith(": \n"))


def _missing(table: Table) -> str:
    """The notes that the dashes refer to."""
    notes = enumerate(table.missing().items(), 1)
    lines = (f"{number}. {reason} (for {', '.join(cells)})\n" for number, (reason, cells) in notes)
    return "Not measured:\n\n" + "".join(lines)


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
