"""The work folder of a job, `.NAME.work`: what its tasks have finished, so that a stopped job goes on where it was.

`job.json` names the job; `done/` holds the results of tasks, `running/` how many bytes each has read; the rest are the
tasks' files, whole or not there. They outlast a killed process, but not a new start of the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rejoinder.errors import InputError
from rejoinder.files import atomic_file, beside, discard, full_disk_named, locked, remove, remove_leftovers
from rejoinder.progress import Advance

_JOB, _DONE, _RUNNING = "job.json", "done", "running"
_INTERVAL = 0.5  # seconds between two looks at the progress of running tasks


class WorkFolderError(InputError):
    """The work folder cannot be used."""


class NothingKeptError(InputError):
    """A job gave no example, so that nothing of it is worth keeping."""


def work_folder(output: str | Path) -> Path:
    """Return where the work for an output folder is kept until it is complete."""
    target = Path(os.path.realpath(output))
    return target.parent / f".{target.name}.work"


@contextlib.contextmanager
def open_work(output: str | Path, job: Mapping[str, Any]) -> Iterator[Path]:
    """Take hold of the work folder of a job, with what an earlier run of the same job left in it.

    It is removed at the end, but after an error or Ctrl-C stays if any task was finished. WorkFolderError: another
    process works in it, or it is not one of Rejoinder's.
    """
    path = work_folder(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(beside(path), f"{output} is being made"))
        except InputError as error:
            raise WorkFolderError(str(error)) from None
        remove_leftovers(path.parent, path.name)
        start = Path("/proc/sys/kernel/random/boot_id")  # of the system; only Linux has it
        boot = start.read_text(encoding="utf-8").strip() if start.exists() else ""
        _prepare(path, json.dumps({**job, "boot": boot}, indent=1, default=str))
        try:
            with full_disk_named(path):
                yield path
        except BaseException as error:
            if isinstance(error, NothingKeptError) or not any((path / _DONE).iterdir()):
                _discard(path)
            raise
        _discard(path)


def _prepare(path: Path, job: str) -> None:
    """Keep what the same job left, without what was half-written; remove everything else."""
    file = path / _JOB
    before = file.read_text(encoding="utf-8") if file.exists() else None
    if before is None and path.exists() and any(not each.match(".*.part") for each in path.iterdir()):
        raise WorkFolderError(f"{path} is in the way and not ours to remove; move it, or name another output folder")
    if before not in (None, job):
        discard(path)
    path.mkdir(exist_ok=True)
    if not file.exists():
        with atomic_file(file) as part:
            part.write_text(job, encoding="utf-8")
    for rest in [*path.rglob(".*.part"), path / _RUNNING]:
        remove(rest)
    (path / _DONE).mkdir(exist_ok=True)


def _discard(path: Path) -> None:
    with contextlib.suppress(OSError):  # the output is complete, or another error is being raised
        discard(path)


def cached_task(folder: Path, work: Callable[..., dict[str, Any]], task: tuple[Any, ...]) -> dict[str, Any]:
    """Return what an earlier run of a task, named by its first entry, gave, or else what `work(*task)` gives now."""
    done = folder / _DONE / f"{task[0]}.json"
    with contextlib.suppress(FileNotFoundError, ValueError):  # not there, or emptied by a power cut
        earlier: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
        return earlier
    result = work(*task)
    with atomic_file(done, durable=False) as part:
        part.write_text(json.dumps(result), encoding="utf-8")
    return result


def is_done(folder: Path, name: str) -> bool:
    """Return whether a task is finished."""
    return (folder / _DONE / f"{name}.json").exists()


@contextlib.contextmanager
def reported(folder: Path, name: str) -> Iterator[Advance]:
    """Give a task a function to call with the numbers of bytes that it reads, for `Progress.reading` to find."""
    path, total, due = folder / _RUNNING / name, 0, time.monotonic() + _INTERVAL

    def report(count: int) -> None:
        nonlocal total, due
        total += count
        if time.monotonic() >= due:
            path.parent.mkdir(exist_ok=True)
            path.write_text(str(total))
            due = time.monotonic() + _INTERVAL

    try:
        yield report
    finally:
        path.unlink(missing_ok=True)


class Progress:
    """The progress of a job, of whose work each stage has a share, in bytes of its input; of a pipe, of those read."""

    def __init__(self, folder: Path, total: int | None, advance: Advance | None) -> None:
        self._folder, self._total, self._advance = folder, total, advance or (lambda _: None)
        self._base = self._share = 0.0
        self._shown = 0

    def begin(self, share: float) -> None:
        """Begin the next stage, which is this share of the whole work."""
        self.show(1.0)
        self._base, self._share = self._base + self._share, share

    def show(self, part: float) -> None:
        """Show how much of the stage is done, from 0 to 1."""
        if self._total is not None:
            self._show(round(self._total * (self._base + self._share * min(1.0, part))))

    @contextlib.contextmanager
    def reading(self) -> Iterator[Advance]:
        """Show twice a second how much all tasks have read; give a function to call with a finished task's bytes."""
        finished, over = 0, threading.Event()

        def finish(count: int) -> None:
            nonlocal finished
            finished += count

        def show(count: int) -> None:
            if self._total is None:
                self._show(count)
            else:
                self.show(count / max(1, self._total))

        def watch() -> None:
            while not over.wait(_INTERVAL):
                show(finished + sum(map(_read_count, (self._folder / _RUNNING).glob("*"))))

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield finish
        finally:
            over.set()
            thread.join()
        show(finished)

    def _show(self, count: int) -> None:
        if count > self._shown:
            self._advance(count - self._shown)
            self._shown = count


def _read_count(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # just removed, or being written
        return 0
