"""The examples of a table's column, with their candidates."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rejoinder.digests import file_digest
from rejoinder.errors import InputError
from rejoinder.evaluation.tasks import RankingTask, all_responses, ranking_task, sample
from rejoinder.lab.plan import DataColumn
from rejoinder.progress import Advance, silent

if TYPE_CHECKING:
    from rejoinder.corpora.schema import Example

CANDIDATES = 100  # of 1-of-N, unless a column says otherwise


def read_column(column: DataColumn, progress: Advance = silent) -> tuple[RankingTask, int]:
    """Read the examples of a column with their candidates.

    Also return the number of omitted repeats.
    """
    from rejoinder.corpora.forms.examples import read_examples

    try:
        distinct = _Distinct(read_examples(column.path, column.part), column.distinct)
        examples: Iterable[Example] = distinct
        if column.candidates != "given":
            examples = (
                replace(example, candidates=(), label=None) if example.candidates else example
                for example in distinct
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
    from rejoinder.corpora.readers.dialogues.convai2 import Convai2Settings, draw_candidates

    named = (
        replace(example, id=example.id or f"{number}", thread=example.thread or f"example {number}")
        for number, example in enumerate(examples)
    )
    return draw_candidates(named, path, Reading(), Convai2Settings(draw=count, seed=seed))


def training_digest(column: DataColumn) -> str:
    """Return a digest that changes with the examples that may be learned from."""
    path = column.training_path
    files = sorted(path.glob("train-*.parquet")) if path.is_dir() else [path]
    digests = [(file.name, file_digest(file)) for file in files]
    return hashlib.sha256(repr((digests, column.train_examples, column.seed)).encode()).hexdigest()


def about_column(column: DataColumn, repeated: int) -> str:
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


def absent_data(column: DataColumn) -> str:
    """Return a note on a column's missing data with its command, else an empty text."""
    if Path(column.path).exists():
        return ""
    return (
        f"no {column.path}; `{column.make}`"
        if column.make
        else f"no {column.path}; give column.KEY.path"
    )
