"""Chunks: what the tasks of a job write, some hundred thousand examples each, without copies within a chunk.

A chunk is a folder: `train.arrow`, `valid.arrow` and `test.arrow`, those that have any example, and `pairs.npy`, the
digests of all of them, by which copies in other chunks are found (see `deduplication`).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rejoinder.corpora.deduplication import PairList, pair_digests
from rejoinder.corpora.example import SPLITS, Split
from rejoinder.corpora.job import Job, Placed, Sizes
from rejoinder.corpora.tables import ExampleWriter
from rejoinder.files import atomic_folder

PAIRS = "pairs.npy"
_AT_ONCE = 4_096
"""Examples that are looked at together."""


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


def write_chunks(examples: Iterable[Placed], job: Job, name: str) -> list[dict[str, Any]]:
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
    rest = _Rest(examples)
    chunks: list[dict[str, Any]] = []
    while rest:
        chunk = Chunk(f"chunks/{name}.{len(chunks)}")
        with atomic_folder(job.folder / chunk.path, None, durable=job.durable) as part:
            _write_chunk(rest, part, chunk, job.sizes)
        chunks.append(asdict(chunk))
    return chunks


class _Rest:
    """Examples that are still to come; false if there are none."""

    def __init__(self, examples: Iterable[Placed]) -> None:
        self._more = iter(examples)
        self._next: Placed | None = None

    def __bool__(self) -> bool:
        while self._next is None or self._next[1].num_rows == 0:
            self._next = next(self._more, None)
            if self._next is None:
                return False
        return True

    def take(self, most: int) -> Placed:
        """The next ones, at most so many; there must be some."""
        assert self
        assert self._next is not None
        splits, rows = self._next
        self._next = (splits[most:], rows.slice(most))
        return splits[:most], rows.slice(0, most)


def _write_chunk(examples: _Rest, path: Path, chunk: Chunk, sizes: Sizes) -> None:
    """Write examples until the chunk is full."""
    writers: dict[Split, ExampleWriter] = {}
    pairs, copies = PairList(), Counter[Split]()
    with contextlib.ExitStack() as stack:
        while examples and len(pairs) < sizes.chunk and _characters(writers) < sizes.chunk_characters:
            splits, rows = examples.take(min(_AT_ONCE, sizes.chunk - len(pairs)))
            counts = [writers[split].count if split in writers else 0 for split in SPLITS]
            new = pairs.add(pair_digests(rows), splits.tolist(), counts)
            for split in (SPLITS[place] for place in np.unique(splits)):
                if split not in writers:
                    writers[split] = stack.enter_context(ExampleWriter(path / f"{split}.arrow"))
                    chunk.candidates[split] = "candidates" in rows.schema.names
                here = splits == SPLITS.index(split)
                writers[split].add_rows(rows.filter(pa.array(here & new)))
                copies[split] += int((here & ~new).sum())
    pairs.save(path / PAIRS)
    chunk.rows = {split: writer.count for split, writer in writers.items()}
    chunk.characters = {split: writer.characters for split, writer in writers.items()}
    chunk.copies = dict(+copies)


def _characters(writers: Mapping[Split, ExampleWriter]) -> int:
    return sum(writer.characters for writer in writers.values())
