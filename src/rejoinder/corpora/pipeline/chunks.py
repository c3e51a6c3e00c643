"""Chunks of examples, from the readers to the shards of a data folder, without duplicates.

A task writes its examples as chunks with a column `split`, and for each chunk the examples' 16-byte
digests, sorted. A bucket is a range of digests that fits the memory: of equal ones all but the
first are duplicates. Consecutive chunks make a shard, without their duplicates.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rejoinder.corpora.corpus import Corpus, Input
from rejoinder.corpora.lines import BLOCK_BYTES, Counts, Reading
from rejoinder.corpora.parquet import (
    BATCH_ROWS,
    GROUP_CHARACTERS,
    batch_of,
    characters,
    write_batches,
)
from rejoinder.corpora.pipeline.work_folder import NothingKeptError
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import SPLITS, Split, split_of
from rejoinder.files import atomic_file
from rejoinder.progress import Advance

_DIGEST_BYTES = 16
_BINARIES = pa.list_(pa.large_binary())
_SPLIT_BITS = 2


@dataclass(frozen=True)
class ChunkSizes:
    """Sizes of a job's pieces. They decide its memory and its tasks, never its examples."""

    files: int = 32 * 1024 * 1024  # bytes: smaller files are read together, by one task
    block: int = BLOCK_BYTES  # bytes of lines that are scattered at once
    partition: int = 16 * 1024 * 1024  # bytes of records that are sorted or assembled at once
    chunk: int = 1 << 17  # a chunk ends when it has this many examples
    chunk_bytes: int = 1 << 28  # ... or this many bytes
    bucket: int = 1 << 19  # digests that are compared at once, about
    shard: int = 1 << 19  # a shard ends when it has this many examples
    shard_bytes: int = 1 << 30  # ... or this many bytes


@dataclass(frozen=True)
class ChunkJob:
    """Data shared by all tasks of a job. Workers get it by pickling."""

    corpus: Corpus
    settings: Any
    folder: Path  # the work folder
    history: int | None = 10
    skip_bad: bool = False
    max_bad: int | None = None
    limit: int | None = None  # stop at this many distinct examples
    sizes: ChunkSizes = ChunkSizes()
    on_bytes: Advance | None = None  # counts bytes as they are read; not pickled

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "on_bytes": None}

    def following(self, reading: Reading) -> ChunkJob:
        """Return this job with the rules of a reading."""
        return replace(
            self,
            history=reading.history,
            skip_bad=reading.skip_bad,
            max_bad=reading.max_bad,
        )

    def reading(self, part: Split | None = None) -> Reading:
        """Return the reading of one task."""
        return Reading(
            skip_bad=self.skip_bad,
            history=self.history,
            part=part,
            on_bytes=self.on_bytes,
            max_bad=self.max_bad,
        )


class Chunk(msgspec.Struct, frozen=True):
    """A file of examples of a task, of which some may be duplicates."""

    name: str
    rows: dict[Split, int]  # number of examples, by split; none is 0
    bytes: int
    candidates: bool

    @property
    def total(self) -> int:
        """Number of all its examples."""
        return sum(self.rows.values())


@dataclass(frozen=True)
class ReadTask:
    """Files that are read together."""

    name: str
    inputs: tuple[Input, ...]


class ReadResult(msgspec.Struct, frozen=True):
    """The result of a task for its files, or its partitions (`gather.assemble`)."""

    chunks: list[Chunk]
    counts: Counts
    size: int = 0  # bytes of the files


def read_tasks(job: ChunkJob, inputs: Sequence[Input]) -> Iterator[ReadTask]:
    """Group files by their sizes; with a limit one task reads all of them."""
    group: list[Input] = []
    size = 0
    for number, file in enumerate(inputs):
        if group and job.limit is None and size + file.size > job.sizes.files:
            yield ReadTask(f"read-{number - len(group):06}", tuple(group))
            group = []
            size = 0
        group.append(file)
        size += file.size
    yield ReadTask(f"read-{len(inputs) - len(group):06}", tuple(group))


def read_files(job: ChunkJob, task: ReadTask) -> ReadResult:
    """Read the files of a task and write their examples."""
    reading = job.reading()
    chunks = write_chunks(job, _read_batches(job, task.inputs, reading), task.name)
    return ReadResult(chunks, reading.counts(), sum(file.size for file in task.inputs))


def _read_batches(
    job: ChunkJob, inputs: Sequence[Input], reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Yield the examples of files with their splits; a batch has candidates in all rows or none."""
    assert job.corpus.read is not None
    # With a limit nothing is read beyond it.
    max_rows = 1 if job.limit is not None else min(BATCH_ROWS, job.sizes.chunk)
    for file in inputs:
        file.prepare(reading)
        rows: list[Example] = []
        size = 0
        for example in job.corpus.read(file.path, reading, job.settings):
            alike = not rows or bool(example.candidates) == bool(rows[0].candidates)
            if not alike or len(rows) == max_rows or size >= GROUP_CHARACTERS:
                yield with_splits(job, batch_of(rows), file.part)
                rows = []
                size = 0
            rows.append(example)
            size += characters(example)
        if rows:
            yield with_splits(job, batch_of(rows), file.part)


def with_splits(job: ChunkJob, batch: pa.RecordBatch, part: Split | None) -> pa.RecordBatch:
    """Add the column `split`: `part`, or by the corpus' rule, or by the hash of the thread."""
    if part is not None:
        splits = np.full(batch.num_rows, SPLITS.index(part), np.uint8)
    else:
        threads = batch["thread"].dictionary_encode()
        names = threads.dictionary.to_pylist()
        rule = job.corpus.split
        parts = [rule(name, job.settings) if rule else split_of(name) for name in names]
        numbers = np.array([SPLITS.index(split) for split in parts], np.uint8)
        splits = numbers[threads.indices.to_numpy()]
    return batch.append_column("split", pa.array(splits))


def write_chunks(job: ChunkJob, batches: Iterable[pa.RecordBatch], name: str) -> list[Chunk]:
    """Write the examples of a task, up to the job's limit, as chunks."""
    chunks: list[Chunk] = []
    remaining = (batch for batch in _until_limit(job, batches) if batch.num_rows)
    batch = next(remaining, None)
    while batch is not None:
        chunk, batch = _write_chunk(job, f"{name}.{len(chunks)}", batch, remaining)
        chunks.append(chunk)
    return chunks


def _write_chunk(
    job: ChunkJob, name: str, first: pa.RecordBatch, remaining: Iterator[pa.RecordBatch]
) -> tuple[Chunk, pa.RecordBatch | None]:
    """Write batches of one schema as a chunk; return it and the first batch of the next one."""
    digests: list[bytes] = []
    splits: list[npt.NDArray[np.uint8]] = []
    size = 0
    batch: pa.RecordBatch | None = first
    path = _chunk_file(job, name, "arrow")
    with (
        atomic_file(path, durable=False) as part,
        pa.ipc.new_file(str(part), first.schema) as writer,
    ):
        while batch is not None and batch.schema == first.schema:
            if len(digests) >= job.sizes.chunk or size >= job.sizes.chunk_bytes:
                break
            writer.write_batch(batch)
            digests += example_digests(batch)
            splits.append(batch["split"].to_numpy())
            size += batch.nbytes
            batch = next(remaining, None)
    column = np.concatenate(splits)
    _save_digests(job, name, digests, column)
    counts = np.bincount(column, minlength=len(SPLITS)).tolist()
    rows = {split: count for split, count in zip(SPLITS, counts, strict=True) if count}
    return Chunk(name, rows, size, "candidates" in first.schema.names), batch


def _save_digests(
    job: ChunkJob, name: str, digests: Sequence[bytes], splits: npt.NDArray[np.uint8]
) -> None:
    """Save three rows, sorted by the first: both halves of the digests; row and split."""
    high, low = np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2).T
    places = np.arange(len(splits), dtype=np.uint64) << np.uint64(_SPLIT_BITS) | splits
    order = np.argsort(high, kind="stable")
    _save(_chunk_file(job, name, "npy"), np.stack([high, low, places]).take(order, axis=1))


def _until_limit(job: ChunkJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if job.limit is None:
        yield from batches
        return
    seen: set[bytes] = set()
    for batch in batches:
        for row, digest in enumerate(example_digests(batch), 1):
            seen.add(digest)
            if len(seen) == job.limit:
                yield batch.slice(0, row)
                return
        yield batch


def example_digests(batch: pa.RecordBatch) -> list[bytes]:
    """Return a hash of context, response and candidates of each example.

    Two different examples share a digest with a probability of about n² / 2^129 for n examples.
    """
    # The bytes between the texts are not used by UTF-8, so ("a", "b") and ("ab",) differ.
    names = [name for name in ("context", "candidates") if name in batch.schema.names]
    between = pa.scalar(b"\xff", pa.large_binary())
    context, *candidates = [pc.binary_join(batch[name].cast(_BINARIES), between) for name in names]
    columns = [context, batch["response"].cast(pa.large_binary()), *candidates]
    texts = pc.binary_join_element_wise(*columns, pa.scalar(b"\xfe", pa.large_binary()))
    return [hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest() for text in texts.to_pylist()]


@dataclass(frozen=True)
class Bucket:
    """A range of digests, in which a task finds duplicates."""

    name: str
    number: int


class DuplicateCount(msgspec.Struct, frozen=True):
    """Number of the duplicates in a chunk that belong to a split."""

    chunk: int
    split: Split
    count: int


class Duplicates(msgspec.Struct, frozen=True):
    """Numbers of the duplicates in a bucket."""

    counts: list[DuplicateCount]


def find_duplicates(
    job: ChunkJob, task: Bucket, *, chunks: Sequence[Chunk], buckets: int
) -> Duplicates:
    """Save which examples, of those whose digests fall into a bucket, are duplicates."""
    bounds = [task.number * 2**64 // buckets, (task.number + 1) * 2**64 // buckets - 1]
    lowest, highest = np.array(bounds, np.uint64)
    pieces = []
    for chunk in chunks:
        digests = np.load(_chunk_file(job, chunk.name, "npy"), mmap_mode="r")
        begin = digests[0].searchsorted(lowest)
        end = digests[0].searchsorted(highest, "right")
        pieces.append(np.array(digests[:, begin:end]))
    high, low, rows = np.concatenate(pieces, axis=1)
    sizes = [piece.shape[1] for piece in pieces]
    numbers = np.repeat(np.arange(len(pieces), dtype=np.uint64), sizes)
    # Equal digests get one code; codes are numbered as they first appear.
    data = pa.py_buffer(np.stack([high, low], axis=1).tobytes())
    both = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_DIGEST_BYTES), len(high), [None, data])
    codes: npt.NDArray[np.int32] = both.dictionary_encode().indices.to_numpy()
    repeated = np.flatnonzero(codes <= np.maximum.accumulate(np.append(-1, codes))[:-1])
    repeated = repeated[np.lexsort((rows[repeated], numbers[repeated]))]
    _save(_duplicates_file(job, task.number), np.stack([numbers[repeated], rows[repeated]]))
    splits = rows[repeated] & np.uint64((1 << _SPLIT_BITS) - 1)
    counts = Counter(zip(numbers[repeated].tolist(), splits.tolist(), strict=True))
    return Duplicates(
        [DuplicateCount(chunk, SPLITS[split], count) for (chunk, split), count in counts.items()]
    )


@dataclass(frozen=True)
class ChunkSource:
    """A chunk, by its number, of which a shard takes the examples of its split."""

    chunk: int
    has_duplicates: bool


@dataclass(frozen=True)
class Shard:
    """A file of the data folder."""

    name: str
    split: Split
    sources: tuple[ChunkSource, ...]


def plan_shards(
    chunks: Sequence[Chunk], duplicates: Mapping[tuple[int, Split], int], sizes: ChunkSizes
) -> list[Shard]:
    """Decide which consecutive chunks go into which shard; a split has at least one.

    `duplicates` are numbers by chunk and split. NothingKeptError: a split has examples with
    candidates and examples without.
    """
    shards = []
    for split in SPLITS:
        if len({chunk.candidates for chunk in chunks if split in chunk.rows}) > 1:
            raise NothingKeptError(
                f"some examples of the {split} part have candidates and some have none; "
                "make one data set of those with candidates and one of those without"
            )
        groups: list[list[ChunkSource]] = [[]]
        rows = 0
        size = 0.0
        for number, chunk in enumerate(chunks):
            kept = chunk.rows.get(split, 0) - duplicates.get((number, split), 0)
            if not kept:
                continue
            if rows >= sizes.shard or size >= sizes.shard_bytes:
                groups.append([])
                rows = 0
                size = 0.0
            groups[-1].append(ChunkSource(number, (number, split) in duplicates))
            rows += kept
            size += chunk.bytes * kept / chunk.total
        shards += [
            Shard(f"{split}-{count:05}.parquet", split, tuple(group))
            for count, group in enumerate(groups)
        ]
    return shards


def write_shard(job: ChunkJob, shard: Shard, *, chunks: Sequence[Chunk], buckets: int) -> Path:
    """Write a shard, unless it exists, and return its path in the work folder."""
    path = job.folder / "shards" / shard.name
    if not path.exists():
        with atomic_file(path) as part:
            write_batches(_kept(job, chunks, buckets, shard), part)
    return path


def _kept(
    job: ChunkJob, chunks: Sequence[Chunk], buckets: int, shard: Shard
) -> Iterator[pa.RecordBatch]:
    """Yield the examples of a shard without the duplicates."""
    for source in shard.sources:
        repeated = np.empty(0, np.int64)
        if source.has_duplicates:
            repeated = _duplicate_rows(job, buckets, source.chunk)
        row = 0
        path = _chunk_file(job, chunks[source.chunk].name, "arrow")
        with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as table:
            for batch in map(table.get_batch, range(table.num_record_batches)):
                keep = batch["split"].to_numpy() == SPLITS.index(shard.split)
                keep[repeated[(repeated >= row) & (repeated < row + len(keep))] - row] = False
                row += len(keep)
                if keep.any():
                    yield batch.drop_columns(["split"]).filter(pa.array(keep))


def _duplicate_rows(job: ChunkJob, buckets: int, chunk: int) -> npt.NDArray[np.int64]:
    rows = []
    for bucket in range(buckets):
        numbers, places = np.load(_duplicates_file(job, bucket), mmap_mode="r")
        begin, end = numbers.searchsorted(np.array([chunk, chunk + 1], np.uint64))
        rows.append(places[begin:end] >> np.uint64(_SPLIT_BITS))
    return np.concatenate(rows).astype(np.int64)


def _save(path: Path, array: npt.NDArray[Any]) -> None:
    with atomic_file(path, durable=False) as part, part.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def _chunk_file(job: ChunkJob, name: str, suffix: str) -> Path:
    return job.folder / "chunks" / f"{name}.{suffix}"


def _duplicates_file(job: ChunkJob, bucket: int) -> Path:
    return job.folder / "duplicates" / f"{bucket:06}.npy"
