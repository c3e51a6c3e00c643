"""Files that are not made of lines, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.streams import open_stream
from rejoinder.errors import InputError

_PIECE = 1 << 16


def open_pieces(path: str | Path, reading: Reading | None = None) -> Iterator[bytes]:
    """Read a file, decompressed as by `open_lines`, in pieces of at most 64 KiB.

    Raises:
        InputError: the file is missing, a folder, unreadable, empty, damaged or cut off.
    """
    empty = True
    with open_stream(path, reading.on_bytes if reading is not None else None) as stream:
        while data := stream.read(_PIECE):
            empty = False
            yield data
    if empty:
        raise InputError(f"{path} is empty; copy or download it again")
