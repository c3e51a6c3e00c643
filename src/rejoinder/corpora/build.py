"""Build a data folder: read a corpus, split by thread, drop duplicates, write Parquet, account for everything.

| stage | a task | leaves in the work folder |
|---|---|---|
| read | some files (`streaming`); or a block of lines or a file, then a partition (`scattering`) | chunks of examples |
| duplicates | a range of digests (`deduplication`) | which rows are copies |
| write | a file of the data folder (`shards`) | that file |

Memory holds a few tasks' worth of data, however large the input. What comes out depends on the input and the settings,
not on the engine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from rejoinder.corpora.account import FORMAT, SUMMARY, Account
from rejoinder.corpora.chunks import Chunk
from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.engine import Engine, LocalEngine
from rejoinder.corpora.job import Input, Job, Sizes
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.reporting import Stages, watched
from rejoinder.corpora.scattering import (
    Files,
    assemble_partitions,
    assemble_tasks,
    file_tasks,
    merge_files,
    merge_tasks,
    partition_count,
    remove_files,
    scatter_block,
    scatter_file,
    scatter_tasks,
)
from rejoinder.corpora.shards import Copies, bucket_copies, plan_shards, shard_done, shard_folder, write_shard
from rejoinder.corpora.sources import find_corpus, find_inputs
from rejoinder.corpora.streaming import read_files, read_tasks, size_of
from rejoinder.corpora.work import forget, forget_all, is_done, once, open_work
from rejoinder.errors import InputError
from rejoinder.files import atomic_folder, check_replaceable

T = TypeVar("T")
Result: TypeAlias = dict[str, Any]
"""What a task gives back: little, and such that JSON can hold it."""

# Parts of the whole time, measured on two cores; only the time left that is shown depends on them.
_READ, _SCATTER, _MERGE, _ASSEMBLE, _COPIES, _WRITE = 0.8, 0.5, 0.03, 0.27, 0.02, 0.18


def build_data(
    source: str | Corpus,
    inputs: Sequence[str | Path],
    folder: str | Path,
    *,
    settings: Any = None,
    reading: Reading | None = None,
    limit: int | None = None,
    engine: Engine | None = None,
    sizes: Sizes | None = None,
    progress: Callable[[int], object] | None = None,
) -> Account:
    """Build a data folder, whole or not at all; an earlier one is replaced when the new one is complete.

    Duplicates are dropped over all splits: of equal ones the first stays, in the order of the inputs (of a corpus
    whose threads are scattered, in the order of its partitions). If the work is stopped after some of it was
    finished, `work.work_folder(folder)` keeps that, and the same call goes on from there.

    Args:
        source: a corpus, or the name of one of `sources.CORPORA`.
        inputs: the files to read, in this order, each perhaps as "train=FILE", "valid=FILE" or "test=FILE", which
            puts all its examples into that split; none for a corpus that brings its own data.
        folder: where `train-00000.parquet`, `valid-00000.parquet`, `test-00000.parquet` (and more, where there is
            much) and `data.json` go.
        settings: of the corpus, an instance of its dataclass; its defaults if not given.
        reading: what to do with bad lines, and how much history to keep; gets the counts. (Its `on_bytes` is not
            called: see `progress`.)
        limit: stop when so many examples are kept. One task then reads everything, so one process does; and of a
            corpus whose threads are scattered the whole input is read all the same.
        engine: runs the tasks; in this process if not given.
        sizes: of the job's pieces.
        progress: called with the number of further bytes of the input that are done with, in all stages.

    Raises:
        InputError: bad input, no example at all, or a folder that holds something else.
    """
    corpus = find_corpus(source)
    given = find_inputs(corpus, inputs)
    settings = _checked(settings, corpus)
    check_replaceable(folder, SUMMARY)
    _check_folder(Path(folder))
    reading = reading or Reading()
    named = [str(each) for each in inputs]
    values = json.loads(json.dumps(dataclasses.asdict(settings), default=str))
    account = Account(corpus.name, named, values, reading.history, limit)
    sizes = sizes or Sizes()
    with open_work(folder, _identity(account, given, sizes)) as work:
        job = Job(corpus, settings, work, reading.history, reading.skip_bad, reading.max_bad, limit, sizes)
        _Build(job, given, reading, account, engine or LocalEngine(), progress).run(folder)
    return account


class _Build:
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
        self._job, self._inputs, self._reading, self._account = job, inputs, reading, account
        piped = any(not each.path.is_file() for each in inputs)
        self._engine = LocalEngine() if piped else engine  # another process cannot read our pipe
        self._size = sum(map(size_of, inputs))
        self._stages = Stages(None if piped else self._size, progress)

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
        files = self._merge(files, partitions)
        chunks = []
        tasks = list(assemble_tasks(self._job, files, partitions))
        work = functools.partial(assemble_partitions, self._job, files)
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
        scatter = self._scatter_files if self._engine.remote else self._scatter_blocks
        result = once(self._job.folder, "scattered", scatter)
        if before:
            self._reading.add(result["counts"])
        return dict(result["files"]), result["partitions"]

    def _scatter_files(self) -> dict[str, Any]:
        """Each file where it is read."""
        files: Files = {}
        partitions = partition_count(self._job, self._inputs)
        work = functools.partial(scatter_file, self._job, partitions)
        tasks, long = list(file_tasks(self._inputs)), []
        with watched(self._job.folder, self._stages.read) as finish, self._mapped(work, tasks) as results:
            for task, result in zip(tasks, results, strict=True):
                files.setdefault(task.given.part, []).extend(result["files"])
                self._reading.add(result["counts"])
                long.append(result["long"])
                finish(result["size"])
        for counts in long:  # in the order of `_scatter_blocks`
            self._reading.add(counts)
        return {"files": list(files.items()), "partitions": partitions, "counts": self._reading.counts()}

    def _scatter_blocks(self) -> dict[str, Any]:
        """Block by block, cut out here."""
        files: Files = {}
        partitions, read = partition_count(self._job, self._inputs), 0

        def on_bytes(count: int) -> None:
            nonlocal read
            read += count
            self._stages.read(read)

        reading = self._job.reading(on_bytes=on_bytes)
        work = functools.partial(scatter_block, self._job, partitions)
        with self._mapped(work, scatter_tasks(self._job, self._inputs, reading, files)) as results:
            for result in results:
                self._reading.add(result["counts"])
        self._reading.add(reading.counts())
        return {"files": list(files.items()), "partitions": partitions, "counts": self._reading.counts()}

    def _merge(self, files: Files, partitions: int) -> Files:
        """Make few files of many."""
        tasks = list(merge_tasks(self._job, files))
        merged = {part: names for part, names in files.items() if not any(task.part == part for task in tasks)}
        work = functools.partial(merge_files, self._job, partitions)
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
        with atomic_folder(folder, marker=SUMMARY) as part:
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


def _checked(settings: Any, corpus: Corpus) -> Any:
    """The settings of a corpus, its defaults if there are none."""
    if settings is None:
        return corpus.settings()
    if not isinstance(settings, corpus.settings):
        raise InputError(f"{corpus.name} takes {corpus.settings.__name__}, not a {type(settings).__name__}")
    return settings


def _identity(account: Account, inputs: Sequence[Input], sizes: Sizes) -> dict[str, Any]:
    """What makes two jobs the same: so much of an earlier run is used again.

    Whether bad lines are skipped is none of it: that may be changed, and the finished work still holds.
    """
    named = [Path(value) for value in account.settings.values() if isinstance(value, str) and Path(value).is_file()]
    return {
        "format": FORMAT,
        "version": importlib.metadata.version("rejoinder"),
        "source": account.source,
        "settings": account.settings,
        "history": account.history,
        "limit": account.limit,
        "sizes": dataclasses.asdict(sizes),
        "inputs": [[each.part, *_state(each.path)] for each in inputs],
        "further files": [_state(path) for path in named],
    }


def _state(path: Path) -> list[Any]:
    """Name, size and time of a file; a pipe is never the same again."""
    state = path.stat()
    return [str(path.absolute()), state.st_size, state.st_mtime_ns if path.is_file() else os.urandom(8).hex()]


def _check_folder(folder: Path) -> None:
    """Refuse a folder that holds more than a data folder does: all of it would be replaced."""
    if not folder.is_dir() or not (summary := folder / SUMMARY).is_file():
        return  # what is left to refuse, check_replaceable refuses
    try:
        ours = str(json.loads(summary.read_text(encoding="utf-8"))["format"]).startswith("rejoinder examples")
    except (ValueError, LookupError, TypeError):
        ours = False
    others = [file.name for file in folder.iterdir() if file.name != SUMMARY and file.suffix != ".parquet"]
    if not ours or others:
        what = others[0] if others else f"a {SUMMARY} of something else"
        raise InputError(f"{folder} holds {what}, which is not ours to replace; name another folder")
