"""The files of a data folder: the chunks of a job put together, without the copies, in shards of a reasonable size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rejoinder.corpora.chunks import PAIRS, Chunk
from rejoinder.corpora.deduplication import copies_of, find_copies
from rejoinder.corpora.example import SPLITS, Split
from rejoinder.corpora.job import Sizes
from rejoinder.corpora.tables import arrow_batches, write_batches
from rejoinder.corpora.work import once
from rejoinder.errors import InputError
from rejoinder.files import atomic_file

Copies = Counter[tuple[int, Split]]
"""Number of copies of examples in earlier chunks, by chunk and split."""


@dataclass(frozen=True)
class ShardTask:
    """One file to write: its name, and the chunks that it is made of, with whether each has copies."""

    name: str
    split: Split
    chunks: tuple[tuple[int, bool], ...]


def bucket_copies(folder: Path, chunks: Sequence[str], buckets: int, bucket: int) -> dict[str, Any]:
    """Do a task: find the copies among the examples whose digests fall into a bucket.

    Returns:
        `copies`: chunk, split and number of copies, for those that have any.
    """

    def work() -> dict[str, Any]:
        path = _copies_file(folder, bucket)
        path.parent.mkdir(exist_ok=True)
        return {"copies": find_copies([folder / chunk / PAIRS for chunk in chunks], bucket, buckets, path)}

    return once(folder, f"copies-{bucket:06}", work)


def plan_shards(chunks: Sequence[Chunk], copies: Mapping[tuple[int, Split], int], sizes: Sizes) -> list[ShardTask]:
    """Which chunks go into which file. Each split has at least one file.

    Raises:
        InputError: some examples of a split have candidates and others have none.
    """
    return [
        ShardTask(f"{split}-{number:05}.parquet", split, tuple(group))
        for split in SPLITS
        for number, group in enumerate(_groups(chunks, copies, split, sizes))
    ]


def write_shard(folder: Path, chunks: Sequence[str], buckets: int, task: ShardTask) -> dict[str, Any]:
    """Do a task: write a file.

    Returns:
        `rows`, the examples in it.
    """

    def work() -> dict[str, Any]:
        with atomic_file(shard_folder(folder) / task.name) as part:
            return {"rows": write_batches(_kept(folder, chunks, buckets, task), part)}

    return once(folder, shard_done(task), work)


def shard_done(task: ShardTask) -> str:
    """What the work folder calls the task."""
    return f"shard-{task.name}"


def shard_folder(folder: Path) -> Path:
    """Where the finished files are."""
    return folder / "shards"


def _groups(
    chunks: Sequence[Chunk], copies: Mapping[tuple[int, Split], int], split: Split, sizes: Sizes
) -> Iterator[list[tuple[int, bool]]]:
    """Consecutive chunks that make one file, those left out of which nothing is kept."""
    group: list[tuple[int, bool]] = []
    rows = characters = 0
    kinds = {chunk.candidates[split] for chunk in chunks if split in chunk.rows}
    if len(kinds) > 1:
        raise InputError(
            f"some examples of the {split} part have candidates and some have none; "
            "make one data set of those with candidates and one of those without"
        )
    empty = True
    for number, chunk in enumerate(chunks):
        kept = chunk.rows.get(split, 0) - copies.get((number, split), 0)
        if kept == 0:
            continue
        empty = False
        group.append((number, (number, split) in copies))
        rows, characters = rows + kept, characters + chunk.characters[split]
        if rows >= sizes.shard or characters >= sizes.shard_characters:
            yield group
            group, rows, characters = [], 0, 0
    if group or empty:
        yield group


def _kept(folder: Path, chunks: Sequence[str], buckets: int, task: ShardTask) -> Iterator[pa.RecordBatch]:
    """The examples of a file, without the copies."""
    files = [_copies_file(folder, bucket) for bucket in range(buckets)]
    for number, has_copies in task.chunks:
        copies = copies_of(files, number, task.split) if has_copies else np.empty(0, np.int64)
        row = 0
        for batch in arrow_batches(folder / chunks[number] / f"{task.split}.arrow"):
            here = copies[(copies >= row) & (copies < row + batch.num_rows)] - row
            row += batch.num_rows
            if len(here):
                keep = np.ones(batch.num_rows, np.bool_)
                keep[here] = False
                batch = batch.filter(pa.array(keep))  # noqa: PLW2901 (what is left of it)
            yield batch


def _copies_file(folder: Path, bucket: int) -> Path:
    return folder / "copies" / f"{bucket:06}.npy"
