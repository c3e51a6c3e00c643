"""Files that are not made of lines, piece by piece."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rejoinder.corpora.lines import _DAMAGE, Reading, _damage, _open
from rejoinder.errors import InputError

_PIECE = 1 << 16


def open_pieces(path: str | Path, reading: Reading | None = None) -> Iterator[bytes]:
    """Read a file, decompressed as by `open_lines`, in pieces of at most 64 KiB.

    Raises:
        InputError: the file is missing, a folder, unreadable, empty, damaged or cut off.
    """
    path, empty = Path(path), True
    with contextlib.closing(_open(path, reading or Reading())) as stream:
        while True:
            try:
                piece = stream.read(_PIECE)
            except (*_DAMAGE, OSError) as error:
                raise _damage(path, error) from error
            if not piece:
                break
            empty = False
            yield piece
    if empty:
        raise InputError(f"{path} is empty; copy or download it again")
