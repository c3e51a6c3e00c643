"""Chunks: what the tasks of a job write, some hundred thousand examples each, without copies within a chunk.

A chunk is a folder: `train.arrow`, `valid.arrow` and `test.arrow`, those that have any example, and `pairs.npy`, the
digests of all of them, by which copies in other chunks are found (see `deduplication`).
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rejoinder.corpora.deduplication import PairList, pair_digest
from rejoinder.corpora.example import Example, Split
from rejoinder.corpora.job import Job, Sizes
from rejoinder.corpora.tables import ExampleWriter
from rejoinder.files import atomic_folder

PAIRS = "pairs.npy"
_LOOK_EVERY = 64


@dataclass
class Chunk:
    """What there is in a chunk."""

    path: str
    """Its folder, relative to the work folder."""
    rows: dict[Split, int] = field(default_factory=dict)
    """Examples of each split that has any."""
    copies: dict[Split, int] = field(default_factory=dict)
    """Examples that were left out, since an equal one came before them in the chunk."""
    characters: dict[Split, int] = field(default_factory=dict)
    """Of their texts."""
    candidates: dict[Split, bool] = field(default_factory=dict)
    """Whether they have candidates."""

    @property
    def total(self) -> int:
        """All its examples."""
        return sum(self.rows.values())


def write_chunks(examples: Iterable[tuple[Split, Example]], job: Job, name: str) -> list[dict[str, Any]]:
    """Write the examples of a task as chunks, each whole or not at all.

    Args:
        examples: with the splits that they belong to.
        job: the job.
        name: of the task.

    Returns:
        The fields of a `Chunk` for each, in order.

    Raises:
        InputError: some examples of a split have candidates and others have none.
    """
    rest = iter(examples)
    chunks: list[dict[str, Any]] = []
    for number in itertools.count():
        first = next(rest, None)
        if first is None:
            return chunks
        chunk = Chunk(f"chunks/{name}.{number}")
        with atomic_folder(job.folder / chunk.path, marker=PAIRS) as part:
            _write_chunk(itertools.chain([first], rest), part, chunk, job.sizes)
        chunks.append(asdict(chunk))
    raise AssertionError("itertools.count ended")


def _write_chunk(examples: Iterator[tuple[Split, Example]], path: Path, chunk: Chunk, sizes: Sizes) -> None:
    """Write examples until the chunk is full."""
    writers: dict[Split, ExampleWriter] = {}
    pairs, copies = PairList(), Counter[Split]()
    with contextlib.ExitStack() as stack:
        for split, example in examples:
            if split not in writers:
                writers[split] = stack.enter_context(ExampleWriter(path / f"{split}.arrow"))
                chunk.candidates[split] = bool(example.candidates)
            if pairs.add(pair_digest(example), split, writers[split].count):
                writers[split].add(example)
            else:
                copies[split] += 1
            if len(pairs) == sizes.chunk:
                break
            if len(pairs) % _LOOK_EVERY == 0 and _characters(writers) >= sizes.chunk_characters:
                break
    pairs.save(path / PAIRS)
    chunk.rows = {split: writer.count for split, writer in writers.items()}
    chunk.characters = {split: writer.characters for split, writer in writers.items()}
    chunk.copies = dict(copies)


def _characters(writers: Mapping[Split, ExampleWriter]) -> int:
    return sum(writer.characters for writer in writers.values())
