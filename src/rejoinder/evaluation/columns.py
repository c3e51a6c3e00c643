"""The data of a column of a table: examples without repetitions, with the candidates that the column asks for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from rejoinder.errors import InputError
from rejoinder.evaluation.sampling import sample
from rejoinder.evaluation.table_file import DataColumn
from rejoinder.evaluation.tasks import RankingTask, ranking_task
from rejoinder.files import file_digest

if TYPE_CHECKING:
    from rejoinder.corpora.example import Example, Split

Progress: TypeAlias = Callable[[int], object]
"""Called with the number of examples just read."""

CANDIDATES = 100
"""N of 1-of-N, unless a column says otherwise."""


@dataclass(frozen=True)
class ColumnData:
    """What of a column is ranked.

    Attributes:
        task: contexts with their candidates.
        origin: where the candidates come from, in words.
        repeated: examples left out because their input or response had come before.
    """

    task: RankingTask
    origin: str
    repeated: int


def read_column(column: DataColumn, progress: Progress | None = None) -> ColumnData:
    """Read the examples of a column and give them their candidates.

    Raises:
        InputError: the data is missing or damaged, has too few examples, or has no lists although they are asked for.
    """
    from rejoinder.corpora.example import read_examples

    path = Path(column.path)
    try:
        once = _Once(read_examples(path, _split(column)), column.distinct)
        examples: Iterable[Example] = once
        if column.draw is not None:
            examples = draw(once, column.draw, column.seed, path)
        elif column.candidates != "given":
            examples = map(_without_lists, once)
        kept = sample(examples, column.limit, column.seed, progress=progress)
        return ColumnData(_task(column, kept), _origin(column), once.repeated)
    except InputError as error:
        raise InputError(f"{column.name}: {error}") from error


def draw(examples: Iterable[Example], count: int, seed: int, path: Path) -> Iterator[Example]:
    """Give each example `count` candidates out of the responses of other threads, and its own response last.

    Lists that the data has are not used. An example without a thread is a thread of its own.

    Args:
        examples: held in memory.
        count: how many.
        seed: of the draw, which is that of `rejoinder data convai2 --set draw=N`.
        path: what an error calls the data.

    Raises:
        InputError: there are not that many other responses.
    """
    from rejoinder.corpora.convai2 import Convai2Settings, draw_candidates
    from rejoinder.corpora.lines import Reading

    named = (
        replace(_without_lists(each), id=each.id or f"{place}", thread=each.thread or f"example {place}")
        for place, each in enumerate(examples)
    )
    return draw_candidates(named, path, Reading(), Convai2Settings(draw=count, seed=seed))


def training_examples(column: DataColumn, progress: Progress | None = None) -> list[Example]:
    """The examples that fit a ranker for this column.

    Raises:
        InputError: the data has no training part, or that is what is ranked.
    """
    from rejoinder.corpora.example import read_examples

    path = _training_place(column)
    examples = sample(read_examples(path, "train"), column.train_examples, column.seed, progress=progress)
    if not examples:
        raise InputError(f"{path} has no training examples; name data that has some (train)")
    return examples


def training_digest(column: DataColumn) -> str:
    """SHA-256 that changes when `training_examples` may give others; from the bytes of the files.

    Raises:
        InputError: as for `training_examples`.
    """
    path = _training_place(column)
    files = sorted(path.glob("train-*.parquet")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise InputError(f"{path} has no training examples; name data that has some (train)")
    digests = [(file.name, file_digest(file)) for file in files]
    return hashlib.sha256(repr((digests, column.train_examples, column.seed)).encode()).hexdigest()


def _training_place(column: DataColumn) -> Path:
    """Data to learn from, of which the column ranks nothing."""
    place = Path(column.train or column.path)
    if place.resolve() == Path(column.path).resolve() and _split(column) in (None, "train"):
        raise InputError(f"{column.path} is ranked with its training part; name other data to learn from (train)")
    return place


class _Once:
    """The examples whose input, or response, has not come before; counts the others."""

    def __init__(self, examples: Iterable[Example], by: Literal["none", "inputs", "responses", "both"]) -> None:
        self.examples, self.repeated = examples, 0
        self.inputs, self.responses = by in ("inputs", "both"), by in ("responses", "both")

    def __iter__(self) -> Iterator[Example]:
        seen: set[tuple[str, str]] = set()
        for example in self.examples:
            texts = [("input", example.context[-1])] if self.inputs else []
            texts += [("response", example.response)] if self.responses else []
            if any(text in seen for text in texts):
                self.repeated += 1
                continue
            seen.update(texts)
            yield example


def _without_lists(example: Example) -> Example:
    return replace(example, candidates=(), label=None) if example.candidates else example


def _split(column: DataColumn) -> Split | None:
    if column.split is None:
        return "test" if Path(column.path).is_dir() else None
    return None if column.split == "all" else column.split


def _task(column: DataColumn, examples: list[Example]) -> RankingTask:
    from rejoinder.corpora.example import read_columns

    if column.candidates == "all":
        # Of all parts: a new question may have any answer, also one that is known from training alone.
        batches = read_columns(column.path, None, ("response",))
        return ranking_task(examples, pool=(text for batch in batches for text in batch.column(0).to_pylist()))
    if column.candidates == "given" and not any(example.candidates for example in examples):
        raise InputError('the data has no lists of candidates; give candidates = N, "all", or draw = N')
    count = column.candidates if isinstance(column.candidates, int) else CANDIDATES
    return ranking_task(examples, candidates=count, seed=column.seed)


def _origin(column: DataColumn) -> str:
    if column.draw is not None:
        return f"{column.draw} drawn from other threads, seed {column.seed}"
    if column.candidates == "given":
        return "given by the data"
    if column.candidates == "all":
        return "all responses of the data"
    return f"1-of-{column.candidates or CANDIDATES}"
