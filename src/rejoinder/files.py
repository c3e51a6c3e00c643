"""Files and folders, written whole or not at all.

A full disk, a crash or Ctrl-C leaves nothing half-written, nor damages what stood there. A killed
process leaves at most a hidden `.NAME.*.part` beside the untouched NAME. That of a folder is
removed when it is written the next time; `remove_leftovers` removes those of files.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rejoinder.errors import InputError
from rejoinder.folder_kinds import Kind, check_replaceable
from rejoinder.locks import lock_path, locked
from rejoinder.paths import check_name, name_path_in_errors, name_path_on_enospc, real_path

_WINDOWS = os.name == "nt"
# how often Windows is asked to replace a file that somebody reads, and seconds in between
_TRIES = 50
_PAUSE = 0.02
_STATUS = Path("/proc/self/status")  # of Linux, which tells the umask
_UMASK_AT_START = os.umask(0o077)  # others tell it only by setting one
os.umask(_UMASK_AT_START)
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextlib.contextmanager
def atomic_file(path: str | Path, *, durable: bool = True, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`.

    On success it replaces `path`, on any error it is removed. A symbolic link stays one: the file
    that it points to is replaced. A folder, a device or a name that is not UTF-8 is an InputError.
    With `durable` the content is on the disk before it takes its place, and so survives a power
    cut. One that is `private` is read by others only as `follow_umask` says.
    """
    check_name(path)
    target = real_path(path)
    if target.is_dir():
        raise InputError(f"{path} is a folder; name a file to write to")
    if target.exists() and not target.is_file():
        raise InputError(f"{path} is not a regular file; name a file to write to")
    target.parent.mkdir(parents=True, exist_ok=True)
    with name_path_in_errors(path):
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=".part", dir=target.parent
        )
    os.close(handle)
    part = Path(name)
    with _tidied(part, path):
        yield part
        if durable:
            _sync(part)
        follow_umask(part, private=private)
        _replace(part, target)
        if durable:
            _sync_folder(target.parent)


@contextlib.contextmanager
def atomic_folder(
    path: str | Path,
    kind: Kind | None,
    *,
    overwrite: bool = False,
    durable: bool = True,
    seconds: float = 0.0,
) -> Iterator[Path]:
    """Yield a temporary folder beside `path`.

    On success it takes the place of `path`, on any error it is removed. `check_replaceable` decides
    what may be replaced, and one process at a time writes: another waits for it for some `seconds`.
    A `kind` of None skips both, for a place within a folder that the caller has locked. Links and
    `durable` are as for `atomic_file`.
    """
    target = real_path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        contextlib.nullcontext()
        if kind is None
        else locked(lock_path(target), f"{path} is being written", seconds=seconds, path=path)
    ):
        if kind is not None:
            remove_leftovers(target.parent, target.name)  # may put back what is then checked
            check_replaceable(path, kind, overwrite=overwrite)
        with name_path_in_errors(path):
            name = tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        part = Path(name)
        with _tidied(part, path):
            yield part
            for file in part.rglob("*"):
                follow_umask(file)
                if durable and file.is_file():
                    _sync(file)
                elif durable:
                    _sync_folder(file)
            follow_umask(part)
            if durable:
                _sync_folder(part)
            _put(part, target)
            if durable:
                _sync_folder(target.parent)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left half-written (of `name` alone).

    Put back a folder that was being replaced.
    """
    for kind in (".old", ".part"):
        for rest in folder.glob(f".*{kind}"):
            target = folder / rest.name[1:].rsplit(".", 2)[0]
            if name not in (None, target.name):
                continue
            if kind == ".old" and not target.exists():
                rest.rename(target)
            else:
                remove(rest)


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def discard(folder: Path) -> None:
    """Remove a whole folder at once: a kill leaves all of it, or a `.part`."""
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    with _tidied(part, folder):
        folder.rename(part / folder.name)


def follow_umask(path: Path, *, private: bool = False) -> None:
    """Give a temporary file or folder, which is its owner's alone, the mode of new ones.

    One that is `private` stays its owner's, and its group's where this one may write new files: a
    umask of 002 or 007 says so, the usual 022 says nothing.
    """
    mask = _read_umask()
    mode = 0o777 if path.is_dir() else 0o666
    if private:
        mode &= 0o700 if mask & 0o020 else 0o770
    path.chmod(mode & ~mask)


def _read_umask() -> int:
    """Return the umask without setting one, which other threads would create their files with."""
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return _UMASK_AT_START


@contextlib.contextmanager
def _tidied(part: Path, path: str | Path) -> Iterator[None]:
    """Remove what is left of `part` at the end; let errors about it name `path` instead."""
    try:
        with name_path_on_enospc(path):
            yield
    except OSError as error:
        if str(part) in str(error.filename):
            error.filename = str(path)
        raise
    finally:
        with contextlib.suppress(OSError):
            remove(part)


def _replace(part: Path, target: Path) -> None:
    """Replace a file, and try again where Windows refuses because somebody reads it."""
    for _ in range(_TRIES if _WINDOWS else 0):
        with contextlib.suppress(PermissionError):
            part.replace(target)
            return
        time.sleep(_PAUSE)
    part.replace(target)


def _put(part: Path, path: Path) -> None:
    """Put the folder `part` in the place of `path`; what was there is then at `part`, or gone."""
    if not path.exists():
        part.rename(path)
        return
    if _exchange(part, path):
        return
    old = part.with_suffix(".old")
    try:
        path.rename(old)
        part.rename(path)
    finally:
        if old.exists() and not path.exists():  # an error or Ctrl-C came between the two
            old.rename(path)
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step; return False where the system cannot (not Linux)."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    return bool(rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)


def _sync(path: Path) -> None:
    # Windows flushes only what could be written
    with path.open("r+b" if _WINDOWS else "rb") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, so that a rename survives a power cut."""
    if _WINDOWS:  # which opens no folder
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot
            raise
    finally:
        os.close(handle)
