"""The latest answers of a server by their ids, so that feedback need not send them again."""

from __future__ import annotations

import mmap
import os
import re
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

BYTES = 16 << 20  # of the answers of a worker; the oldest make room
SECONDS = 86_400.0
_HEADER = struct.Struct("<8sdI")  # number, time, bytes that follow
_ID = re.compile(r"([0-9a-f]{8})([0-9a-f]{8})([0-9a-f]{16})")
_SUFFIX = ".answers"


class RecentAnswer(NamedTuple):
    """An answer that feedback may name."""

    source: str  # "first" or "second", of those that the server has
    messages: list[Any]
    positions: list[int]
    texts: list[str]


class RecentAnswers:
    """A ring of answers in memory, which the workers of a server share by a folder.

    Args:
        folder: of the rings of all workers; None: there is one worker.
        rings: that the folder keeps; older ones are of workers that have ended.
        size: bytes of a ring.
    """

    def __init__(self, folder: Path | None = None, *, rings: int = 2, size: int = BYTES) -> None:
        self._folder = folder
        self._size = size
        self._name = os.urandom(4).hex()
        self._end = 0
        if folder is None:
            self._ring = mmap.mmap(-1, size)
            return
        old = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
        for path in old[: max(0, len(old) - rings + 1)]:
            path.unlink(missing_ok=True)
        with (folder / f"{self._name}{_SUFFIX}").open("x+b") as file:
            file.truncate(size)
            self._ring = mmap.mmap(file.fileno(), size)

    def add(self, index: str, messages: Sequence[Any], replies: Sequence[dict[str, Any]]) -> str:
        """Keep an answer for a while; return its id."""
        positions = [reply["position"] for reply in replies]
        texts = [reply["text"] for reply in replies]
        content = msgspec.json.encode((index, messages, positions, texts))
        number = os.urandom(8)
        start = self._end
        if start + _HEADER.size + len(content) > self._size:
            start = 0
        end = start + _HEADER.size + len(content)
        if end <= self._size:  # an answer that no ring could hold is forgotten at once
            self._ring[start : start + _HEADER.size] = bytes(_HEADER.size)
            self._ring[start + _HEADER.size : end] = content
            header = _HEADER.pack(number, time.time(), len(content))
            self._ring[start : start + _HEADER.size] = header
            self._end = end
        return f"{self._name}{start:08x}{number.hex()}"

    def get(self, name: str) -> RecentAnswer | None:
        """Return an answer by its id; None: there is none, or it was too long ago."""
        parts = _ID.fullmatch(name)
        if parts is None:
            return None
        ring, start, number = parts.groups()
        content = self._read(ring, int(start, 16), bytes.fromhex(number))
        return None if content is None else RecentAnswer(*msgspec.json.decode(content))

    def _read(self, ring: str, start: int, number: bytes) -> bytes | None:
        if ring == self._name:
            return _record(self._ring, start, number)
        if self._folder is None:
            return None
        try:
            with (
                (self._folder / f"{ring}{_SUFFIX}").open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as other,
            ):
                return _record(other, start, number)
        except (FileNotFoundError, ValueError):  # ended, or just beginning
            return None


def _record(ring: mmap.mmap, start: int, number: bytes) -> bytes | None:
    """Return the content of a record, unless another one has taken its place, if only just now."""
    header = ring[start : start + _HEADER.size]
    if len(header) < _HEADER.size:
        return None
    own, written, length = _HEADER.unpack(header)
    if own != number or time.time() - written > SECONDS:
        return None
    content = ring[start + _HEADER.size : start + _HEADER.size + length]
    return content if ring[start : start + _HEADER.size] == header else None
