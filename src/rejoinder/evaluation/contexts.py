"""How much of each context a ranker is given: CONVERT's comparison of its multi-context model's parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rejoinder.errors import InputError
from rejoinder.evaluation.bootstrap import RESAMPLES
from rejoinder.evaluation.ranking import evaluate_task
from rejoinder.evaluation.results import Comparison, RankingResult, compare
from rejoinder.evaluation.tasks import RankingTask
from rejoinder.ranker import Context, ContextPart, FloatArray, Ranker

MOST_MESSAGES = 10
"""Earlier messages up to which the table goes, as the paper's does."""


@runtime_checkable
class MultiContextRanker(Ranker, Protocol):
    """A ranker that reads input and history, and can rank by one of them alone."""

    @property
    def reads_history(self) -> bool:
        """Whether earlier messages count."""
        ...

    def by(self, part: ContextPart) -> MultiContextRanker:
        """The same ranker, which reads one part alone."""
        ...

    def remembering(self) -> MultiContextRanker:
        """The same ranker, which computes nothing twice."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """What of each context is read.

    Attributes:
        messages: at most so many earlier messages, the newest ones; None: all.
        part: by which part of the model: all of it, the input alone, or the history alone.
    """

    messages: int | None = None
    part: ContextPart = "all"

    def __str__(self) -> str:
        """The words that `parse_reading` takes."""
        count = "" if self.messages is None else str(self.messages)
        if self.part == "all":
            return count or "full"
        return f"{self.part}={count}" if count else self.part

    def cut(self, context: Context) -> Context:
        """The context without the messages that are not read."""
        return context if self.messages is None else context[-1 - self.messages :]


FULL = Reading()


def parse_reading(text: str) -> Reading:
    """Read "full", "3", "input", "history" or "history=3".

    Raises:
        InputError: it is none of them.
    """
    named = {"full": FULL, "input": Reading(part="input"), "history": Reading(part="history")}
    if text in named:
        return named[text]
    part: ContextPart = "history" if text.startswith("history=") else "all"
    count = text.removeprefix("history=")
    if not (count.isascii() and count.isdecimal()):
        raise InputError(
            "a context is read as full, 0, 1, 2, ... (the newest message and so many earlier ones), input, history or "
            f"history=N, not {text!r}"
        )
    if part == "history" and int(count) == 0:
        raise InputError("history=0 leaves nothing to rank by; give history=1 or more")
    return Reading(int(count), part)


def with_parts(ranker: Ranker, name: str) -> MultiContextRanker:
    """The ranker, known to be one that reads input and history.

    Raises:
        InputError: it is not; `name` is what the message calls it.
    """
    if isinstance(ranker, MultiContextRanker) and ranker.reads_history:
        return ranker
    raise InputError(f"{name} has no parts for input and history: only multi-context models have them")


def reader(ranker: Ranker, reading: Reading, name: str = "this ranker") -> Ranker:
    """A ranker that is given only what `reading` says.

    Raises:
        InputError: a part is asked for of a ranker that has none; `name` is what the message calls it.
    """
    if reading.part != "all":
        ranker = with_parts(ranker, name).by(reading.part)
    return ranker if reading.messages is None else _Cut(ranker, reading)


@dataclass(frozen=True, slots=True)
class TableRow:
    """A line of the table.

    Attributes:
        reading: what was read.
        result: what it gave.
        difference: that minus what the full context gave, on the same resamples; None for the full context.
    """

    reading: Reading
    result: RankingResult
    difference: Comparison | None


def table_readings(messages: int = MOST_MESSAGES) -> list[Reading]:
    """The lines of the table: the full context, 0 to `messages` earlier messages, the parts alone."""
    counted = [Reading(count) for count in range(messages + 1)]
    return [FULL, *counted, Reading(part="input"), Reading(part="history"), Reading(1, "history")]


def context_table(
    ranker: Ranker,
    task: RankingTask,
    *,
    name: str = "this ranker",
    seed: int = 0,
    resamples: int = RESAMPLES,
    block_size: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[TableRow]:
    """Rank by the full context and by parts of it (CONVERT, section 4.2).

    Args:
        ranker: a multi-context encoder.
        task: what is ranked.
        name: what an error calls the ranker.
        seed: of the bootstrap.
        resamples: how often the bootstrap draws.
        block_size: see `ranking.evaluate`.
        progress: called with the number of examples done; `len(task)` of them for each of `table_readings`.

    Raises:
        InputError: the ranker reads no history.
    """
    known = with_parts(ranker, name).remembering()
    rows: list[TableRow] = []
    for reading in table_readings():
        result = evaluate_task(
            reader(known, reading), task, seed=seed, resamples=resamples, block_size=block_size, progress=progress
        )
        full = rows[0].result if rows else None
        difference = None if full is None else compare(result, full, resamples=resamples, seed=seed)
        rows.append(TableRow(reading, result, difference))
    return rows


class _Cut:
    """Gives a ranker shorter contexts."""

    def __init__(self, ranker: Ranker, reading: Reading) -> None:
        self.ranker, self.reading = ranker, reading

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """See `ranker.Ranker.score`."""
        return self.ranker.score([self.reading.cut(context) for context in contexts], candidates)
