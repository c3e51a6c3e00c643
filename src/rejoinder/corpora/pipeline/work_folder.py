"""The work folder of a job, `.NAME.work`, with which a stopped job continues where it was.

`job.json` identifies the job; `done/` holds the results of finished tasks; the rest are the
tasks' files, whole or absent. They survive a kill, but not a restart of the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rejoinder.errors import InputError
from rejoinder.files import atomic_file, discard, remove, remove_leftovers
from rejoinder.locks import lock_path, locked
from rejoinder.paths import name_path_on_enospc

DONE = "done"
_JOB = "job.json"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # only Linux has it


class WorkFolderError(InputError):
    """The work folder cannot be used."""


class NothingKeptError(InputError):
    """A job cannot give a result from its input, so its work folder is not kept."""


def work_folder(output: str | Path) -> Path:
    """Return the folder that holds the work for an output folder until it is complete."""
    target = Path(os.path.realpath(output))
    return target.parent / f".{target.name}.work"


@contextlib.contextmanager
def open_work(
    output: str | Path, job: Mapping[str, Any], temporary: Sequence[str]
) -> Iterator[Path]:
    """Lock the work folder of a job and yield it, with the finished tasks of an earlier run.

    `temporary` names its folders of running tasks, which are emptied. The work folder is removed at
    the end; after an error or Ctrl-C it stays if any task was finished. WorkFolderError: another
    process works in it, or it was not written by Rejoinder.
    """
    path = work_folder(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(lock_path(path), f"{output} is being made"))
        except InputError as error:
            raise WorkFolderError(str(error)) from None
        remove_leftovers(path.parent, path.name)
        boot = _BOOT_ID.read_text(encoding="utf-8").strip() if _BOOT_ID.exists() else ""
        _prepare(path, json.dumps({**job, "boot": boot}, indent=1, default=str), temporary)
        try:
            with name_path_on_enospc(path):
                yield path
        except BaseException as error:
            if isinstance(error, NothingKeptError) or not any((path / DONE).iterdir()):
                _discard(path)
            raise
        _discard(path)


def _prepare(path: Path, job: str, temporary: Sequence[str]) -> None:
    """Keep the finished tasks of the same job; remove everything else."""
    file = path / _JOB
    earlier = file.read_text(encoding="utf-8") if file.exists() else None
    entries = path.iterdir() if path.exists() else []
    if earlier is None and any(not entry.match(".*.part") for entry in entries):
        raise WorkFolderError(
            f"{path} was not written by Rejoinder, so it is not removed; "
            "move it, or name another output folder"
        )
    if earlier not in (None, job):
        discard(path)
    path.mkdir(exist_ok=True)
    if not file.exists():
        with atomic_file(file) as part:
            part.write_text(job, encoding="utf-8")
    for unfinished in path.rglob(".*.part"):
        remove(unfinished)
    for name in temporary:
        remove(path / name)
    (path / DONE).mkdir(exist_ok=True)


def _discard(path: Path) -> None:
    """Remove the work folder: the output is complete, or another error is being raised.

    Ctrl-C does not stop the removal, after which the job ends anyway.
    """
    with contextlib.suppress(OSError):
        try:
            discard(path)
        except KeyboardInterrupt:
            remove_leftovers(path.parent, path.name)
            remove(path)
