"""Files: written whole or not at all, and named by their content.

Everything that Rejoinder leaves on disk goes through `atomic_file` or `atomic_folder`, so that a full disk, a
crash or Ctrl-C never leaves a half-written model, index or table behind, nor damages the one that stood there.
A killed process (which cannot tidy up) leaves at most a hidden `.NAME.*.part` beside the untouched NAME.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rejoinder.errors import InputError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextlib.contextmanager
def atomic_file(path: str | Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it replaces `path`, on any error it is removed.

    If `path` is a symbolic link, the file that it points to is replaced. The name that an `OSError` gives for the
    temporary file is changed to `path`.

    Args:
        path: the file.
        durable: wait until the disk has it, so that it is whole after a power cut too; that takes some milliseconds.

    Raises:
        InputError: `path` is a folder, a device, or no UTF-8.
    """
    _check_name(path)
    target = _real(path)
    if target.exists() and not target.is_file():
        kind = "a folder" if target.is_dir() else "no ordinary file"
        raise InputError(f"{path} is {kind}; name a file to write to")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    part = Path(name)
    with _tidied(part, path):
        yield part
        if durable:
            _sync(part)
        part.chmod(0o666 & ~_umask())
        part.replace(target)


@contextlib.contextmanager
def atomic_folder(path: str | Path, *, marker: str, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; on success it takes the place of `path`, on any error it is removed.

    Args:
        path: where the finished folder goes. An existing folder there is replaced only if it is empty or holds a
            file named `marker` (that is, if it was written by us). If it is a symbolic link, what it points to is
            replaced.
        marker: name of the file that tells such a folder from any other, `config.json` say.
        durable: as for `atomic_file`.

    Raises:
        InputError: `path` is a file, a folder of something else, one that cannot be replaced, or no UTF-8.
    """
    check_replaceable(path, marker)
    target = _real(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    with _tidied(part, path):
        yield part
        for file in part.rglob("*") if durable else ():
            if file.is_file():
                _sync(file)
        part.chmod(0o777 & ~_umask())
        _put(part, target)


def _check_name(path: str | Path) -> None:
    """Refuse a name that is not UTF-8: some libraries could not open what was written there."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InputError(f"{str(path)!a} is not a name in UTF-8; name another file or folder to write to") from None


def refuse_endless(path: str | Path) -> None:
    """Refuse an input file that could be read, or waited for, without end.

    Pipes that a shell makes are fine (`/dev/stdin`, `<(command)`): somebody has opened them for writing.

    Raises:
        InputError: it is a named pipe, a device or a socket.
        OSError: it is not there, or may not be looked at.
    """
    path = Path(path)
    mode = path.stat().st_mode
    shell = stat.S_ISFIFO(mode) and path.parts[:2] in (("/", "dev"), ("/", "proc"))
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or shell):
        kind = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise InputError(f"{path} is {kind}; name a file, or pass its content on: cat FILE | rejoinder ... /dev/stdin")


def check_replaceable(path: str | Path, marker: str) -> None:
    """Refuse to write a folder over something that is not an earlier one of its kind (see `atomic_folder`)."""
    _check_name(path)
    target = _real(path)
    if not target.exists():
        return
    if not target.is_dir():
        raise InputError(f"{path} is a file; name a folder to write to")
    if any(target.iterdir()) and not (target / marker).exists():
        raise InputError(f"{path} exists and has no {marker}, so it is not ours to replace; name another folder")
    # The whole folder is replaced. That would leave the shell in a deleted one, and a mounted one cannot be.
    if Path.cwd().is_relative_to(target) or target.is_mount():
        where = "mounted" if target.is_mount() else "the current folder, or around it"
        raise InputError(f"{path} is {where} and so cannot be replaced; name a folder inside it, {path}/new say")


@contextlib.contextmanager
def full_disk_named(path: str | Path) -> Iterator[None]:
    """Let an error of a full disk name `path`: it is noticed while writing to an open file, and then names none.

    Some libraries keep only the system's words in an error of their own, which becomes an `OSError`.
    """
    try:
        yield
    except Exception as error:
        full = os.strerror(errno.ENOSPC)
        if not isinstance(error, OSError) and full in str(error):
            raise OSError(errno.ENOSPC, full, str(path)) from error
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            error.filename = str(path)
        raise


def parse_json(text: str | bytes) -> Any:
    """Parse JSON from a file; all that may be wrong with it, even nesting too deep for Python, is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _tidied(part: Path, path: str | Path) -> Iterator[None]:
    """Remove `part` at the end, if it is still there; let errors about it name `path` instead."""
    try:
        with full_disk_named(path):
            yield
    except OSError as error:
        if str(part) in str(error.filename):
            error.filename = str(path)
        raise
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def _put(part: Path, path: Path) -> None:
    """Put the folder `part` in the place of `path`; what was there is then at `part`, or gone."""
    if not path.exists():
        part.rename(path)
    elif not _exchange(part, path):
        _replace_in_steps(part, path)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step, so that both are there at any moment; False where the system cannot (not Linux)."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    return bool(rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)


def _replace_in_steps(part: Path, path: Path) -> None:
    old = part.with_suffix(".old")
    try:
        path.rename(old)
        part.rename(path)
    finally:
        if old.exists() and not path.exists():  # an error or Ctrl-C came between the two
            old.rename(path)
        shutil.rmtree(old, ignore_errors=True)


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
