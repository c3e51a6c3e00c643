"""Running a job: its stages one after the other, each a list of tasks for the engine."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from rejoinder.corpora.account import FOLDER, SUMMARY, Account
from rejoinder.corpora.chunks import Chunk
from rejoinder.corpora.engine import Engine, LocalEngine
from rejoinder.corpora.job import Input, Job
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.reporting import Stages, watched
from rejoinder.corpora.scattering import (
    Files,
    assemble_partitions,
    assemble_tasks,
    merge_files,
    merge_tasks,
    partition_count,
    places_for_workers,
    remove_files,
    scatter_task,
    scatter_tasks,
)
from rejoinder.corpora.shards import Copies, bucket_copies, plan_shards, shard_done, shard_folder, write_shard
from rejoinder.corpora.streaming import read_files, read_tasks, size_of
from rejoinder.corpora.work import forget, forget_all, hurry, is_done, once
from rejoinder.errors import InputError
from rejoinder.files import atomic_folder

T = TypeVar("T")
Result: TypeAlias = dict[str, Any]
"""What a task gives back: little, and such that JSON can hold it."""

# Parts of the whole time, measured on two cores; only the time left that is shown depends on them.
_READ, _SCATTER, _MERGE, _ASSEMBLE, _COPIES, _WRITE = 0.88, 0.4, 0.03, 0.45, 0.02, 0.1


class JobRun:
    """One run of a job."""

    def __init__(
        self,
        job: Job,
        inputs: Sequence[Input],
        reading: Reading,
        account: Account,
        engine: Engine,
        progress: Callable[[int], object] | None,
    ) -> None:
        piped = any(not each.path.is_file() for each in inputs)
        self._engine = LocalEngine() if piped else engine  # another process cannot read our pipe
        durable = self._engine.remote or not hurry(job.folder)
        self._job = dataclasses.replace(job, durable=durable)
        self._inputs, self._reading, self._account = inputs, reading, account
        self._stages = Stages(None if piped else sum(map(size_of, inputs)), progress)

    def run(self, folder: str | Path) -> None:
        """Do everything."""
        chunks = self._read() if self._job.corpus.read is not None else self._gather()
        self._account.add_reading(self._reading)
        copies, buckets = self._find_copies(chunks)
        self._account.add_chunks(chunks, copies)
        if not any(counts.kept for counts in self._account.splits.values()):
            forget_all(self._job.folder)
            raise InputError(self._account.why_nothing_kept())
        self._write(chunks, copies, buckets, folder)

    def _read(self) -> list[Chunk]:
        """A corpus that is read file by file."""
        chunks = []
        self._stages.begin(_READ)
        work = functools.partial(read_files, self._job)
        tasks = read_tasks(self._job, self._inputs)
        with watched(self._job.folder, self._stages.read) as finish, self._mapped(work, tasks) as results:
            for result in results:
                self._reading.add(result["counts"])
                chunks += [Chunk(**fields) for fields in result["chunks"]]
                finish(result["size"])
        return chunks

    def _gather(self) -> list[Chunk]:
        """A corpus whose threads are scattered."""
        files, partitions = self._scatter()
        files = self._merge(files)
        chunks = []
        tasks = list(assemble_tasks(self._job, files, partitions))
        work = functools.partial(assemble_partitions, self._job, files, partitions)
        for result in self._staged(_ASSEMBLE, work, tasks):
            self._reading.add(result["counts"])
            chunks += [Chunk(**fields) for fields in result["chunks"]]
        for names in files.values():
            remove_files(self._job, names)
        return chunks

    def _scatter(self) -> tuple[Files, int]:
        """Bring records together by thread: the files of segments, and the number of partitions."""
        self._stages.begin(_SCATTER)
        before = is_done(self._job.folder, "scattered")
        result = once(self._job.folder, "scattered", self._scatter_all)
        if before:
            self._reading.add(result["counts"])
        return dict(result["files"]), result["partitions"]

    def _scatter_all(self) -> dict[str, Any]:
        """Some files where they are read, the others block by block, cut out here."""
        partitions = partition_count(self._job, self._inputs)
        work = functools.partial(scatter_task, self._job, partitions)
        whole, shared, processes = self._files_for_workers()
        names: dict[int, list[str]] = {}
        long = []
        with watched(self._job.folder, self._stages.read) as finish:
            reading = self._job.reading(on_bytes=finish)
            tasks = scatter_tasks(self._job, self._inputs, whole, shared, processes, reading)
            with self._mapped(work, tasks) as results:
                for result in results:
                    names.setdefault(result["place"], []).extend(result["files"])
                    self._reading.add(result["counts"])
                    long += [result["long"]] if result["long"] else []
                    finish(result["size"])
        for counts in (*long, reading.counts()):  # last, whoever read the file
            self._reading.add(counts)
        files: Files = {}
        for place in sorted(names):
            files.setdefault(self._inputs[place].part, []).extend(sorted(names[place]))
        return {"files": list(files.items()), "partitions": partitions, "counts": self._reading.counts()}

    def _files_for_workers(self) -> tuple[Sequence[int], Sequence[int], int]:
        """Numbers of the inputs that are read where they are scattered (`places_for_workers`), and of workers."""
        if self._engine.remote:
            return range(len(self._inputs)), (), 1
        processes = self._engine.processes if isinstance(self._engine, LocalEngine) else 1
        return *places_for_workers(self._inputs, processes), processes

    def _merge(self, files: Files) -> Files:
        """Make few files of many."""
        tasks = list(merge_tasks(self._job, files))
        merged = {part: names for part, names in files.items() if not any(task.part == part for task in tasks)}
        work = functools.partial(merge_files, self._job)
        for task, _ in zip(tasks, self._staged(_MERGE, work, tasks), strict=True):
            merged.setdefault(task.part, []).append(task.name)
            remove_files(self._job, task.files)
        return {part: merged[part] for part in files}

    def _find_copies(self, chunks: Sequence[Chunk]) -> tuple[Copies, int]:
        """The number of copies in each chunk, and the number of buckets that say which they are."""
        copies: Copies = Counter()
        buckets = max(1, math.ceil(sum(chunk.total for chunk in chunks) / self._job.sizes.bucket))
        work = functools.partial(bucket_copies, self._job.folder, [chunk.path for chunk in chunks], buckets)
        for result in self._staged(_COPIES, work, range(buckets) if chunks else ()):
            for chunk, split, count in result["copies"]:
                copies[chunk, split] += count
        return copies, buckets

    def _write(self, chunks: Sequence[Chunk], copies: Copies, buckets: int, folder: str | Path) -> None:
        """Write the files of the data folder and put it in its place."""
        tasks = plan_shards(chunks, copies, self._job.sizes)
        shards = shard_folder(self._job.folder)
        # Made and listed, not asked for one by one: a network file system remembers for a while what was not there.
        shards.mkdir(exist_ok=True)
        there = {path.name for path in shards.iterdir()}
        for task in tasks:
            if task.name not in there:  # moved already, when the last run was stopped
                forget(self._job.folder, shard_done(task))
        work = functools.partial(write_shard, self._job.folder, [chunk.path for chunk in chunks], buckets)
        for _ in self._staged(_WRITE, work, tasks):
            pass
        with atomic_folder(folder, FOLDER, overwrite=True) as part:  # it was asked before the work
            text = json.dumps(self._account.to_json(), indent=1, ensure_ascii=False)
            (part / SUMMARY).write_text(f"{text}\n", encoding="utf-8")
            for task in tasks:
                (shards / task.name).rename(part / task.name)
        self._stages.at(1.0)

    def _staged(self, share: float, work: Callable[[T], Result], tasks: Sequence[T]) -> Iterator[Result]:
        """A stage whose tasks take about equally long."""
        self._stages.begin(share)
        with self._mapped(work, tasks) as results:
            for count, result in enumerate(results, 1):
                yield result
                self._stages.at(count / len(tasks))

    @contextlib.contextmanager
    def _mapped(self, work: Callable[[T], Result], tasks: Iterable[T]) -> Iterator[Iterator[Result]]:
        """The results of tasks; none runs any more at the end of the `with` block."""
        with contextlib.closing(self._engine.map(work, tasks)) as results:
            yield results
