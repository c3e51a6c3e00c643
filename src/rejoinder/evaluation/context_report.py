"""The table of `contexts.context_table` as text and as JSON."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rejoinder.evaluation.contexts import Reading, TableRow
from rejoinder.evaluation.report import Row, describe, percent

INTERVAL = "{}  {}-{}"
DIFFERENCE = "{}  {} to {}"


@dataclass(frozen=True)
class ContextTable:
    """How well a model ranks by parts of each context.

    Attributes:
        model: its name.
        data: the data's.
        rows: the lines, the full context first.
        without_history: examples whose context is a single message.
    """

    model: str
    data: str
    rows: Sequence[TableRow]
    without_history: int

    def to_json(self) -> list[dict[str, Any]]:
        """A flat object for each line."""
        return [
            {
                **Row(self.model, self.data, row.result, str(row.reading)).to_json(),
                "minus_full": None if row.difference is None else row.difference.to_json(),
            }
            for row in self.rows
        ]

    def plain(self, width: int | None = None) -> str:
        """The table with its headline, folded at `width`, or (None) as wide as it needs to be."""
        out = io.StringIO()
        console = Console(
            file=out, width=width or 200 + len(self.model) + len(self.data), color_system=None, highlight=False
        )
        console.print(Text(f"{self.model} on {self.data}"))
        console.print(Text(describe(self.rows[0].result)))
        if self.without_history:
            console.print(f"{self.without_history:,} examples have no history: by the history alone they are missed")
        console.print(self._table())
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        ks = list(self.rows[0].result.recall)[:1]  # the least k alone: a line has to fit a terminal
        for name in ("context", *(f"R@{k}" for k in ks), "MRR", *(f"R@{k} minus full" for k in ks)):
            table.add_column(name, overflow="fold")
        for row in self.rows:
            cells = [percent(row.result.recall[k], INTERVAL) for k in ks] + [percent(row.result.mrr, INTERVAL)]
            differences = {} if row.difference is None else row.difference.recall
            table.add_row(in_words(row.reading), *cells, *(percent(differences.get(k), DIFFERENCE) for k in ks))
        return table


def in_words(reading: Reading) -> str:
    """What is read, for people."""
    if reading.part == "input":
        return "input alone (h_x)"
    if reading.part == "history":
        return "history alone (h_z)" if reading.messages is None else f"newest {reading.messages} of it alone"
    return "full" if reading.messages is None else f"input + {reading.messages}"
