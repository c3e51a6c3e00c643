"""A job: one corpus, its settings, and how its files are read; what every task of it must know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.deduplication import pair_digests
from rejoinder.corpora.example import SPLITS, Example, Split
from rejoinder.corpora.lines import BLOCK_BYTES, Reading
from rejoinder.corpora.splits import split_of
from rejoinder.corpora.tables import GROUP_CHARACTERS, batch_of

Placed: TypeAlias = tuple[npt.NDArray[np.uint8], pa.RecordBatch]
"""Examples as columns, and the place in `SPLITS` of the split that each belongs to."""


@dataclass(frozen=True)
class Input:
    """A file to read."""

    path: Path
    part: Split | None = None
    """The split that all its examples go to, whatever their threads' hashes."""


@dataclass(frozen=True)
class Sizes:
    """How large the pieces of a job are. They decide its memory and its tasks, and never which examples come out."""

    files: int = 32 * 1024 * 1024
    """Bytes: small files that follow each other are read in one task; a larger file is one of its own."""
    block: int = BLOCK_BYTES
    """Bytes of lines that are scattered at once."""
    merged: int = 64
    """Files of scattered records that become one, where there are many."""
    unmerged: int = 1024
    """Files of scattered records that are left as they are."""
    partition: int = 16 * 1024 * 1024
    """Bytes of records that are assembled at once, about; as Python objects they take some times as much."""
    chunk: int = 1 << 17
    """Examples of a chunk."""
    chunk_characters: int = 1 << 28
    """A chunk is closed when its texts reach this many."""
    bucket: int = 1 << 19
    """Digests that are compared at once, about."""
    shard: int = 1 << 19
    """A file of the data folder is closed when it has so many examples."""
    shard_characters: int = 1 << 30
    """A file of the data folder is closed when its texts reach this many."""


@dataclass(frozen=True)
class Job:
    """What all tasks of a job have in common. Workers get it by pickling."""

    corpus: Corpus
    settings: Any
    """An instance of `corpus.settings`."""
    folder: Path
    """The work folder."""
    history: int | None = 10
    skip_bad: bool = False
    max_bad: int | None = None
    limit: int | None = None
    """How many distinct examples are enough."""
    sizes: Sizes = Sizes()
    durable: bool = True
    """Whether the files of tasks wait for the disk (see `work.hurry`)."""

    def reading(self, part: Split | None = None, on_bytes: Callable[[int], object] | None = None) -> Reading:
        """A reading for one task."""
        return Reading(self.skip_bad, self.history, part, on_bytes, max_bad=self.max_bad)

    def until_enough(self, examples: Iterable[Placed]) -> Iterator[Placed]:
        """The examples until so many distinct ones came as the limit says; all of them without a limit."""
        if self.limit is None:
            yield from examples
            return
        seen: set[bytes] = set()
        for splits, rows in examples:
            for row, digest in enumerate(pair_digests(rows), 1):
                seen.add(digest)
                if len(seen) == self.limit:
                    yield splits[:row], rows.slice(0, row)
                    return
            yield splits, rows


def placed(job: Job, example: Example, part: Split | None) -> tuple[Split, Example]:
    """An example with its split: the given part, or what the corpus says, or else its thread's hash."""
    if part is None and job.corpus.split is not None:
        part = job.corpus.split(example, job.settings)
    return part or split_of(example.thread), example


def placed_rows(job: Job, rows: pa.RecordBatch, part: Split | None) -> Placed:
    """Many examples with their splits, as `placed` gives them; the hash of a thread is taken once."""
    assert job.corpus.split is None, "a corpus with a split of its own gives examples one by one"
    if part is not None:
        return np.full(rows.num_rows, SPLITS.index(part), np.uint8), rows
    threads = rows["thread"].dictionary_encode()
    splits = [SPLITS.index(split_of(thread)) for thread in threads.dictionary.to_pylist()]
    return np.array(splits, np.uint8)[threads.indices.to_numpy()], rows


def place_together(examples: Iterable[tuple[Split, Example]], most: int) -> Iterator[Placed]:
    """Examples one by one, with their splits, put together to columns.

    Args:
        examples: with or without candidates; those that follow each other and are alike come together.
        most: so many at once, or fewer where they are large.
    """
    rows: list[Example] = []
    splits: list[int] = []
    characters = 0
    for split, example in examples:
        alike = not rows or bool(example.candidates) == bool(rows[0].candidates)
        if not alike or len(rows) == most or characters >= GROUP_CHARACTERS:
            yield np.array(splits, np.uint8), batch_of(rows)
            rows, splits, characters = [], [], 0
        rows.append(example)
        splits.append(SPLITS.index(split))
        characters += len(example.response) + sum(map(len, (*example.context, *example.candidates)))
    if rows:
        yield np.array(splits, np.uint8), batch_of(rows)
