"""Corpora that are read file by file: each task reads some files, from their beginning to their end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rejoinder.corpora.chunks import write_chunks
from rejoinder.corpora.example import Example, Split
from rejoinder.corpora.job import Input, Job, place_together, placed
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.reporting import Report
from rejoinder.corpora.tables import BATCH_ROWS
from rejoinder.corpora.work import once


@dataclass(frozen=True)
class ReadTask:
    """Some files, one after the other."""

    name: str
    inputs: tuple[Input, ...]
    size: int
    """Bytes of all of them."""


def read_tasks(job: Job, inputs: Sequence[Input]) -> Iterator[ReadTask]:
    """Cut a list of files into tasks, by their sizes alone; one task of them all for a job that has a limit."""
    start = size = 0
    for end, given in enumerate(inputs):
        more = size_of(given)
        if end > start and size + more > job.sizes.files and job.limit is None:
            yield ReadTask(f"read-{start:06}", tuple(inputs[start:end]), size)
            start, size = end, 0
        size += more
    yield ReadTask(f"read-{start:06}", tuple(inputs[start:]), size)


def size_of(given: Input) -> int:
    """Bytes of a file; 0 for a pipe, whose size nobody knows."""
    return given.path.stat().st_size if given.path.is_file() else 0


def read_files(job: Job, task: ReadTask) -> dict[str, Any]:
    """Do a task: read its files and write chunks.

    Returns:
        `chunks`, the fields of `chunks.Chunk` for each, `counts` (see `Reading.counts`), and `size`, the bytes read.

    Raises:
        InputError: a fault of a file or a line.
    """

    def work() -> dict[str, Any]:
        with Report(job.folder, task.name) as report:
            reading = job.reading(on_bytes=report)
            # With a limit one by one, so that nothing is read beyond it.
            most = BATCH_ROWS if job.limit is None else 1
            examples = job.until_enough(place_together(_examples(job, task, reading), most))
            chunks = write_chunks(examples, job, task.name)
        return {"chunks": chunks, "counts": reading.counts(), "size": task.size}

    return once(job.folder, task.name, work)


def _examples(job: Job, task: ReadTask, reading: Reading) -> Iterator[tuple[Split, Example]]:
    assert job.corpus.read is not None
    for given in task.inputs:
        reading.part = given.part
        for example in job.corpus.read(given.path, reading, job.settings):
            yield placed(job, example, given.part)
