"""Parts of each context that a ranker may read alone, and a table of what each gives.

It shows the gain from the history (CONVERT, section 4.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from rejoinder.arrays import FloatArray
from rejoinder.conversations import AnyMessage, ContextPart, Conversation, truncate_history
from rejoinder.encoders.protocol import DualEncoder, Ranker
from rejoinder.errors import InputError
from rejoinder.evaluation.ranking import evaluate_task
from rejoinder.evaluation.report import Row, describe, percent, plain_table, render
from rejoinder.evaluation.result import Comparison, RankingResult, compare
from rejoinder.evaluation.tasks import RankingTask
from rejoinder.progress import Advance, silent

MOST_MESSAGES = 10  # earlier ones, as far as the paper's table goes


@dataclass(frozen=True, slots=True)
class ContextReading:
    """The part of each context that is read: at most `messages` earlier ones (None: all).

    The newest ones are read, and personas, which do not count. `part` names a part of the model.
    """

    messages: int | None = None
    part: ContextPart = "all"

    def __str__(self) -> str:
        """Return the words that `parse_reading` takes."""
        count = "" if self.messages is None else str(self.messages)
        if self.part == "all":
            return count or "full"
        return f"{self.part}={count}" if count else self.part

    @property
    def label(self) -> str:
        """The words of the table."""
        if self.part == "input":
            return "input alone (h_x)"
        if self.part == "history":
            return (
                "history alone (h_z)"
                if self.messages is None
                else f"newest {self.messages} of it alone"
            )
        return "full" if self.messages is None else f"input + {self.messages}"

    def cut(self, context: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
        """Return the part of the context that is read."""
        return context if self.messages is None else truncate_history(context, self.messages)


FULL = ContextReading()


def parse_reading(text: str) -> ContextReading:
    """Read "full", "3", "input", "history" or "history=3"; anything else is an InputError."""
    named = {
        "full": FULL,
        "input": ContextReading(part="input"),
        "history": ContextReading(part="history"),
    }
    if text in named:
        return named[text]
    part: ContextPart = "history" if text.startswith("history=") else "all"
    count = text.removeprefix("history=")
    if not (count.isascii() and count.isdecimal()):
        raise InputError(
            "a context is read as full, N (the newest message and at most N earlier ones),"
            f" input, history or history=N, not {text!r}"
        )
    if part == "history" and int(count) == 0:
        raise InputError("history=0 leaves nothing to rank by; give history=1 or more")
    return ContextReading(int(count), part)


def with_parts(ranker: Any, name: str) -> Any:
    """Return the ranker if it is an encoder that reads input and history.

    The InputError for any other ranker calls it `name`.
    """
    if isinstance(ranker, DualEncoder) and ranker.reads_history:
        return ranker
    raise InputError(
        f"{name} has no parts for input and history: only multi-context models have them"
    )


def restrict(ranker: Ranker, reading: ContextReading, name: str = "this ranker") -> Ranker:
    """Return a ranker that reads only the parts in `reading`; see `with_parts`."""
    if reading.part != "all":
        ranker = with_parts(ranker, name).by(reading.part)
    return ranker if reading.messages is None else _Restricted(ranker, reading)


class _Restricted:
    def __init__(self, ranker: Ranker, reading: ContextReading) -> None:
        self.ranker = ranker
        self.reading = reading

    def score(
        self, contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]
    ) -> FloatArray:
        return self.ranker.score([self.reading.cut(context) for context in contexts], candidates)


class ContextRow(NamedTuple):
    """A line of the table, with its paired difference to the full context; None for that one."""

    reading: ContextReading
    result: RankingResult
    difference: Comparison | None


@dataclass(frozen=True)
class ContextTable:
    """Rankings by parts of each context, the full one first."""

    model: str
    data: str
    rows: Sequence[ContextRow]
    without_history: int  # examples whose context is a single message

    def to_json(self) -> list[dict[str, Any]]:
        """Return a flat object for each line."""
        objects = []
        for reading, result, difference in self.rows:
            row = Row(self.model, self.data, result, str(reading)).to_json()
            objects.append(
                {**row, "minus_full": None if difference is None else difference.to_json()}
            )
        return objects

    def plain(self, width: int | None = None) -> str:
        """Return the table with its headline, folded at `width`, or (None) nowhere."""
        return render(self._parts(), width or 200 + len(self.model) + len(self.data))

    def _parts(self) -> Iterator[RenderableType]:
        """Yield what people see: which part of the context does how much."""
        yield Text(f"{self.model} on {self.data}")
        yield Text(describe(self.rows[0].result))
        if self.without_history:
            yield (
                f"{self.without_history:,} examples have no history:"
                " by the history alone they are missed"
            )
        ks = list(self.rows[0].result.recall)[:1]  # only the least k: a line has to fit a terminal
        heads = ["context", *(f"R@{k}" for k in ks), "MRR", *(f"R@{k} minus full" for k in ks)]
        table = plain_table(heads, padding=2)
        for reading, result, difference in self.rows:
            figures = [
                percent(estimate, "{}  {}-{}")
                for estimate in (*(result.recall[k] for k in ks), result.mrr)
            ]
            minus = {} if difference is None else difference.recall
            table.add_row(
                reading.label, *figures, *(percent(minus.get(k), "{}  {} to {}") for k in ks)
            )
        yield table


def table_readings() -> list[ContextReading]:
    """Return the lines of the table: full context, 0 to 10 earlier messages, single parts."""
    counted = [ContextReading(count) for count in range(MOST_MESSAGES + 1)]
    parts = [
        ContextReading(part="input"),
        ContextReading(part="history"),
        ContextReading(1, "history"),
    ]
    return [FULL, *counted, *parts]


def context_table(
    ranker: Ranker,
    task: RankingTask,
    model: str = "this ranker",
    data: str = "",
    seed: int = 0,
    block_size: int | None = None,
    progress: Advance = silent,
) -> ContextTable:
    """Rank by the full context and by parts of it (CONVERT, section 4.2); see `evaluate_task`."""
    known = with_parts(ranker, model).with_cache()
    rows: list[ContextRow] = []
    for reading in table_readings():
        less = restrict(known, reading)
        result = evaluate_task(less, task, seed=seed, block_size=block_size, progress=progress)
        difference = compare(result, rows[0].result, seed=seed) if rows else None
        rows.append(ContextRow(reading, result, difference))
    return ContextTable(model, data, rows, sum(len(context) == 1 for context in task.contexts))
