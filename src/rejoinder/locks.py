"""Locks on files and folders, which go with the process that holds them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rejoinder.errors import BusyError
from rejoinder.paths import name_path_in_errors, real_path

_POLL = 0.01  # seconds in between, in which a lock that another process has is asked for


def lock_path(path: str | Path) -> Path:
    """Return the lock file of a folder that is replaced as a whole."""
    target = real_path(path)
    return target.with_name(f".{target.name}.lock")


@contextlib.contextmanager
def locked(
    lock: Path, busy: str, *, seconds: float | None = 0.0, path: str | Path | None = None
) -> Iterator[None]:
    """Hold a lock, which goes with the process.

    If another process or thread holds it for so many seconds (None: wait), `busy` is raised as a
    BusyError. Errors of the disk name `path`, which is locked.
    """
    from filelock import FileLock, Timeout

    held = FileLock(lock, timeout=-1 if seconds is None else seconds)
    try:
        with name_path_in_errors(lock if path is None else path):
            held.acquire(poll_interval=_POLL)
    except Timeout:
        raise BusyError(
            f"{busy} by another process, or another thread of this one;"
            " wait until that is done, or stop it"
        ) from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows removes no open file
            # while it is held: whoever waits for this file notices that it is gone, and makes a new
            # one
            lock.unlink()
        held.release()


def is_held(lock: Path) -> bool:
    """Return whether another process or thread may hold a lock; a file that is left holds none."""
    if not lock.exists():
        return False
    try:
        with locked(lock, f"{lock} is held"):
            return False
    except (BusyError, OSError):  # or this user may not write to it, and cannot tell
        return True
