"""What is done with every byte of large files of lines, by a small library in C where it was built (`native_lines.c`).

Each function has another way at its side that needs no library: numpy's for line ends, msgspec's for JSON. The library
only saves time, and gives up on a block of JSON that is not plainly sound.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

LIBRARY = Path(__file__).with_name("libnative_lines.so")
"""Where the installation leaves the library (`scripts/build_native.py`)."""

_SOURCE = LIBRARY.with_name("native_lines.c")

ABSENT, NULL, TEXT = range(3)
"""What stands in a line for a field: nothing, null, a text."""

_SHORT_LINE = 128
"""Bytes: where most lines are shorter, their ends are looked for a second time."""
_KEPT_BYTES = 1 << 27
_room = threading.local()


class TextColumn(NamedTuple):
    """A field of each line."""

    kinds: npt.NDArray[np.int8]
    texts: pa.StringArray
    """Empty where there is no text."""


class _Field(ctypes.Structure):
    _fields_ = (
        ("key", ctypes.c_char_p),
        ("key_length", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("texts", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("kinds", ctypes.c_void_p),
    )


def is_built() -> bool:
    """Whether the library is there."""
    return _library() is not None


def line_ends(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64] | None:
    """Places of the line ends; None if the library is not there."""
    library = _library()
    if library is None:
        return None
    places = np.empty(len(letters) // _SHORT_LINE + 1, np.int64)
    count = library.line_ends(letters.ctypes.data, len(letters), places.ctypes.data, len(places))
    if count > len(places):
        places = np.empty(count, np.int64)
        library.line_ends(letters.ctypes.data, len(letters), places.ctypes.data, len(places))
    return places[:count]


def text_columns(data: bytes | memoryview, lines: int, wanted: Mapping[str, int]) -> list[TextColumn] | None:
    """Read fields of objects of JSON, one a line.

    Args:
        data: whole lines.
        lines: how many.
        wanted: the fields' names (ASCII), and so many characters of each are kept.

    Returns:
        The fields in the order in which they were asked for. None if the library is not there, or if any line is
        anything but an object of RFC 8259 in strict UTF-8, each wanted field a text or null and there once at most.
    """
    library = _library()
    if library is None:
        return None
    letters = np.frombuffer(data, np.uint8)
    texts = _texts(len(wanted), max(1, len(letters)))
    ends = np.zeros((len(wanted), lines + 1), np.int32)
    kinds = np.empty((len(wanted), lines), np.int8)
    fields = (_Field * len(wanted))()
    for field, name, row, end, kind in zip(fields, wanted, texts, ends, kinds, strict=True):
        key = name.encode("ascii")
        field.key, field.key_length, field.most = key, len(key), wanted[name]
        field.texts, field.ends, field.kinds = row.ctypes.data, end[1:].ctypes.data, kind.ctypes.data
    if not library.json_columns(letters.ctypes.data, len(letters), fields, len(fields), lines):
        return None
    return [TextColumn(kind, _column(row, end)) for row, end, kind in zip(texts, ends, kinds, strict=True)]


def _column(texts: npt.NDArray[np.uint8], ends: npt.NDArray[np.int32]) -> pa.StringArray:
    """Texts that follow each other, copied."""
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(texts[: ends[-1]].tobytes())]
    return pa.Array.from_buffers(pa.string(), len(ends) - 1, buffers)


def _texts(columns: int, size: int) -> npt.NDArray[np.uint8]:
    """Room for the texts, which this thread keeps: new memory for each block would cost as much as half of the work."""
    room: npt.NDArray[np.uint8] | None = getattr(_room, "bytes", None)
    if room is None or len(room) < columns * size:
        room = np.empty(columns * size, np.uint8)
        if len(room) <= _KEPT_BYTES:
            _room.bytes = room
    return room[: columns * size].reshape(columns, size)


@functools.cache
def _library() -> Any:
    """The library; None if it was not built, or from another source than the one that is here."""
    if not LIBRARY.exists():
        return None
    library = ctypes.CDLL(str(LIBRARY))
    library.source_digest.restype = ctypes.c_char_p
    if library.source_digest().decode() != hashlib.sha256(_SOURCE.read_bytes()).hexdigest():
        return None
    library.line_ends.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64]
    library.line_ends.restype = ctypes.c_int64
    library.json_columns.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64]
    library.json_columns.restype = ctypes.c_int
    return library
