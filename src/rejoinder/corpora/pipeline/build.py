"""Build a data folder: read a corpus, split it by thread, drop duplicates, write Parquet.

An engine runs the tasks of each stage: files are read (or, where threads are scattered over them,
`gather`ed) to chunks of examples; duplicates are found; shards are written. Memory holds the data
of a few tasks. The results of finished tasks are kept, so that a stopped job continues.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from rejoinder import __version__
from rejoinder.corpora.corpus import Corpus, Input
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.pipeline import gather
from rejoinder.corpora.pipeline.chunks import (
    Bucket,
    Chunk,
    ChunkJob,
    ChunkSizes,
    Duplicates,
    ReadResult,
    find_duplicates,
    plan_shards,
    read_files,
    read_tasks,
    write_shard,
)
from rejoinder.corpora.pipeline.gather import Scattered, ScatterTask
from rejoinder.corpora.pipeline.summary import FOLDER, FORMAT, SUMMARY, BuildSummary
from rejoinder.corpora.pipeline.work_folder import DONE, NothingKeptError, open_work
from rejoinder.corpora.registry.sources import find_corpus, find_inputs
from rejoinder.corpora.splits import Split
from rejoinder.engine import Engine, LocalEngine
from rejoinder.files import atomic_file, atomic_folder
from rejoinder.folder_kinds import check_replaceable
from rejoinder.json_parsing import parse_json
from rejoinder.progress import Advance, StageProgress, silent


class Task(Protocol):
    """A task whose result is kept under its name."""

    @property
    def name(self) -> str:
        """Name that no other task of the job has."""


T = TypeVar("T", bound=Task)
R = TypeVar("R", bound=msgspec.Struct)
DuplicateCounts: TypeAlias = Counter[tuple[int, Split]]  # by number of the chunk and split

_RUNNING = "running"  # folder of files that say how many bytes running tasks have read
_REPORT_SECONDS = 0.5  # between two reports of a task

# Shares of the whole time, measured on two cores. Only the time left that is shown uses them.
_READ = 0.88
_SCATTER = 0.41
_ASSEMBLE = 0.47
_DUPLICATES = 0.02
_WRITE = 0.1


def build_data(
    source: str | Corpus,
    inputs: Sequence[str | Path],
    folder: str | Path,
    *,
    settings: Any = None,
    reading: Reading | None = None,
    limit: int | None = None,
    engine: Engine | None = None,
    sizes: ChunkSizes | None = None,
    progress: Advance = silent,
    overwrite: bool = False,
) -> BuildSummary:
    """Build a data folder, whole or not at all; replace an earlier result of the same call.

    Duplicates are dropped over all splits: the first of equal examples stays, in the order of the
    inputs (of a corpus whose threads are scattered, in the order of its partitions). A job that is
    stopped keeps its finished tasks in `work.work_folder(folder)`; the same call continues there.

    Args:
        source: a corpus or its name.
        inputs: as in `sources.find_inputs`.
        folder: the data folder.
        settings: an instance of the corpus' dataclass.
        reading: how bad lines are treated; it also gets the counts.
        limit: number of distinct examples after which reading ends, all of it in one process.
        engine: runs the tasks; by default this process.
        sizes: of the pieces of the job.
        progress: is called with numbers of bytes of the input that all stages are done with.
        overwrite: replace the result of another call, too.

    Raises:
        InputError: the input is bad or gives no example, or `folder` holds something else.
    """
    corpus = find_corpus(source)
    files = find_inputs(corpus, inputs)
    settings = corpus.settings() if settings is None else settings
    reading = reading or Reading()
    sizes = sizes or ChunkSizes()
    summary = BuildSummary(
        source=corpus.name,
        inputs=list(map(str, inputs)),
        settings=parse_json(json.dumps(dataclasses.asdict(settings), default=str)),
        history=reading.history,
        limit=limit,
    )
    overwrite = overwrite or _is_result(Path(folder), summary)
    check_replaceable(folder, FOLDER, overwrite=overwrite)
    temporary = (_RUNNING, gather.BLOCKS)
    with open_work(folder, _identity(summary, files, sizes), temporary) as work:
        job = ChunkJob(corpus, settings, work, limit=limit, sizes=sizes).following(reading)
        stages = _Stages(job, files, reading, engine or LocalEngine(), progress)
        chunks = stages.read_files() if corpus.read is not None else stages.gather_threads()
        buckets, duplicates = stages.find_duplicates(chunks)
        summary.count(reading, [chunk.rows for chunk in chunks], duplicates)
        if not any(counts.kept for counts in summary.splits.values()):
            raise NothingKeptError(summary.explain_empty())
        stages.write(chunks, buckets, duplicates, summary, folder)
    return summary


def _identity(summary: BuildSummary, files: Sequence[Input], sizes: ChunkSizes) -> dict[str, Any]:
    """Return what two jobs have in common if one can use the finished tasks of the other."""
    values = [value for value in summary.settings.values() if isinstance(value, str)]
    return {
        "format": FORMAT,
        "version": __version__,
        "source": summary.source,
        "settings": summary.settings,
        "history": summary.history,
        "limit": summary.limit,
        "sizes": dataclasses.asdict(sizes),
        "inputs": [[file.part, *_state(file.path)] for file in files],
        "further files": [_state(Path(value)) for value in values if Path(value).is_file()],
    }


def _state(path: Path) -> list[Any]:
    """Return name, size and time of a file; a pipe never has the same state twice."""
    state = path.stat()
    changed = state.st_mtime_ns if path.is_file() else os.urandom(8).hex()
    return [str(path.absolute()), state.st_size, changed]


def _is_result(folder: Path, summary: BuildSummary) -> bool:
    """Return whether a folder is an earlier result of the same call."""
    try:
        earlier = parse_json((folder / SUMMARY).read_text(encoding="utf-8"))
        same = json.loads(json.dumps(summary.to_json()))
        keys = ("format", "source", "inputs", "settings", "history", "limit")
        return all(earlier[key] == same[key] for key in keys)
    except (OSError, ValueError, LookupError, TypeError):
        return False


class _Stages:
    """The stages of a job, each a list of tasks for the engine."""

    def __init__(
        self, job: ChunkJob, inputs: list[Input], reading: Reading, engine: Engine, advance: Advance
    ) -> None:
        piped = any(not file.path.is_file() for file in inputs)
        total = None if piped else sum(file.size for file in inputs)
        self._engine = LocalEngine() if piped else engine  # other processes cannot read the pipe
        self._inputs = inputs
        self._reading = reading
        self._progress = StageProgress(total, advance)
        self._read = _BytesRead(job.folder, self._progress.show_count)
        self._job = dataclasses.replace(job, on_bytes=self._read.count)

    def read_files(self) -> list[Chunk]:
        """Read a corpus file by file."""
        self._progress.begin(_READ)
        chunks: list[Chunk] = []
        tasks = read_tasks(self._job, self._inputs)
        with self._map(ReadResult, read_files, tasks, self._read.look) as results:
            for result in results:
                self._reading.add(result.counts)
                chunks += result.chunks
                self._read.finish(result.size)
        return chunks

    def gather_threads(self) -> list[Chunk]:
        """Scatter the files of a corpus and assemble its threads."""
        partitions = gather.count_partitions(self._job, self._inputs)
        self._progress.begin(_SCATTER)
        runs: dict[Split | None, list[str]] = {}
        for file, scattered in zip(self._inputs, self._scatter(partitions), strict=True):
            self._reading.add(scattered.counts)
            runs.setdefault(file.part, []).extend(scattered.runs)
        chunks: list[Chunk] = []
        tasks = gather.assemble_tasks(self._job, runs, partitions)
        work = functools.partial(gather.assemble, runs=runs, partitions=partitions)
        for result in self._run_stage(_ASSEMBLE, ReadResult, work, tasks):
            self._reading.add(result.counts)
            chunks += result.chunks
        gather.remove_runs(self._job, runs)
        return chunks

    def _scatter(self, partitions: int) -> list[Scattered]:
        """Scatter all files: some each by a task, the others by tasks for their blocks."""
        tasks = gather.scatter_tasks(self._inputs)
        whole = gather.files_for_workers(self._inputs, self._engine.processes)
        results: dict[str, Scattered] = {}

        def finish(task: ScatterTask, result: Scattered) -> None:
            results[task.name] = result
            self._read.finish(result.size)

        own = [tasks[number] for number in whole]
        work = functools.partial(gather.scatter_file, partitions=partitions)
        with self._map(Scattered, work, own, self._read.look) as finished:
            for task, result in zip(own, finished, strict=True):
                finish(task, result)
        shared = functools.partial(
            gather.scatter_shared_file, partitions=partitions, engine=self._engine
        )
        for task in tasks:
            if task.name not in results:
                finish(task, _run_task(self._job, Scattered, shared, task))
        return [results[task.name] for task in tasks]

    def find_duplicates(self, chunks: Sequence[Chunk]) -> tuple[int, DuplicateCounts]:
        """Return the number of buckets, and the numbers of duplicates by chunk and split."""
        total = sum(chunk.total for chunk in chunks)
        buckets = max(1, math.ceil(total / self._job.sizes.bucket)) if chunks else 0
        tasks = [Bucket(f"duplicates-{number:06}", number) for number in range(buckets)]
        work = functools.partial(find_duplicates, chunks=chunks, buckets=buckets)
        numbers: DuplicateCounts = Counter()
        for result in self._run_stage(_DUPLICATES, Duplicates, work, tasks):
            for item in result.counts:
                numbers[item.chunk, item.split] += item.count
        return buckets, numbers

    def write(
        self,
        chunks: list[Chunk],
        buckets: int,
        duplicates: DuplicateCounts,
        summary: BuildSummary,
        folder: str | Path,
    ) -> None:
        """Write the shards and the summary, and put the data folder in its place."""
        shards = plan_shards(chunks, duplicates, self._job.sizes)
        work = functools.partial(write_shard, self._job, chunks=chunks, buckets=buckets)
        self._progress.begin(_WRITE)
        files: list[Path] = []
        with contextlib.closing(self._engine.map(work, shards)) as results:
            for file in results:
                files.append(file)
                self._progress.show(len(files) / len(shards))
        # `check_replaceable` was called before the work.
        with atomic_folder(folder, FOLDER, overwrite=True) as part:
            text = json.dumps(summary.to_json(), indent=1, ensure_ascii=False)
            (part / SUMMARY).write_text(f"{text}\n", encoding="utf-8")
            for file in files:
                file.rename(part / file.name)
        self._progress.show(1.0)

    def _run_stage(
        self, share: float, kind: type[R], work: Callable[[ChunkJob, T], R], tasks: Sequence[T]
    ) -> Iterator[R]:
        """Run a stage whose tasks take about equally long."""
        self._progress.begin(share)
        with self._map(kind, work, tasks) as results:
            for count, result in enumerate(results, 1):
                yield result
                self._progress.show(count / len(tasks))

    def _map(
        self,
        kind: type[R],
        work: Callable[[ChunkJob, T], R],
        tasks: Iterable[T],
        on_wait: Callable[[], object] | None = None,
    ) -> contextlib.closing[Generator[R]]:
        """Run tasks that are not finished; none runs any more when the `with` block ends."""
        run = functools.partial(_run_task, self._job, kind, work)
        return contextlib.closing(self._engine.map(run, tasks, on_wait))


def _run_task(job: ChunkJob, kind: type[R], work: Callable[[ChunkJob, T], R], task: T) -> R:
    """Return the kept result of a task; if there is none, run the task and keep its result."""
    file = job.folder / DONE / f"{task.name}.json"
    with contextlib.suppress(FileNotFoundError, ValueError):  # absent, or lost in a power cut
        return msgspec.json.decode(file.read_bytes(), type=kind)
    with _reported(job, task.name) as on_bytes:
        result = work(dataclasses.replace(job, on_bytes=on_bytes), task)
    with atomic_file(file, durable=False) as part:
        part.write_bytes(msgspec.json.encode(result))
    return result


@contextlib.contextmanager
def _reported(job: ChunkJob, name: str) -> Iterator[Advance]:
    """Yield a function that counts the bytes that a task reads; see `_BytesRead`."""
    if job.on_bytes is not None:
        yield job.on_bytes
        return
    path = job.folder / _RUNNING / name
    total = 0
    due = time.monotonic() + _REPORT_SECONDS

    def report(count: int) -> None:
        nonlocal total, due
        total += count
        if time.monotonic() >= due:
            path.parent.mkdir(exist_ok=True)
            path.write_text(str(total))
            due = time.monotonic() + _REPORT_SECONDS

    try:
        yield report
    finally:
        path.unlink(missing_ok=True)


class _BytesRead:
    """Bytes of the input that have been read: by finished tasks, in this process, by workers.

    A running task of this process calls `count`; one of another process writes a file.
    """

    def __init__(self, folder: Path, show: Callable[[int], object]) -> None:
        self._folder = folder / _RUNNING
        self._show = show
        self._finished = 0
        self._here = 0

    def count(self, count: int) -> None:
        """Count bytes that this process has just read."""
        self._here += count
        self._show(self._finished + self._here)

    def finish(self, size: int) -> None:
        """Count the files of a finished task; the size of a pipe is what was read."""
        self._finished += max(size, self._here)
        self._here = 0
        self._show(self._finished)

    def look(self) -> None:
        """Show what the running tasks of other processes have read, too."""
        running = sum(map(_reported_bytes, self._folder.glob("*")))
        self._show(self._finished + self._here + running)


def _reported_bytes(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # just removed, or being written
        return 0
