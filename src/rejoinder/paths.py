"""Paths as callers give them: what may be read or written there, and how errors name them."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from rejoinder.errors import InputError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_name(path: str | Path) -> None:
    """Refuse a name that is not UTF-8, which some libraries could not open."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{str(path)!a} is not a name in UTF-8; name another file or folder to write to"
        ) from None


def check_regular_file(path: str | Path) -> None:
    """Refuse an input file that could be read without end; a pipe that a shell made is fine."""
    path = Path(path)
    mode = path.stat().st_mode
    shell = stat.S_ISFIFO(mode) and path.parts[:2] in (("/", "dev"), ("/", "proc"))
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or shell):
        kind = "a device"
        if stat.S_ISFIFO(mode):
            kind = "a named pipe"
        elif stat.S_ISSOCK(mode):
            kind = "a socket"
        raise InputError(
            f"{path} is {kind}; name a file, or pass its content on:"
            " cat FILE | rejoinder ... /dev/stdin"
        )


def is_plain(name: str) -> bool:
    """Return whether a name from an untrusted source stays inside a folder."""
    return re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name) is not None


def is_within(path: Path, folder: Path) -> bool:
    """Return whether a path leads, through whatever links, to something in a folder."""
    return real_path(path).is_relative_to(real_path(folder))


def real_path(path: str | Path) -> Path:
    """Return where a path leads through links, as an absolute path."""
    return Path(os.path.realpath(path))


@contextlib.contextmanager
def name_path_in_errors(path: str | Path) -> Iterator[None]:
    """Let errors of the disk name a path as it was given."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


@contextlib.contextmanager
def name_path_on_enospc(path: str | Path) -> Iterator[None]:
    """Let an error of a full disk name `path`.

    A library may raise it with the system's words alone.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError):
            for number in _NO_ROOM:
                if os.strerror(number) in str(error):
                    raise OSError(number, os.strerror(number), str(path)) from error
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            error.filename = str(path)
        raise
