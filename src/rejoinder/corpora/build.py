"""Build a data folder: read a corpus, split by thread, drop duplicates, write Parquet, account for everything.

Tasks read files, or blocks of lines and then partitions (`gather`), to `chunks`; say which rows of a range of digests
are copies; write the files of the folder. Memory holds a few tasks' worth of data; `work` keeps what is finished.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rejoinder import __version__
from rejoinder.corpora import gather
from rejoinder.corpora.chunks import Chunk, Job, Sizes, file_groups, find_copies, plan_shards, read_files, write_shard
from rejoinder.corpora.corpus import Corpus, Input
from rejoinder.corpora.engine import Engine, LocalEngine
from rejoinder.corpora.example import Split
from rejoinder.corpora.examples import FOLDER, FORMAT, SUMMARY, Account
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.sources import find_corpus, find_inputs
from rejoinder.corpora.work import NothingKeptError, Progress, cached_task, is_done, open_work
from rejoinder.files import atomic_folder, check_replaceable, parse_json
from rejoinder.progress import Advance

Work: TypeAlias = Callable[..., dict[str, Any]]
Copies: TypeAlias = Counter[tuple[int, Split]]  # number of copies of earlier examples, by chunk and split

# Shares of the whole time, measured on two cores; only the time left that is shown depends on them.
_READ, _SCATTER, _MERGE, _ASSEMBLE, _COPIES, _WRITE = 0.88, 0.4, 0.03, 0.45, 0.02, 0.1


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
    progress: Advance | None = None,
    overwrite: bool = False,
) -> Account:
    """Build a data folder, whole or not at all. What the same call gave earlier is replaced when this is complete.

    Duplicates are dropped over all splits: of equal ones the first stays, in the order of the inputs (of a corpus
    whose threads are scattered, in the order of its partitions). If the work is stopped after some of it was
    finished, `work.work_folder(folder)` keeps that, and the same call goes on from there.

    `inputs` are as in `sources.find_inputs`, `settings` an instance of the corpus' dataclass. `reading` also gets the
    counts. With a `limit` of distinct examples one process reads everything. `progress` is called with numbers of bytes
    of the input that all stages are done with. `overwrite`: replace what another call gave, too. InputError: bad input,
    no example at all, or a folder that holds something else.
    """
    corpus = find_corpus(source)
    given = find_inputs(corpus, inputs)
    settings = corpus.settings() if settings is None else settings
    reading, sizes = reading or Reading(), sizes or Sizes()
    values = parse_json(json.dumps(dataclasses.asdict(settings), default=str))
    account = Account(corpus.name, list(map(str, inputs)), values, reading.history, limit)
    check_replaceable(folder, FOLDER, overwrite=overwrite or _is_result(Path(folder), account))
    with open_work(folder, _identity(account, given, sizes)) as work:
        job = Job(corpus, settings, work, reading.history, reading.skip_bad, reading.max_bad, limit, sizes)
        stages = _Stages(job, given, reading, engine or LocalEngine(), progress)
        chunks = stages.read_files() if corpus.read is not None else stages.read_scattered()
        buckets, copies = stages.find_copies(chunks)
        for name, value in reading.counts().items():
            setattr(account, name, value)
        for number, chunk in enumerate(chunks):
            for split, rows in chunk.rows.items():
                account.splits[split].add(rows, copies[number, split])
        if not any(counts.kept for counts in account.splits.values()):
            raise NothingKeptError(account.why_nothing_kept())
        stages.write(chunks, buckets, copies, account, folder)
    return account


def _identity(account: Account, inputs: Sequence[Input], sizes: Sizes) -> dict[str, Any]:
    """Return what makes two jobs the same, so that one uses what the other has finished, bad lines skipped or not."""
    named = [Path(value) for value in account.settings.values() if isinstance(value, str) and Path(value).is_file()]
    return {
        "format": FORMAT,
        "version": __version__,
        "source": account.source,
        "settings": account.settings,
        "history": account.history,
        "limit": account.limit,
        "sizes": dataclasses.asdict(sizes),
        "inputs": [[each.part, *_state(each.path)] for each in inputs],
        "further files": [_state(path) for path in named],
    }


def _state(path: Path) -> list[Any]:
    """Return name, size and time of a file; a pipe is never the same again."""
    state = path.stat()
    return [str(path.absolute()), state.st_size, state.st_mtime_ns if path.is_file() else os.urandom(8).hex()]


def _is_result(folder: Path, account: Account) -> bool:
    """Return whether a folder is what the same call gave earlier."""
    try:
        before = parse_json((folder / SUMMARY).read_text(encoding="utf-8"))
        same = json.loads(json.dumps(account.to_json()))
        return all(before[key] == same[key] for key in ("format", "source", "inputs", "settings", "history", "limit"))
    except (OSError, ValueError, LookupError, TypeError):
        return False


class _Stages:
    """The stages of a job, each a list of tasks for the engine."""

    def __init__(
        self, job: Job, files: list[Input], reading: Reading, engine: Engine, progress: Advance | None
    ) -> None:
        piped = any(not each.path.is_file() for each in files)
        self._engine = LocalEngine() if piped else engine  # another process cannot read the pipe
        self._job, self._inputs, self._reading = job, files, reading
        self._progress = Progress(job.folder, None if piped else sum(each.size for each in files), progress)

    def read_files(self) -> list[Chunk]:
        """Read a corpus file by file."""
        chunks: list[Chunk] = []
        self._progress.begin(_READ)
        work, tasks = functools.partial(read_files, self._job), file_groups(self._job, self._inputs)
        with self._progress.reading() as finish, self._mapped(work, tasks) as results:
            for result in results:
                chunks += self._taken(result)
                finish(result["size"])
        return chunks

    def read_scattered(self) -> list[Chunk]:
        """Read a corpus whose threads are scattered over its files."""
        job, (files, partitions) = self._job, self._scatter()
        chunks: list[Chunk] = []
        tasks = gather.merge_tasks(job, files)
        merged: gather.Files = {part: [] for _, part, _ in tasks}
        for task, _ in zip(tasks, self._staged(_MERGE, functools.partial(gather.merge_files, job), tasks), strict=True):
            merged[task[1]].append(task[0])
            gather.remove_files(job, task[2])
        files |= merged
        work = functools.partial(gather.assemble, job, files, partitions)
        for result in self._staged(_ASSEMBLE, work, gather.assemble_tasks(job, files, partitions)):
            chunks += self._taken(result)
        for names in files.values():
            gather.remove_files(job, names)
        return chunks

    def _taken(self, result: dict[str, Any]) -> list[Chunk]:
        self._reading.add(result["counts"])
        return [Chunk(**fields) for fields in result["chunks"]]

    def _scatter(self) -> tuple[gather.Files, int]:
        self._progress.begin(_SCATTER)
        before = is_done(self._job.folder, "scattered")
        result = cached_task(self._job.folder, self._scatter_all, ("scattered",))
        if before:
            self._reading.add(result["counts"])
        return dict(result["files"]), result["partitions"]

    def _scatter_all(self, _: str) -> dict[str, Any]:
        job, inputs = self._job, self._inputs
        partitions = gather.partition_count(job, inputs)
        workers = self._engine.processes if isinstance(self._engine, LocalEngine) else 1
        whole = range(len(inputs)) if self._engine.remote else gather.files_for_workers(inputs, workers)
        names: list[list[str]] = [[] for _ in inputs]
        with self._progress.reading() as finish:
            tasks = gather.scatter_tasks(job, inputs, whole, finish)
            with self._mapped(functools.partial(gather.scatter, job, partitions), tasks) as results:
                for result in results:
                    names[result["place"]] += result["files"]
                    self._reading.add(result["counts"])
                    finish(result["size"])
        files: gather.Files = {}
        for given, written in zip(inputs, names, strict=True):
            files.setdefault(given.part, []).extend(written)
        return {"files": list(files.items()), "partitions": partitions, "counts": self._reading.counts()}

    def find_copies(self, chunks: Sequence[Chunk]) -> tuple[int, Copies]:
        """Return the number of buckets that say which examples are copies, and how many are, by chunk and split."""
        total = sum(chunk.total for chunk in chunks)
        copies: Copies = Counter()
        buckets = max(1, math.ceil(total / self._job.sizes.bucket))
        work = functools.partial(find_copies, self._job, chunks, buckets)
        tasks = [(f"copies-{bucket:06}", bucket) for bucket in range(buckets) if chunks]
        for result in self._staged(_COPIES, work, tasks):
            for chunk, split, count in result["copies"]:
                copies[chunk, split] += count
        return buckets, copies

    def write(self, chunks: list[Chunk], buckets: int, copies: Copies, account: Account, folder: str | Path) -> None:
        """Write the files of the data folder and put it in its place."""
        shards = plan_shards(chunks, copies, self._job.sizes)
        work = functools.partial(write_shard, self._job, chunks, buckets)
        self._progress.begin(_WRITE)
        files: list[Path] = []
        with contextlib.closing(self._engine.map(work, shards)) as results:
            for file in results:
                files.append(file)
                self._progress.show(len(files) / len(shards))
        with atomic_folder(folder, FOLDER, overwrite=True) as part:  # `check_replaceable` came before the work
            text = json.dumps(account.to_json(), indent=1, ensure_ascii=False)
            (part / SUMMARY).write_text(f"{text}\n", encoding="utf-8")
            for file in files:
                file.rename(part / file.name)
        self._progress.show(1.0)

    def _staged(self, share: float, work: Work, tasks: Sequence[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        """Run a stage whose tasks take about equally long."""
        self._progress.begin(share)
        with self._mapped(work, tasks) as results:
            for count, result in enumerate(results, 1):
                yield result
                self._progress.show(count / len(tasks))

    def _mapped(self, work: Work, tasks: Iterable[tuple[Any, ...]]) -> contextlib.closing[Generator[dict[str, Any]]]:
        """Run tasks that are not done yet; none runs any more at the end of the `with` block."""
        return contextlib.closing(self._engine.map(functools.partial(cached_task, self._job.folder, work), tasks))
