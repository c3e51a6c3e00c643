"""Chunks of examples, from the readers to the files of a data folder; what the tasks of every job do.

A task writes chunks with a column `split`, and each chunk's 16-byte digests, sorted. A bucket is a range of digests
that fits the memory; all but the first of equal ones are copies. Consecutive chunks make a file, without the copies.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rejoinder.corpora.corpus import Corpus, Input
from rejoinder.corpora.example import SPLITS, Example, Split, split_of
from rejoinder.corpora.examples import BATCH_ROWS, GROUP_CHARACTERS, batch_of, characters, write_batches
from rejoinder.corpora.lines import BLOCK_BYTES, Reading
from rejoinder.corpora.work import reported
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.progress import Advance

_DIGEST_BYTES = 16
_LIST = pa.list_(pa.large_binary())
_SPLIT_BITS = 2


@dataclass(frozen=True)
class Sizes:
    """How large the pieces of a job are. They decide its memory and its tasks, and never which examples come out."""

    files: int = 32 * 1024 * 1024  # bytes: small files are read together in one task; a larger file is one of its own
    block: int = BLOCK_BYTES  # bytes of lines that are scattered at once
    merged: int = 64  # files of scattered records that become one, where there are many
    unmerged: int = 1024  # files of scattered records that are left as they are
    partition: int = 16 * 1024 * 1024  # bytes of records that are assembled at once; that takes some times as much
    chunk: int = 1 << 17  # a chunk is closed when it has this many examples
    chunk_bytes: int = 1 << 28  # ... or this many bytes
    bucket: int = 1 << 19  # digests that are compared at once, about
    shard: int = 1 << 19  # a file of the data folder is closed when it has this many examples
    shard_bytes: int = 1 << 30  # ... or this many bytes


@dataclass(frozen=True)
class Job:
    """What all tasks of a job have in common. Workers get it by pickling."""

    corpus: Corpus
    settings: Any
    folder: Path  # the work folder
    history: int | None = 10
    skip_bad: bool = False
    max_bad: int | None = None
    limit: int | None = None  # stop at this many distinct examples
    sizes: Sizes = Sizes()

    def reading(self, part: Split | None = None, on_bytes: Advance | None = None) -> Reading:
        """Return a reading for one task."""
        return Reading(self.skip_bad, self.history, part, on_bytes, max_bad=self.max_bad)


@dataclass
class Chunk:
    """A file of examples of a task, of which some may be copies."""

    name: str
    rows: dict[Split, int] = field(default_factory=dict)  # examples of each split that has any
    bytes: int = 0
    candidates: bool = False

    @property
    def total(self) -> int:
        """All its examples."""
        return sum(self.rows.values())


def file_groups(job: Job, inputs: Sequence[Input]) -> Iterator[tuple[str, list[Input]]]:
    """Group files into tasks, by their sizes alone; with a limit a single task has all of them."""
    group: list[Input] = []
    size = 0
    for number, given in enumerate(inputs):
        if group and job.limit is None and size + given.size > job.sizes.files:
            yield f"read-{number - len(group):06}", group
            group, size = [], 0
        group.append(given)
        size += given.size
    yield f"read-{len(inputs) - len(group):06}", group


def read_files(job: Job, name: str, inputs: Sequence[Input]) -> dict[str, Any]:
    """Do a task: read its files and write `chunks`; also returns `counts` (see `Reading.counts`) and their `size`."""
    with reported(job.folder, name) as report:
        reading = job.reading(on_bytes=report)
        chunks = write_chunks(job, _read_batches(job, inputs, reading), name)
    return {"chunks": chunks, "counts": reading.counts(), "size": sum(given.size for given in inputs)}


def _read_batches(job: Job, inputs: Sequence[Input], reading: Reading) -> Iterator[pa.RecordBatch]:
    """Give the examples of files as columns, with their splits; those of a batch all have candidates, or none has."""
    assert job.corpus.read is not None
    most = 1 if job.limit is not None else min(BATCH_ROWS, job.sizes.chunk)  # nothing is read beyond the limit
    for given in inputs:
        reading.part = given.part
        rows: list[Example] = []
        size = 0
        for example in job.corpus.read(given.path, reading, job.settings):
            alike = not rows or bool(example.candidates) == bool(rows[0].candidates)
            if not alike or len(rows) == most or size >= GROUP_CHARACTERS:
                yield with_splits(job, batch_of(rows), given.part)
                rows, size = [], 0
            rows.append(example)
            size += characters(example)
        if rows:
            yield with_splits(job, batch_of(rows), given.part)


def with_splits(job: Job, batch: pa.RecordBatch, part: Split | None) -> pa.RecordBatch:
    """Add the column `split`: the given part, or what the corpus says, or else the hash of the thread."""
    if part is not None:
        splits = np.full(batch.num_rows, SPLITS.index(part), np.uint8)
    else:
        threads, rule = batch["thread"].dictionary_encode(), job.corpus.split
        names = threads.dictionary.to_pylist()
        parts = [rule(name, job.settings) if rule is not None else split_of(name) for name in names]
        splits = np.array([SPLITS.index(each) for each in parts], np.uint8)[threads.indices.to_numpy()]
    return batch.append_column("split", pa.array(splits))


def write_chunks(job: Job, batches: Iterable[pa.RecordBatch], name: str) -> list[dict[str, Any]]:
    """Write the examples of a task, up to the job's limit, as chunks; return the fields of each `Chunk`."""
    chunks: list[dict[str, Any]] = []
    rest = (batch for batch in _until_limit(job, batches) if batch.num_rows)
    batch = next(rest, None)
    while batch is not None:
        schema, sizes = batch.schema, job.sizes
        chunk = Chunk(f"{name}.{len(chunks)}", candidates="candidates" in schema.names)
        digests: list[bytes] = []
        splits: list[Any] = []
        path = _chunk_file(job, chunk.name, "arrow")
        with atomic_file(path, durable=False) as part, pa.ipc.new_file(str(part), schema) as writer:
            while batch is not None and batch.schema == schema:
                if len(digests) >= sizes.chunk or chunk.bytes >= sizes.chunk_bytes:
                    break
                writer.write_batch(batch)
                digests += example_digests(batch)
                splits.append(batch["split"].to_numpy())
                chunk.bytes += batch.nbytes
                batch = next(rest, None)
        column = np.concatenate(splits)
        counts = np.bincount(column, minlength=len(SPLITS)).tolist()
        chunk.rows = {split: count for split, count in zip(SPLITS, counts, strict=True) if count}
        high, low = np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2).T
        places = np.arange(len(column), dtype=np.uint64) << np.uint64(_SPLIT_BITS) | column
        order = np.argsort(high, kind="stable")  # rows: both halves of the digests; place and split
        _save(_chunk_file(job, chunk.name, "npy"), np.stack([high, low, places]).take(order, axis=1))
        chunks.append(asdict(chunk))
    return chunks


def _until_limit(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    seen: set[bytes] = set()
    for batch in batches:
        for row, digest in enumerate(example_digests(batch) if job.limit is not None else (), 1):
            seen.add(digest)
            if len(seen) == job.limit:
                yield batch.slice(0, row)
                return
        yield batch


def example_digests(batch: pa.RecordBatch) -> list[bytes]:
    """Return what equal examples have in common: a hash of context, response and candidates.

    Two different examples share a digest with a probability of about n² / 2^129 for n examples.
    """
    # The bytes between the texts are in none of them, since UTF-8 does not use them: ("a", "b") and ("ab",) differ.
    lists = [batch[name].cast(_LIST) for name in ("context", "candidates") if name in batch.schema.names]
    context, *candidates = [pc.binary_join(texts, pa.scalar(b"\xff", pa.large_binary())) for texts in lists]
    columns = [context, batch["response"].cast(pa.large_binary()), *candidates]
    texts = pc.binary_join_element_wise(*columns, pa.scalar(b"\xfe", pa.large_binary()))
    return [hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest() for text in texts.to_pylist()]


def find_copies(job: Job, chunks: Sequence[Chunk], buckets: int, _: str, bucket: int) -> dict[str, Any]:
    """Do a task: write down which examples whose digests fall into a bucket are `copies`; return how many, where."""
    bounds = np.array([bucket * 2**64 // buckets, (bucket + 1) * 2**64 // buckets - 1], np.uint64)
    pieces = []
    for chunk in chunks:
        digests = np.load(_chunk_file(job, chunk.name, "npy"), mmap_mode="r")
        begin, end = digests[0].searchsorted(bounds[0]), digests[0].searchsorted(bounds[1], "right")
        pieces.append(np.array(digests[:, begin:end]))
    high, low, rows = np.concatenate(pieces, axis=1)
    numbers = np.repeat(np.arange(len(pieces), dtype=np.uint64), [piece.shape[1] for piece in pieces])
    buffer = pa.py_buffer(np.stack([high, low], axis=1).tobytes())
    both = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_DIGEST_BYTES), len(high), [None, buffer])
    codes: npt.NDArray[np.int32] = both.dictionary_encode().indices.to_numpy()  # numbered as they first appear
    copies = np.flatnonzero(codes <= np.maximum.accumulate(np.append(-1, codes))[:-1])
    copies = copies[np.lexsort((rows[copies], numbers[copies]))]
    _save(_copies_file(job, bucket), np.stack([numbers[copies], rows[copies]]))
    counts = Counter(zip(numbers[copies].tolist(), (rows[copies] & np.uint64(3)).tolist(), strict=True))
    return {"copies": [(number, SPLITS[split], count) for (number, split), count in counts.items()]}


@dataclass(frozen=True)
class Shard:
    """A file of the data folder, and the numbers of the chunks that it is made of, with whether each has copies."""

    name: str
    split: Split
    chunks: tuple[tuple[int, bool], ...]


def plan_shards(chunks: Sequence[Chunk], copies: Mapping[tuple[int, Split], int], sizes: Sizes) -> list[Shard]:
    """Decide which consecutive chunks go into which file, at least one a split; InputError if candidates are mixed."""
    shards = []
    for split in SPLITS:
        if len({chunk.candidates for chunk in chunks if split in chunk.rows}) > 1:
            advice = "make one data set of those with candidates and one of those without"
            raise InputError(f"some examples of the {split} part have candidates and some have none; {advice}")
        groups: list[list[tuple[int, bool]]] = [[]]
        rows, size = 0, 0.0
        for number, chunk in enumerate(chunks):
            if kept := chunk.rows.get(split, 0) - copies.get((number, split), 0):
                if rows >= sizes.shard or size >= sizes.shard_bytes:
                    groups.append([])
                    rows, size = 0, 0.0
                groups[-1].append((number, (number, split) in copies))
                rows, size = rows + kept, size + chunk.bytes * kept / chunk.total
        shards += [Shard(f"{split}-{n:05}.parquet", split, tuple(group)) for n, group in enumerate(groups)]
    return shards


def write_shard(job: Job, chunks: Sequence[Chunk], buckets: int, shard: Shard) -> Path:
    """Do a task: write a file of the data folder, unless it is there."""
    path = job.folder / "shards" / shard.name
    if not path.exists():
        with atomic_file(path) as part:
            write_batches(_kept(job, chunks, buckets, shard), part)
    return path


def _kept(job: Job, chunks: Sequence[Chunk], buckets: int, shard: Shard) -> Iterator[pa.RecordBatch]:
    """Give the examples of a file, without the copies."""
    for number, has_copies in shard.chunks:
        copies = _copies_of(job, buckets, number) if has_copies else np.empty(0, np.int64)
        row = 0
        path = _chunk_file(job, chunks[number].name, "arrow")
        with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as table:
            for batch in map(table.get_batch, range(table.num_record_batches)):
                keep = batch["split"].to_numpy() == SPLITS.index(shard.split)
                keep[copies[(copies >= row) & (copies < row + len(keep))] - row] = False
                row += len(keep)
                if keep.any():
                    yield batch.drop_columns(["split"]).filter(pa.array(keep))


def _copies_of(job: Job, buckets: int, number: int) -> npt.NDArray[np.int64]:
    rows = []
    for bucket in range(buckets):
        numbers, places = np.load(_copies_file(job, bucket), mmap_mode="r")
        begin, end = numbers.searchsorted(np.array([number, number + 1], np.uint64))
        rows.append(places[begin:end] >> np.uint64(_SPLIT_BITS))
    return np.concatenate(rows).astype(np.int64)


def _save(path: Path, array: npt.NDArray[Any]) -> None:
    with atomic_file(path, durable=False) as part, part.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def _chunk_file(job: Job, name: str, suffix: str) -> Path:
    return job.folder / "chunks" / f"{name}.{suffix}"


def _copies_file(job: Job, bucket: int) -> Path:
    return job.folder / "copies" / f"{bucket:06}.npy"
