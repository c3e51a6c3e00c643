"""The work folder of a job: what its tasks have finished, so that a job that was stopped goes on where it was.

It is `.NAME.work` beside the output folder NAME. `job.json` says which job it belongs to; `done/` holds the result of
each finished task; the rest are the files that the tasks write, each whole or not there.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rejoinder.errors import InputError
from rejoinder.files import atomic_file, beside, discard, full_disk_named, locked, remove, remove_leftovers

_JOB = "job.json"
_DONE = "done"
_BOOT = "boot"
RUNNING = "running"
"""Folder of what running tasks tell (see `reporting`)."""


class WorkFolderError(InputError):
    """The work folder cannot be used."""


def work_folder(output: str | Path) -> Path:
    """Where the work for an output folder is kept until it is complete."""
    target = Path(os.path.realpath(output))
    return target.parent / f".{target.name}.work"


@contextlib.contextmanager
def open_work(output: str | Path, job: Mapping[str, Any]) -> Iterator[Path]:
    """Take hold of the work folder of a job, with what an earlier run of the same job left in it.

    It is removed at the end; after an error or Ctrl-C it stays if any task was finished.

    Args:
        output: the output folder.
        job: what identifies the job, as JSON can hold it. What another job left is removed.

    Raises:
        WorkFolderError: another process works in it, or the folder is none of ours.
    """
    path = work_folder(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(beside(path), f"{output} is being made"))
        except InputError as error:
            raise WorkFolderError(str(error)) from None
        remove_leftovers(path.parent, path.name)
        _prepare(path, job)
        try:
            with full_disk_named(path):
                yield path
        except BaseException:
            if not any((path / _DONE).iterdir()):
                _discard(path)
            raise
        _discard(path)


def _discard(path: Path) -> None:
    with contextlib.suppress(OSError):  # the output is complete, or there is another error to be told
        discard(path)


def hurry(folder: Path) -> bool:
    """Whether the files of tasks need not wait for the disk: that would take as long as the work itself.

    They outlast Ctrl-C and a killed process all the same, but perhaps not a power cut. So it is noted since when the
    machine runs, and another start of it does not trust what is there.

    Args:
        folder: the work folder; only tasks of this machine may write to it from now on.
    """
    started = _started()
    if started:
        (folder / _BOOT).write_text(started, encoding="utf-8")
    return bool(started)


def _started() -> str:
    """What the system calls the time since its start; nothing where it has no name for it (Linux has)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _is_trusted(path: Path) -> bool:
    """Whether all that finished tasks left in a work folder is really there."""
    file = path / _BOOT
    return not file.exists() or file.read_text(encoding="utf-8") == _started()


def once(folder: Path, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of a task: what an earlier run of it gave, or else what `make` gives now.

    Args:
        folder: the work folder.
        name: name of the task; the same work has the same name each time.
        make: does the work; its result must be such that JSON can hold it.
    """
    done = folder / _DONE / f"{name}.json"
    with contextlib.suppress(FileNotFoundError, ValueError):  # not there, or emptied by a power cut
        earlier: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
        return earlier
    result = make()
    # It need not be on the disk at once: if it gets lost, the task is done again.
    part = done.with_name(f".{done.name}.{uuid.uuid4().hex}.part")
    part.write_text(json.dumps(result), encoding="utf-8")
    part.replace(done)
    return result


def is_done(folder: Path, name: str) -> bool:
    """Whether a task is finished."""
    return (folder / _DONE / f"{name}.json").exists()


def forget(folder: Path, name: str) -> None:
    """Let a task be done again."""
    (folder / _DONE / f"{name}.json").unlink(missing_ok=True)


def forget_all(folder: Path) -> None:
    """Let every task be done again: there is nothing worth keeping."""
    for done in (folder / _DONE).iterdir():
        done.unlink()


def _prepare(path: Path, job: Mapping[str, Any]) -> None:
    """Keep what the same job left, without what was half-written; remove everything else."""
    text = json.dumps(job, indent=1, default=str)
    file = path / _JOB
    before = file.read_text(encoding="utf-8") if file.exists() else None
    if before is None and path.exists() and any(not each.match(".*.part") for each in path.iterdir()):
        raise WorkFolderError(f"{path} is in the way and not ours to remove; move it, or name another output folder")
    if before is not None and (before != text or not _is_trusted(path)):
        discard(path)
    path.mkdir(exist_ok=True)
    if not file.exists():
        with atomic_file(file) as part:
            part.write_text(text, encoding="utf-8")
    for rest in [*path.rglob(".*.part"), path / RUNNING]:
        remove(rest)
    (path / _DONE).mkdir(exist_ok=True)
