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

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rejoinder import __version__
from rejoinder.corpora.account import FOLDER, FORMAT, SUMMARY, Account
from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.engine import Engine, LocalEngine
from rejoinder.corpora.job import Input, Job, Sizes
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.run_job import JobRun
from rejoinder.corpora.sources import find_corpus, find_inputs
from rejoinder.corpora.work import open_work
from rejoinder.errors import InputError
from rejoinder.files import check_replaceable, parse_json


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
    overwrite: bool = False,
) -> Account:
    """Build a data folder, whole or not at all. What the same call gave earlier is replaced when this is complete.

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
        overwrite: replace what another call gave.

    Raises:
        InputError: bad input, no example at all, or a folder that holds something else.
    """
    corpus = find_corpus(source)
    given = find_inputs(corpus, inputs)
    settings = _checked(settings, corpus)
    reading = reading or Reading()
    named = [str(each) for each in inputs]
    values = parse_json(json.dumps(dataclasses.asdict(settings), default=str))
    account = Account(corpus.name, named, values, reading.history, limit)
    check_replaceable(folder, FOLDER, overwrite=overwrite or _is_result(Path(folder), account))
    sizes = sizes or Sizes()
    with open_work(folder, _identity(account, given, sizes)) as work:
        job = Job(corpus, settings, work, reading.history, reading.skip_bad, reading.max_bad, limit, sizes)
        JobRun(job, given, reading, account, engine or LocalEngine(), progress).run(folder)
    return account


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
    """Name, size and time of a file; a pipe is never the same again."""
    state = path.stat()
    return [str(path.absolute()), state.st_size, state.st_mtime_ns if path.is_file() else os.urandom(8).hex()]


def _is_result(folder: Path, account: Account) -> bool:
    """Whether a folder is what the same call gave earlier."""
    try:
        before = parse_json((folder / SUMMARY).read_text(encoding="utf-8"))
        same = json.loads(json.dumps(account.to_json()))
        return all(before[key] == same[key] for key in ("format", "source", "inputs", "settings", "history", "limit"))
    except (OSError, ValueError, LookupError, TypeError):
        return False
