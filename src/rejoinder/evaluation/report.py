"""Tables of several rankers' results on several data sets, as text, Markdown and JSON."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from rejoinder.documents import markdown_table
from rejoinder.evaluation.bootstrap import CONFIDENCE, Estimate
from rejoinder.evaluation.result import RankingResult, compare


@dataclass(frozen=True)
class Row:
    """Result of a ranker on a data set, for a reading of contexts (see `parse_reading`)."""

    model: str
    data: str
    result: RankingResult
    context: str = "full"

    @property
    def title(self) -> str:
        """The model, and the reading unless it is the full context."""
        return self.model if self.context == "full" else f"{self.model} ({self.context})"

    def to_json(self) -> dict[str, Any]:
        """Return names and result as one flat object."""
        return {
            "model": self.model,
            "data": self.data,
            "context": self.context,
            **self.result.to_json(),
        }


def markdown(rows: Sequence[Row]) -> str:
    """Return a Markdown table, a line for each row: shares in %, intervals in brackets."""
    ks = sorted({k for row in rows for k in row.result.recall})
    lines = [
        [
            "model",
            "data",
            *(f"R@{k}" for k in ks),
            "MRR",
            "examples",
            "candidates",
            "unit",
            "seconds",
        ]
    ]
    for row in rows:
        result = row.result
        values = [percent(estimate) for estimate in (*map(result.recall.get, ks), result.mrr)]
        size = [f"{result.examples:,}", _candidates(result), f"{result.units:,} {result.unit}s"]
        lines.append([row.title, row.data, *values, *size, f"{result.seconds:.1f}"])
    return markdown_table(lines, left=(0, 1, len(ks) + 5))


def plain(rows: Sequence[Row], width: int | None = None, above: Sequence[str] = ()) -> str:
    """Return a description and a table for each data set, as plain text.

    The table has a column for each ranker. For several rankers and data sets, a last table shows
    R@1 side by side. Gains are over the rankers named in `above`, or else over the first. Lines are
    folded at `width` (None: never).
    """
    needed = 120 + sum(len(row.title) + len(row.data) + 24 for row in rows)
    return render(_parts(rows, above), width or needed)


def render(parts: Iterable[RenderableType], width: int) -> str:
    """Return the text that rich would print, without colours, markup and trailing spaces."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False)
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _parts(rows: Sequence[Row], above: Sequence[str]) -> Iterator[RenderableType]:
    for data, group in _by_data(rows).items():
        if group[0] is not rows[0]:
            yield ""
        yield Text(data, style="bold")
        for same in _by_task(group):
            yield Text(describe(same[0].result))
            bases = _bases(same, above)
            if len(bases) > 1:
                yield Text("above NAME: R@1 less that of NAME, paired example by example")
            elif len(same) > 1:
                yield Text(f"gain: R@1 above {bases[0].title}, paired example by example")
            yield _table(same, bases)
    if len({row.data for row in rows}) > 1 and len({row.model for row in rows}) > 1:
        yield ""
        yield Text("R@1 side by side", style="bold")
        yield _side_by_side(rows)


def describe(result: RankingResult) -> str:
    """Return two or three lines on the ranked data and the precision of the numbers."""
    origin = "given by the data" if result.given_candidates else f"1-of-{result.candidates}"
    origin = "the same for all" if result.same_candidates else origin
    lines = [f"{result.examples:,} examples, {_candidates(result)} candidates each ({origin})"]
    if result.dropped:
        lines[0] += (
            f"; {result.dropped:,} left"
            f" {'out: answered otherwise' if result.same_candidates else 'over'}"
        )
    if result.ambiguous:
        counts = "counts as right" if result.copies == "right" else "stands before it"
        lines.append(f"{result.ambiguous:,} with a copy of the right response, which {counts}")
    drawn = f"{result.resamples:,} resamples of {result.units:,} {result.unit}s"
    lines.append(f"in %, with {CONFIDENCE:.0%} intervals: {drawn}")
    return "\n".join(lines)


def _bases(rows: Sequence[Row], above: Sequence[str]) -> list[Row]:
    return [row for name in above for row in rows if row.model == name] if above else [rows[0]]


def plain_table(heads: Sequence[str], padding: int = 3) -> Table:
    """Return a table without rules, whose columns fold."""
    table = Table(box=None, padding=(0, padding, 0, 0), header_style="bold")
    for head in heads:
        table.add_column(Text(head), overflow="fold")
    return table


def _table(rows: Sequence[Row], bases: Sequence[Row]) -> Table:
    table = plain_table(["", *(row.title for row in rows)])
    for k in sorted({k for row in rows for k in row.result.recall}):
        table.add_row(f"R@{k}", *(percent(row.result.recall.get(k), "{}  {}-{}") for row in rows))
    table.add_row("MRR", *(percent(row.result.mrr, "{}  {}-{}") for row in rows))
    # paired, so much narrower than the intervals above suggest
    for base in bases if len(rows) > 1 else ():
        gains = (None if row is base else _difference_at_1(row, base) for row in rows)
        label = "gain" if len(bases) == 1 else f"above {base.title}"
        table.add_row(Text(label), *(percent(gain, "{:+}  {:+} to {:+}") for gain in gains))
    table.add_row("time", *(f"{row.result.seconds:.1f} s" for row in rows))
    return table


def _difference_at_1(row: Row, base: Row) -> Estimate | None:
    """Return the paired difference of recall at 1; None: of other examples or replies."""
    if row.result.fingerprint != base.result.fingerprint:
        return None
    return compare(row.result, base.result, seed=row.result.seed).recall[1]


def to_json(rows: Sequence[Row], above: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return each row as JSON values, with its differences.

    Differences are to the first row of its data and to the rows of `above`.
    """
    objects = []
    for group in _by_data(rows).values():
        for row in group:
            more: dict[str, Any] = {}
            gain = None if row is group[0] else _difference_at_1(row, group[0])
            if gain is not None:
                more["recall_at_1_above_the_first"] = asdict(gain)
            if above:
                bases = [base for base in _bases(group, above) if base is not row]
                gains = {base.model: _difference_at_1(row, base) for base in bases}
                more["recall_at_1_above"] = {
                    model: asdict(gain) for model, gain in gains.items() if gain is not None
                }
            objects.append(row.to_json() | more)
    return objects


def _side_by_side(rows: Sequence[Row]) -> Table:
    names = list(_by_data(rows))
    table = plain_table(["", *names])
    recall_at_1 = {(row.title, row.data): row.result.recall.get(1) for row in rows}
    for model in dict.fromkeys(row.title for row in rows):
        table.add_row(
            Text(model), *(percent(recall_at_1.get((model, name)), "{}  {}-{}") for name in names)
        )
    return table


def _by_data(rows: Sequence[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.data, []).append(row)
    return groups


def _by_task(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield rows that ranked the same examples among the same candidates."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.result.fingerprint, []).append(row)
    yield from groups.values()


def percent(estimate: Estimate | None, form: str = "{} [{}, {}]") -> str:
    """Return value, low and high end of an estimate in %, in the three places of `form`.

    For None they are empty.
    """
    if estimate is None:  # k is not below this data set's number of candidates
        return ""
    return form.format(
        *(round(100 * number, 1) for number in (estimate.value, estimate.low, estimate.high))
    )


def _candidates(result: RankingResult) -> str:
    if result.fewest_candidates == result.candidates:
        return f"{result.candidates:,}"
    return f"{result.fewest_candidates:,}-{result.candidates:,}"
