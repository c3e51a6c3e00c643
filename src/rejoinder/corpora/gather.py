"""Corpora whose threads are scattered over their files: records are brought together by thread, then assembled.

Each block of lines becomes a file of records, sorted by partition, the hash of the thread; many such files are merged,
and each partition is assembled to examples. Files given for a part of the data have partitions of their own.
"""

from __future__ import annotations

import functools
import itertools
import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard

from rejoinder.corpora.chunks import Job, with_splits, write_chunks
from rejoinder.corpora.corpus import Input
from rejoinder.corpora.example import Split
from rejoinder.corpora.lines import COMPRESSIONS, Block, Reading, open_blocks
from rejoinder.corpora.work import cached_task, is_done, reported
from rejoinder.files import atomic_file
from rejoinder.progress import Advance

Files: TypeAlias = dict[Split | None, list[str]]  # names of files of records, in the order of the input, by part
Places: TypeAlias = Sequence[tuple[Split | None, int]]  # partitions: the part of the data and the number of each
Numbers: TypeAlias = npt.NDArray[np.int64]
ScatterTask: TypeAlias = tuple[str, int, Input, Block | None]  # name, number of the input, the input, a block or all

LARGEST = 4  # more than `_MANY` partitions, each read out of all files of records, grow up to this many times instead
_MANY = 256  # a pipe, out of which nobody knows how much comes, has this many
_SAMPLED, _SAMPLE = 3, 8 * 1024 * 1024  # files, and bytes of each, whose records say how many there will be in all
_LARGEST_WINDOW = 32 * 1024 * 1024  # bytes: zstd needs at most this much without `--long` and `--ultra`
_PARTITION = "partition"  # column by which a file of records is sorted
_OPEN_AT_ONCE = 16  # files of records that are mapped together: what is mapped counts as memory


def partition_count(job: Job, inputs: Sequence[Input]) -> int:
    """Return how many partitions the records need, going by the first lines of some files."""
    if not all(given.path.is_file() for given in inputs):
        return _MANY
    read = kept = 0
    for given in inputs[:: -(-len(inputs) // _SAMPLED)]:
        consumed: list[int] = []
        reading = Reading(True, job.history, given.part)  # faults are reported in earnest later
        for block in itertools.islice(open_blocks(given.path, consumed.append, min(job.sizes.block, _SAMPLE)), 1):
            kept += _records(job, block, reading).nbytes
            read += sum(consumed) if given.path.suffix.lower() in COMPRESSIONS else len(block.data)
    partitions = math.ceil(sum(given.size for given in inputs) * kept / max(1, read) / job.sizes.partition)
    return max(1, min(partitions, _MANY), math.ceil(partitions / LARGEST))


def files_for_workers(inputs: Sequence[Input], workers: int) -> list[int]:
    """Return the numbers of the inputs that processes of this machine read whole: as many as can be dealt out evenly.

    This process cuts the others into blocks, and those with a large window, which each process would need for itself.
    """
    if workers == 1:
        return []
    places = [place for place, given in enumerate(inputs) if window_size(given.path) <= _LARGEST_WINDOW]
    return places[: len(places) - len(places) % workers]


def window_size(path: Path) -> int:
    """Return the bytes of memory that decompressing a zstd file takes, by its first frame; 0 for any other file."""
    if path.suffix.lower() != ".zst":
        return 0
    try:
        with path.open("rb") as file:
            return int(zstandard.get_frame_parameters(file.read(18)).window_size)  # the longest header
    except (OSError, zstandard.ZstdError):  # said when it is read in earnest
        return 0


def scatter_tasks(job: Job, inputs: list[Input], whole: Sequence[int], on_bytes: Advance) -> Iterator[ScatterTask]:
    """Give tasks for the `whole` files, which workers read; then cut the others into blocks, empty if done already."""
    for place in whole:
        yield f"file-{place:06}", place, inputs[place], None
    for place in sorted({*range(len(inputs))} - {*whole}):
        for number, block in enumerate(open_blocks(inputs[place].path, on_bytes, job.sizes.block)):
            name = _block_name(place, number)
            sent = Block(block.path, block.number, b"") if is_done(job.folder, name) else block
            yield name, place, inputs[place], sent


def scatter(job: Job, partitions: int, name: str, place: int, given: Input, block: Block | None) -> dict[str, Any]:
    """Do a task: write the records of a block, or of each block of a file; `size` is that of what was read here."""
    names, reading = [], job.reading(given.part)
    if block is not None:
        records = _records(job, block, reading)
        write_records(records_file(job, name), records, _partitions(records.column(0), partitions))
        return {"place": place, "files": [name], "counts": reading.counts(), "size": 0}
    with reported(job.folder, name) as report:
        for number, each in enumerate(open_blocks(given.path, report, job.sizes.block)):
            names.append(_block_name(place, number))
            work = functools.partial(scatter, job, partitions)
            reading.add(cached_task(job.folder, work, (names[-1], place, given, each))["counts"])
    return {"place": place, "files": names, "counts": reading.counts(), "size": given.size}


def merge_tasks(job: Job, files: Files) -> list[tuple[str, Split | None, Sequence[str]]]:
    """Return tasks that make few files out of many, where there are many: name, part of the data, files."""
    most = job.sizes.merged
    return [
        (f"merged-{part or 'threads'}-{start // most:06}", part, names[start : start + most])
        for part, names in files.items()
        for start in (range(0, len(names), most) if len(names) > job.sizes.unmerged else ())
    ]


def merge_files(job: Job, name: str, _: Split | None, files: Sequence[str]) -> dict[str, Any]:
    """Do a task: make one file of several. Memory holds all of them."""
    records = pa.concat_batches([_open_records(records_file(job, each)) for each in files])
    write_records(records_file(job, name), records.drop_columns([_PARTITION]), records[_PARTITION].to_numpy())
    return {}


def assemble_tasks(job: Job, files: Files, partitions: int) -> list[tuple[str, Places]]:
    """Return a task for each partition; a single one for a job that has a limit."""
    places = [(part, number) for part in files for number in range(partitions)]
    if job.limit is not None:
        return [("assembled", places)]
    return [(f"assembled-{part or 'threads'}-{number:06}", [(part, number)]) for part, number in places]


def assemble(job: Job, files: Files, partitions: int, name: str, places: Places) -> dict[str, Any]:
    """Do a task: assemble partitions and write `chunks`; also returns `counts` (see `Reading.counts`)."""
    reading = job.reading()
    chunks = write_chunks(job, _examples(job, files, partitions, places, reading), name)
    return {"chunks": chunks, "counts": reading.counts()}


def remove_files(job: Job, names: Sequence[str]) -> None:
    """Remove files of records that are no longer needed."""
    for name in names:
        records_file(job, name).unlink(missing_ok=True)


def _examples(job: Job, files: Files, partitions: int, places: Places, reading: Reading) -> Iterator[pa.RecordBatch]:
    assert job.corpus.assemble is not None
    for part, number in places:
        reading.part = part
        for records in read_partition(job, files[part], number, partitions):
            for batch in job.corpus.assemble(records, reading, job.settings):
                yield with_splits(job, batch, part)


def read_partition(job: Job, names: Sequence[str], number: int, partitions: int) -> Iterator[pa.RecordBatch]:
    """Give the records of a partition; of a large one, some of its threads at a time."""
    copied = []
    for start in range(0, len(names), _OPEN_AT_ONCE):
        slices = []
        for name in names[start : start + _OPEN_AT_ONCE]:
            records = _open_records(records_file(job, name))
            begin, end = records[_PARTITION].to_numpy().searchsorted(np.array([number, number + 1], np.int32))
            slices.append(records.slice(begin, end - begin).drop_columns([_PARTITION]))
        copied.append(pa.concat_batches(slices))
    records = pa.concat_batches(copied)
    pieces = math.ceil(records.nbytes / job.sizes.partition)
    if pieces <= 1:
        yield records
        return
    places = _partitions(records.column(0), partitions * pieces) // partitions
    for piece in range(pieces):
        yield records.filter(pa.array(places == piece))


def write_records(path: Path, records: pa.RecordBatch, places: Numbers) -> None:
    """Write records sorted by partition; within one they stay in their order."""
    records = records.append_column(_PARTITION, pa.array(places.astype(np.int32)))
    records = records.take(pa.array(np.argsort(places, kind="stable")))
    with atomic_file(path, durable=False) as part, pa.ipc.new_file(str(part), records.schema) as writer:
        writer.write_batch(records)


def _open_records(path: Path) -> pa.RecordBatch:
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as table:
        return table.get_batch(0)


def _records(job: Job, block: Block, reading: Reading) -> pa.RecordBatch:
    assert job.corpus.scatter is not None
    return job.corpus.scatter(block, reading, job.settings)


def _partitions(threads: pa.Array, partitions: int) -> Numbers:
    """Return the partition of each thread, by the hash of its name."""
    known = threads.dictionary_encode()
    hashes = np.array([zlib.crc32(thread.encode()) for thread in known.dictionary.to_pylist()], np.int64)
    places: Numbers = (hashes % partitions)[known.indices.to_numpy()]
    return places


def _block_name(place: int, number: int) -> str:
    return f"block-{place:06}-{number:06}"


def records_file(job: Job, name: str) -> Path:
    """Return the place of a file of records."""
    return job.folder / "records" / f"{name}.arrow"
