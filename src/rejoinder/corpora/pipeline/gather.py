"""Corpora whose threads are scattered over their files: bring threads together, assemble them.

A record stands for a line. The partition of a record is the hash of its thread's name. Files are
cut into blocks of lines, blocks become records, and runs of records are sorted by partition. A
partition is one slice of each run; the corpus assembles it to examples. Files for a part of the
data have partitions of their own.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rejoinder.corpora.corpus import Input
from rejoinder.corpora.lines import COMPRESSIONS, Block, Counts, Reading, open_blocks
from rejoinder.corpora.pipeline.chunks import ChunkJob, ReadResult, with_splits, write_chunks
from rejoinder.corpora.splits import Split
from rejoinder.engine import Engine
from rejoinder.files import atomic_file

T = TypeVar("T")
# Names of runs in the order of the input, by the part of the data that their files are for.
Runs: TypeAlias = Mapping[Split | None, Sequence[str]]
Numbers: TypeAlias = npt.NDArray[np.int64]

BLOCKS = "blocks"  # folder of records that are not in a run yet
LARGEST = 4  # more than `_MANY` partitions grow instead, up to this many times; so do runs
_MANY = 256  # a pipe, whose size is unknown, has this many
_SAMPLED_FILES = 3  # whose first records predict how many there will be in all
_SAMPLE_BYTES = 8 * 1024 * 1024  # of each
_LARGEST_WINDOW = 32 * 1024 * 1024  # bytes: zstd's most without `--long` and `--ultra`
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SINGLE_SEGMENT = 0x20  # flag of a frame whose window is its whole content
_PARTITION = "partition"  # the column by which a run is sorted
_OPEN_AT_ONCE = 16  # runs that are mapped together: what is mapped counts as memory


@dataclass(frozen=True)
class ScatterTask:
    """A file that is scattered."""

    name: str
    input: Input


class Scattered(msgspec.Struct, frozen=True):
    """The result of scattering a file."""

    runs: list[str]
    counts: Counts
    size: int  # bytes of the file


class ScatteredBlock(msgspec.Struct, frozen=True):
    """The result of scattering a block."""

    name: str  # of the file of its records
    bytes: int  # of the records
    counts: Counts


@dataclass(frozen=True)
class SortTask:
    """Blocks whose records become a run."""

    run: str
    blocks: tuple[str, ...]


@dataclass(frozen=True)
class Partition:
    """Threads whose names have one hash."""

    part: Split | None
    number: int


@dataclass(frozen=True)
class AssembleTask:
    """Partitions that are assembled, one after the other."""

    name: str
    partitions: tuple[Partition, ...]


def count_partitions(job: ChunkJob, inputs: Sequence[Input]) -> int:
    """Return how many partitions the records need, by the first lines of some files."""
    if not all(file.path.is_file() for file in inputs):
        return _MANY
    read = 0
    kept = 0
    for file in inputs[:: -(-len(inputs) // _SAMPLED_FILES)]:
        consumed: list[int] = []
        # Bad lines are reported when the file is scattered.
        reading = Reading(skip_bad=True, history=job.history, part=file.part)
        size = min(job.sizes.block, _SAMPLE_BYTES)
        for block in itertools.islice(open_blocks(file.path, consumed.append, size), 1):
            kept += _records(job, block, reading).nbytes
            compressed = file.path.suffix.lower() in COMPRESSIONS
            read += sum(consumed) if compressed else len(block.data)
    total = sum(file.size for file in inputs)
    partitions = math.ceil(total * kept / max(1, read) / job.sizes.partition)
    return max(1, min(partitions, _MANY), math.ceil(partitions / LARGEST))


def run_bytes(job: ChunkJob, partitions: int) -> int:
    """Return the size at which a run ends: every partition is read out of every run."""
    return job.sizes.partition * (LARGEST if partitions >= _MANY else 1)


def scatter_tasks(inputs: Sequence[Input]) -> list[ScatterTask]:
    """Return a task for each file."""
    return [ScatterTask(f"file-{number:06}", file) for number, file in enumerate(inputs)]


def files_for_workers(inputs: Sequence[Input], processes: int | None) -> list[int]:
    """Return the numbers of the files that a task reads by itself; others are cut in this process.

    Other machines read all files, and so does a single process. Several processes of this machine
    read as many as can be dealt out evenly, but no zstd file with a large window, which each of
    them would need for itself.
    """
    if processes is None or processes == 1:
        return list(range(len(inputs)))
    numbers = [
        number for number, file in enumerate(inputs) if window_size(file.path) <= _LARGEST_WINDOW
    ]
    return numbers[: len(numbers) - len(numbers) % processes]


def window_size(path: Path) -> int:
    """Return the memory, in bytes, that decompressing a zstd file takes; 0 for any other file.

    The header of its first frame tells (RFC 8878, section 3.1.1.1).
    """
    if path.suffix.lower() != ".zst":
        return 0
    try:
        with path.open("rb") as file:
            header = file.read(18)  # no header is longer
    except OSError:  # reported when it is read
        return 0
    if len(header) < 6 or not header.startswith(_ZSTD_MAGIC):
        return 0
    descriptor = header[4]
    if not descriptor & _SINGLE_SEGMENT:
        exponent, eighths = divmod(header[5], 8)
        return (8 + eighths) << (7 + exponent)
    start = 5 + (0, 1, 2, 4)[descriptor & 3]  # after the number of a dictionary
    length = 1 << (descriptor >> 6)
    content = int.from_bytes(header[start : start + length], "little")
    return content + 256 if length == 2 else content


def scatter_file(job: ChunkJob, task: ScatterTask, *, partitions: int) -> Scattered:
    """Scatter a file in this process."""
    reading = job.reading(task.input.part)
    blocks = open_blocks(task.input.path, job.on_bytes, job.sizes.block)
    records = (_records(job, block, reading) for block in blocks)
    runs: list[str] = []
    for group in _groups(records, lambda batch: batch.nbytes, run_bytes(job, partitions)):
        runs.append(_run_name(task, len(runs)))
        write_run(job, runs[-1], group, partitions)
    return Scattered(runs, reading.counts(), task.input.size)


def scatter_shared_file(
    job: ChunkJob, task: ScatterTask, *, partitions: int, engine: Engine
) -> Scattered:
    """Scatter a file with the processes of an engine: this one cuts it into blocks for them."""
    reading = job.reading(task.input.part)
    blocks = open_blocks(task.input.path, job.on_bytes, job.sizes.block)
    scattered: list[ScatteredBlock] = []
    scatter = functools.partial(_scatter_block, job, task)
    with contextlib.closing(engine.map(scatter, blocks)) as results:
        for result in results:
            reading.add(result.counts)
            scattered.append(result)
    groups = _groups(scattered, lambda block: block.bytes, run_bytes(job, partitions))
    tasks = [
        SortTask(_run_name(task, number), tuple(block.name for block in group))
        for number, group in enumerate(groups)
    ]
    sort = functools.partial(_sort_blocks, job, partitions)
    with contextlib.closing(engine.map(sort, tasks)) as names:
        runs = list(names)
    return Scattered(runs, reading.counts(), task.input.size)


def _scatter_block(job: ChunkJob, task: ScatterTask, block: Block) -> ScatteredBlock:
    reading = job.reading(task.input.part)
    records = _records(job, block, reading)
    name = f"{task.name}-{block.number:012}"
    _write_records(_block_file(job, name), records)
    return ScatteredBlock(name, records.nbytes, reading.counts())


def _sort_blocks(job: ChunkJob, partitions: int, task: SortTask) -> str:
    """Write a run of the records of blocks, whose files are removed; return its name."""
    files = [_block_file(job, name) for name in task.blocks]
    write_run(job, task.run, [_open_records(file) for file in files], partitions)
    for file in files:
        file.unlink()
    return task.run


def _records(job: ChunkJob, block: Block, reading: Reading) -> pa.RecordBatch:
    assert job.corpus.scatter is not None
    return job.corpus.scatter(block, reading, job.settings)


def _groups(items: Iterable[T], size_of: Callable[[T], int], limit: int) -> Iterator[list[T]]:
    """Group consecutive items; a group ends with the item by which it reaches the limit."""
    group: list[T] = []
    size = 0
    for item in items:
        group.append(item)
        size += size_of(item)
        if size >= limit:
            yield group
            group = []
            size = 0
    if group:
        yield group


def write_run(job: ChunkJob, name: str, batches: list[pa.RecordBatch], partitions: int) -> None:
    """Write records sorted by partition, within one in their order; `batches` is emptied."""
    records = pa.concat_batches(batches)
    batches.clear()  # their memory is needed
    numbers = partition_numbers(records.column(0), partitions)
    records = records.append_column(_PARTITION, pa.array(numbers.astype(np.int32)))
    order = np.argsort(numbers, kind="stable")
    _write_records(_run_file(job, name), records.take(pa.array(order)))


def partition_numbers(threads: pa.Array, partitions: int) -> Numbers:
    """Return the partition of each thread, by the hash of its name."""
    names = threads.dictionary_encode()
    texts = names.dictionary.to_pylist()
    hashes = np.array([zlib.crc32(text.encode()) for text in texts], np.int64)
    numbers: Numbers = (hashes % partitions)[names.indices.to_numpy()]
    return numbers


def assemble_tasks(job: ChunkJob, runs: Runs, partitions: int) -> list[AssembleTask]:
    """Return a task for each partition; with a limit one task assembles all of them."""
    every = [Partition(part, number) for part in runs for number in range(partitions)]
    if job.limit is not None:
        return [AssembleTask("assembled", tuple(every))]
    return [
        AssembleTask(f"assembled-{partition.part or 'threads'}-{partition.number:06}", (partition,))
        for partition in every
    ]


def assemble(job: ChunkJob, task: AssembleTask, *, runs: Runs, partitions: int) -> ReadResult:
    """Assemble the threads of partitions and write their examples."""
    reading = job.reading()
    batches = _examples(job, task, runs, partitions, reading)
    chunks = write_chunks(job, batches, task.name)
    return ReadResult(chunks, reading.counts())


def _examples(
    job: ChunkJob, task: AssembleTask, runs: Runs, partitions: int, reading: Reading
) -> Iterator[pa.RecordBatch]:
    assert job.corpus.assemble is not None
    for partition in task.partitions:
        reading.part = partition.part
        names = runs[partition.part]
        for records in read_partition(job, names, partition.number, partitions):
            for batch in job.corpus.assemble(records, reading, job.settings):
                yield with_splits(job, batch, partition.part)


def read_partition(
    job: ChunkJob, runs: Sequence[str], number: int, partitions: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a partition; those of a large one in parts, each of whole threads."""
    bounds = np.array([number, number + 1], np.int32)
    copied = []
    for start in range(0, len(runs), _OPEN_AT_ONCE):
        slices = []
        for name in runs[start : start + _OPEN_AT_ONCE]:
            records = _open_records(_run_file(job, name))
            begin, end = records[_PARTITION].to_numpy().searchsorted(bounds)
            slices.append(records.slice(begin, end - begin).drop_columns([_PARTITION]))
        copied.append(pa.concat_batches(slices))
    records = pa.concat_batches(copied)
    parts = math.ceil(records.nbytes / job.sizes.partition)
    if parts <= 1:
        yield records
        return
    numbers = partition_numbers(records.column(0), partitions * parts) // partitions
    for part in range(parts):
        yield records.filter(pa.array(numbers == part))


def remove_runs(job: ChunkJob, runs: Runs) -> None:
    """Remove all runs."""
    for names in runs.values():
        for name in names:
            _run_file(job, name).unlink(missing_ok=True)


def _write_records(path: Path, records: pa.RecordBatch) -> None:
    with (
        atomic_file(path, durable=False) as part,
        pa.ipc.new_file(str(part), records.schema) as writer,
    ):
        writer.write_batch(records)


def _open_records(path: Path) -> pa.RecordBatch:
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as table:
        return table.get_batch(0)


def _run_name(task: ScatterTask, number: int) -> str:
    return f"{task.name}-{number:06}"


def _run_file(job: ChunkJob, name: str) -> Path:
    return job.folder / "runs" / f"{name}.arrow"


def _block_file(job: ChunkJob, name: str) -> Path:
    return job.folder / BLOCKS / f"{name}.arrow"
