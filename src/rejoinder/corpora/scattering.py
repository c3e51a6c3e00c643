"""Corpora whose threads are scattered over their files: records are brought together by thread, then assembled.

1. Each block of lines is scattered over partitions by the hash of the thread: one file of records for each block.
   A task is a block, which this process cuts out of the input; or a compressed file, or every second or third block of
   one, so that its bytes go nowhere else (always files where tasks run on other machines). What is written is the same.
2. Where there are many such files, some hundred of them become one.
3. Each partition, small enough for the memory, is assembled to examples.

Files that were given for a part of the data (`test=FILE`) have partitions of their own.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from rejoinder.corpora.chunks import write_chunks
from rejoinder.corpora.example import Split
from rejoinder.corpora.job import Input, Job, Placed, placed_rows
from rejoinder.corpora.lines import COMPRESSIONS, Block, Reading, open_blocks
from rejoinder.corpora.reporting import Report
from rejoinder.corpora.segments import Places, merge_records, read_records, record_bytes, write_records
from rejoinder.corpora.streaming import size_of
from rejoinder.corpora.streams import window_size
from rejoinder.corpora.work import is_done, once

Files: TypeAlias = dict[Split | None, list[str]]
"""Names of files of records in the order of the input, for each part of the data."""

_SAMPLED = 3
_SAMPLE = 8 * 1024 * 1024
"""Bytes of lines whose records tell how many those of all will be. Of a compressed file so much more is read than is
needed that the records of fewer lines would tell too little."""
_FEW = 4
"""So many files keep more workers busy, each read by one, than the blocks that one process can cut."""
_SHARING = 3
"""So many workers at most read the same file, each for its own blocks: reading it again takes less time than to send
the blocks of the others to them."""
_LARGEST_WINDOW = 32 * 1024 * 1024
"""Bytes: zstd needs so much without `--long` and `--ultra`, or less."""
_MIXER = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: the upper half of the product depends on all bits of a number."""
_PARTITIONS_OF_A_PIPE = 256
"""Enough for 4 GiB of records; how much comes out of a pipe, nobody knows."""


@dataclass(frozen=True)
class ScatterTask:
    """A block of lines: with its bytes, or without them where a worker can read them itself."""

    name: str
    place: int
    """Number of its file among the inputs."""
    block: Block
    length: int
    part: Split | None


@dataclass(frozen=True)
class FileTask:
    """A file whose blocks are scattered where it is read."""

    name: str
    place: int
    """Its number among the inputs."""
    given: Input
    size: int
    """Its bytes, if this task tells the progress."""
    turn: int = 0
    turns: int = 1
    """Of so many blocks that follow each other it is for the one with the number `turn`."""


@dataclass(frozen=True)
class MergeTask:
    """Files of records that become one."""

    name: str
    part: Split | None
    files: tuple[str, ...]


@dataclass(frozen=True)
class AssembleTask:
    """Partitions to assemble, one after the other."""

    name: str
    partitions: tuple[tuple[Split | None, int], ...]


def partition_count(job: Job, inputs: Sequence[Input]) -> int:
    """How many partitions the records need, going by the first blocks of some files."""
    if not all(given.path.is_file() for given in inputs):
        return _PARTITIONS_OF_A_PIPE
    read = kept = 0
    for given in inputs[:: -(-len(inputs) // _SAMPLED)]:
        consumed: list[int] = []
        # Faults are told when the file is read in earnest.
        reading = Reading(True, job.history, given.part, on_bytes=consumed.append)
        for block in open_blocks(given.path, reading, min(job.sizes.block, _SAMPLE)):
            kept += record_bytes(_scattered(job, block, reading))
            read += len(block.data) if _is_plain(given.path) else sum(consumed)
            break
    total = sum(map(size_of, inputs))
    return max(1, math.ceil(total * kept / max(1, read) / job.sizes.partition))


def places_for_workers(inputs: Sequence[Input], processes: int) -> tuple[list[int], list[int]]:
    """Numbers of the inputs that are best read where they are scattered, by processes of this machine.

    Those are compressed files. A plain file need not be: its blocks are read where they are scattered anyway. Nor one
    with a large window, of which each process that reads one would need its own. Files that cannot be dealt out evenly
    are read by all processes if these are few; otherwise this process cuts the blocks for the others.

    Returns:
        The inputs that one process reads, and those that each reads for its own blocks.
    """
    places = [place for place, given in enumerate(inputs) if _is_small_stream(given.path)]
    if processes == 1:
        return [], []
    even = len(places) - len(places) % processes
    if processes <= _SHARING:
        return places[:even], places[even:]
    if len(places) < _FEW:
        return [], []
    return places[:even] if even else places, []


def scatter_tasks(
    job: Job, inputs: Sequence[Input], whole: Sequence[int], shared: Sequence[int], processes: int, reading: Reading
) -> Iterator[FileTask | ScatterTask]:
    """Tasks for files that are read by workers; then cut the others into blocks, in order, as they are asked for.

    Args:
        job: the job.
        inputs: the files.
        whole: numbers of those read by one worker.
        shared: numbers of those read by each worker.
        processes: number of workers.
        reading: reports the bytes read here and the lines here that are too long.
    """
    for place in whole:
        yield FileTask(f"file-{place:06}", place, inputs[place], size_of(inputs[place]))
    for place in shared:
        for turn in range(processes):
            size = 0 if turn else size_of(inputs[place])
            yield FileTask(f"file-{place:06}-{turn}-of-{processes}", place, inputs[place], size, turn, processes)
    for place in sorted({*range(len(inputs))} - {*whole, *shared}):
        given = inputs[place]
        for number, block in enumerate(open_blocks(given.path, reading, job.sizes.block)):
            name, length = _block_name(place, number), len(block.data)
            if _is_plain(given.path) or is_done(job.folder, name):
                block = Block(block.path, block.number, b"", block.start)  # noqa: PLW2901 (the bytes are let go)
            yield ScatterTask(name, place, block, length, given.part)


def scatter_task(job: Job, partitions: int, task: FileTask | ScatterTask) -> dict[str, Any]:
    """Do a task: `scatter_file` or `scatter_block`."""
    if isinstance(task, FileTask):
        return scatter_file(job, partitions, task)
    return {"place": task.place, "files": [task.name], "long": None, "size": 0} | scatter_block(job, partitions, task)


def scatter_block(job: Job, partitions: int, task: ScatterTask) -> dict[str, Any]:
    """Do a task: write the records of a block, in partitions.

    Returns:
        `counts` (see `Reading.counts`).

    Raises:
        InputError: a bad line.
    """

    def work() -> dict[str, Any]:
        reading = job.reading(task.part)
        records = _scattered(job, _whole(task), reading)
        places = _partitions(records.column(0), partitions)
        write_records(_file(job, task.name), records, places, partitions, job.durable)
        return {"counts": reading.counts()}

    return once(job.folder, task.name, work)


def scatter_file(job: Job, partitions: int, task: FileTask) -> dict[str, Any]:
    """Do a task: read a file and write the records of each of its blocks that are the task's, in partitions.

    Returns:
        `place`, its number; `files`, the names of the files written; `counts` of the blocks and `long` ones of the
        lines that are in none since they are too long (see `Reading.counts`), told by the first of tasks that share
        the file; `size`, the bytes read.

    Raises:
        InputError: a bad line, or a fault of the file.
    """

    def work() -> dict[str, Any]:
        names: list[str] = []
        total = job.reading(task.given.part)
        with Report(job.folder, task.name) as report:
            long = job.reading(task.given.part, on_bytes=report if task.turn == 0 else None)
            for number, block in enumerate(open_blocks(task.given.path, long, job.sizes.block)):
                if number % task.turns != task.turn:
                    continue
                names.append(_block_name(task.place, number))
                piece = ScatterTask(names[-1], task.place, block, len(block.data), task.given.part)
                done = scatter_block(job, partitions, piece)
                total.add(done["counts"])
        counts, long_counts = total.counts(), None if task.turn else long.counts()
        return {"place": task.place, "files": names, "counts": counts, "long": long_counts, "size": task.size}

    return once(job.folder, task.name, work)


def merge_tasks(job: Job, files: Files) -> Iterator[MergeTask]:
    """Tasks that make few files out of many; none where there are few."""
    most = job.sizes.merged
    for part, names in files.items():
        for start in range(0, len(names), most) if len(names) > job.sizes.unmerged else ():
            name = f"merged-{part or 'threads'}-{start // most:06}"
            yield MergeTask(name, part, tuple(names[start : start + most]))


def merge_files(job: Job, task: MergeTask) -> dict[str, Any]:
    """Do a task: make one file of several; they are removed by who gets the result."""

    def work() -> dict[str, Any]:
        files = [_file(job, name) for name in task.files]
        merge_records(files, _file(job, task.name), job.corpus.columns, job.durable)
        return {}

    return once(job.folder, task.name, work)


def assemble_tasks(job: Job, files: Files, partitions: int) -> Iterator[AssembleTask]:
    """A task for each partition; one task of them all for a job that has a limit."""
    places = [(part, number) for part in files for number in range(partitions)]
    if job.limit is not None:
        yield AssembleTask("assembled", tuple(places))
        return
    for part, number in places:
        yield AssembleTask(f"assembled-{part or 'threads'}-{number:06}", ((part, number),))


def assemble_partitions(job: Job, files: Files, partitions: int, task: AssembleTask) -> dict[str, Any]:
    """Do a task: assemble its partitions and write chunks.

    Returns:
        `chunks`, the fields of `chunks.Chunk` for each, and `counts` (see `Reading.counts`).
    """

    def work() -> dict[str, Any]:
        reading = job.reading()
        chunks = write_chunks(job.until_enough(_examples(job, files, partitions, task, reading)), job, task.name)
        return {"chunks": chunks, "counts": reading.counts()}

    return once(job.folder, task.name, work)


def remove_files(job: Job, names: Sequence[str]) -> None:
    """Remove files of records that are no longer needed."""
    for name in names:
        _file(job, name).unlink(missing_ok=True)


def _examples(job: Job, files: Files, partitions: int, task: AssembleTask, reading: Reading) -> Iterator[Placed]:
    assert job.corpus.assemble is not None
    for part, number in task.partitions:
        reading.part = part
        for records in _read_partition(job, [_file(job, name) for name in files[part]], number, partitions):
            for rows in job.corpus.assemble(records, reading, job.settings):
                yield placed_rows(job, rows, part)


def _read_partition(job: Job, paths: Sequence[Path], number: int, partitions: int) -> Iterator[pa.RecordBatch]:
    """The records of a partition; of one that came out too large, some of its threads at a time."""
    records = read_records(paths, number, job.corpus.columns)
    pieces = math.ceil(record_bytes(records) / job.sizes.partition)
    if pieces <= 1:
        yield records
        return
    places = _partitions(records.column(0), partitions * pieces) // partitions
    for piece in range(pieces):
        yield records.filter(pa.array(places == piece))


def _scattered(job: Job, block: Block, reading: Reading) -> pa.RecordBatch:
    """The records of a block."""
    assert job.corpus.scatter is not None
    return job.corpus.scatter(block, reading, job.settings)


def _partitions(threads: pa.Array, partitions: int) -> Places:
    """The partition of each thread, by the hash of its name or number."""
    if pa.types.is_integer(threads.type):
        places: Places = (threads.to_numpy().astype(np.uint64) * _MIXER >> np.uint64(32)) % np.uint64(partitions)
        return places.astype(np.int64)
    known = threads.dictionary_encode()
    hashes = np.array([zlib.crc32(thread.encode()) for thread in known.dictionary.to_pylist()], np.int64)
    return (hashes % partitions)[known.indices.to_numpy()] if len(hashes) else hashes


def _whole(task: ScatterTask) -> Block:
    """The task's block with its bytes."""
    block = task.block
    if len(block.data) == task.length:
        return block
    with block.path.open("rb") as file:
        file.seek(block.start)
        return Block(block.path, block.number, file.read(task.length), block.start)


def _block_name(place: int, number: int) -> str:
    return f"block-{place:06}-{number:06}"


def _file(job: Job, name: str) -> Path:
    return job.folder / "records" / name


def _is_small_stream(path: Path) -> bool:
    """Whether the file is compressed, and every process can read one of its kind at once."""
    return path.is_file() and not _is_plain(path) and window_size(path) <= _LARGEST_WINDOW


def _is_plain(path: Path) -> bool:
    """Whether a worker can read any place of the file."""
    return path.is_file() and path.suffix.lower() not in COMPRESSIONS
