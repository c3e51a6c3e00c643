"""Files: written whole or not at all, and named by their content.

Everything that Rejoinder leaves on disk goes through `atomic_file` or `atomic_folder`, so that a full disk, a
crash or Ctrl-C never leaves a half-written model, index or table behind, nor damages the one that stood there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rejoinder.errors import InputError


@contextlib.contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it replaces `path`, on any error it is removed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        _sync(part)
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | Path, *, marker: str) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; on success it takes the place of `path`, on any error it is removed.

    Args:
        path: where the finished folder goes. An existing folder there is replaced only if it is empty or holds a
            file named `marker` (that is, if it was written by us).
        marker: name of the file that tells such a folder from any other, `config.json` say.

    Raises:
        InputError: `path` is a file, or a folder of something else.
    """
    path = Path(path)
    check_replaceable(path, marker)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    old = part.with_suffix(".old")
    try:
        yield part
        for file in part.rglob("*"):
            if file.is_file():
                _sync(file)
        part.chmod(0o777 & ~_umask())
        if path.exists():
            path.rename(old)
        try:
            part.rename(path)
        except OSError:
            if old.exists():
                old.rename(path)
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def check_replaceable(path: Path, marker: str) -> None:
    """Refuse to write a folder over something that is not an earlier one of its kind (see `atomic_folder`)."""
    if not path.exists():
        return
    if not path.is_dir():
        raise InputError(f"{path} is a file; name a folder to write to")
    if any(path.iterdir()) and not (path / marker).exists():
        raise InputError(f"{path} exists and has no {marker}, so it is not ours to replace; name another folder")


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
