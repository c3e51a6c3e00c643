"""Names of Reddit's comments and submissions as numbers of 64 bits, and back.

A name such as `dqxyz12` is a short text, and up to eight of its bytes are a number. What is longer (Reddit has none)
gets a number by its hash, and is carried beside its record to be spelt again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Codes: TypeAlias = npt.NDArray[np.uint64]
_BYTES = 8
_MASKS = np.array([256**count - 1 for count in range(_BYTES + 1)], np.uint64)
_HASHED = 0xFF << 56
"""The highest byte of a hash: no name ends in it, since UTF-8 does not use it."""
_BETWEEN = b"\xff"


class Names:
    """The texts of a column, of which parts become numbers.

    Attributes:
        length: bytes of each text.
    """

    def __init__(self, texts: pa.StringArray) -> None:
        """Texts; null counts as empty."""
        bounds = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1) if len(texts) else np.zeros(1, np.int32)
        self._begins, ends = bounds[:-1], bounds[1:]
        self.length = ends - self._begins
        data = bytes(texts.buffers()[2] or b"")
        self._zeros = b"\0" in data
        self._data = data + bytes(2 * _BYTES)
        # The eight bytes that begin at each byte, as a number.
        self._words = np.ndarray(len(data) + _BYTES, "<u8", self._data, strides=(1,))

    def begins_with(self, start: bytes) -> npt.NDArray[np.bool_]:
        """Which texts begin with some bytes, at most eight."""
        words = self._words[self._begins] & _MASKS[np.minimum(self.length, len(start))]
        same: npt.NDArray[np.bool_] = words == np.uint64(int.from_bytes(start, "little"))
        return same

    def codes(self, skip: int = 0) -> Codes:
        """The numbers of the texts without their first bytes; 0 is the empty text."""
        length = np.maximum(self.length - skip, 0)
        codes: Codes = self._words[self._begins + np.minimum(skip, self.length)] & _MASKS[np.minimum(length, _BYTES)]
        odd = length > _BYTES
        if self._zeros:  # zero bytes at the end of a short name would get lost
            odd |= [b"\0" in self._text(row, skip) for row in range(len(codes))]
        for row in np.flatnonzero(odd).tolist():
            codes[row] = _hash(self._text(row, skip))
        return codes

    def texts(self, rows: npt.NDArray[np.int64], skip: int = 0) -> list[bytes]:
        """Some of the texts without their first bytes."""
        return [self._text(row, skip) for row in rows.tolist()]

    def _text(self, row: int, skip: int) -> bytes:
        begin, length = int(self._begins[row]), int(self.length[row])
        return self._data[min(begin + skip, begin + length) : begin + length]


def is_hash(codes: Codes) -> npt.NDArray[np.bool_]:
    """Which codes do not spell their names."""
    hashed: npt.NDArray[np.bool_] = codes >= np.uint64(_HASHED)
    return hashed


def carry(names: Iterable[bytes]) -> bytes:
    """The names of a record in one, for `carried`."""
    return _BETWEEN.join(names)


def carried(texts: Iterable[bytes]) -> dict[int, bytes]:
    """The names by their numbers, out of what `carry` gave."""
    return {_hash(name): name for text in texts for name in text.split(_BETWEEN)}


def spell(codes: Codes, known: Mapping[int, bytes]) -> pa.StringArray:
    """The names of some numbers.

    Args:
        codes: the numbers.
        known: what `carried` gives; it has all that are hashes.
    """
    letters = codes.astype("<u8").view(np.uint8).reshape(-1, _BYTES)
    there = letters != 0
    ends = np.zeros(len(codes) + 1, np.int32)
    np.cumsum(there.sum(axis=1), out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters[there])]
    if not (hashed := is_hash(codes)).any():
        return pa.Array.from_buffers(pa.string(), len(codes), buffers)
    names: list[Any] = pa.Array.from_buffers(pa.binary(), len(codes), buffers).to_pylist()
    for place in np.flatnonzero(hashed).tolist():
        names[place] = known[int(codes[place])]
    return pa.array(names, pa.binary()).cast(pa.string())


def _hash(name: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(name, digest_size=_BYTES).digest(), "little") | _HASHED
