"""The latest answers of a server by their ids, so that feedback need not send them again.

One worker has them in memory. Several share them by files in a temporary folder, encrypted with a
key that is in memory alone, so that a killed server leaves nothing that can be read. Servers over
one database share answers, see `curation.shared_answers`.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rejoinder.curation.matching import NEWEST
from rejoinder.curation.shared_answers import RecentAnswer
from rejoinder.patterns import match_pattern

RING_BYTES = 16 << 20  # of the answers of a worker that are alike in size; the oldest make room
SECONDS = 86_400.0  # for which they are kept
LARGE = 4 << 10  # bytes from which an answer is among the large ones, which do not displace others
_HEADER = struct.Struct("<8sdI")  # number, time, bytes that follow
_ID = match_pattern(r"([0-9a-f]{8})([0-9a-f]{8})([0-9a-f]{16})")
_SUFFIX = ".answers"


class RecentAnswers:
    """Answers in two rings in memory, small ones and large ones; workers share them by a folder.

    Args:
        folder: of the rings of all workers; None: there is one worker.
        key: encrypts the records of all workers; empty: nothing does.
        workers: whose rings the folder keeps; older ones are of workers that have ended.
        size: bytes of a ring.
    """

    observe: Callable[[str, RecentAnswer], object] | None = None  # is told each answer and its id

    def __init__(
        self,
        folder: Path | None = None,
        *,
        key: bytes = b"",
        workers: int = 2,
        size: int = RING_BYTES,
    ) -> None:
        self._folder = folder
        self._key = key
        if folder is not None:
            old = sorted(folder.glob(f"*{_SUFFIX}"), key=_written)
            for path in old[: max(0, len(old) - 2 * (workers - 1))]:
                path.unlink(missing_ok=True)
        self._small = _Ring(folder, size, key)
        self._large = _Ring(folder, size, key)

    def add(self, answer: RecentAnswer) -> str:
        """Keep an answer for a while; return its id."""
        content = msgspec.json.encode(answer)
        ring = self._small if len(content) < LARGE else self._large
        name = ring.add(content)
        if self.observe is not None:
            self.observe(name, answer)
        return name

    def get(self, name: str) -> RecentAnswer | None:
        """Return an answer by its id; None: there is none, or it was too long ago."""
        parts = _ID.fullmatch(name)
        if parts is None:
            return None
        ring, start, number = parts.groups()
        content = self._read(ring, int(start, 16), bytes.fromhex(number))
        try:
            return None if content is None else RecentAnswer(*msgspec.json.decode(content))
        except (ValueError, TypeError):  # an id that nobody gave, which points into a text
            return None

    def _read(self, name: str, start: int, number: bytes) -> bytes | None:
        for ring in (self._small, self._large):
            if ring.name == name:
                return _record(ring.bytes, start, number, self._key)
        if self._folder is None:
            return None
        try:
            with (
                (self._folder / f"{name}{_SUFFIX}").open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as other,
            ):
                return _record(other, start, number, self._key)
        except (FileNotFoundError, ValueError):  # ended, or just beginning
            return None


class _Ring:
    """Records in memory, in a file if there is a folder; new ones take the place of the oldest."""

    def __init__(self, folder: Path | None, size: int, key: bytes) -> None:
        self.name = os.urandom(4).hex()
        self._size = size
        self._key = key
        self._end = 0
        if folder is None:
            self.bytes = mmap.mmap(-1, size)
            return
        with (folder / f"{self.name}{_SUFFIX}").open("x+b") as file:
            file.truncate(size)
            self.bytes = mmap.mmap(file.fileno(), size)

    def add(self, content: bytes) -> str:
        """Write a record; return its id."""
        number = os.urandom(8)
        start = self._end
        if start + _HEADER.size + len(content) > self._size:
            start = 0
        end = start + _HEADER.size + len(content)
        if end <= self._size:  # an answer that no ring could hold is forgotten at once
            self.bytes[start : start + _HEADER.size] = bytes(_HEADER.size)
            self.bytes[start + _HEADER.size : end] = _encrypt(content, self._key, number)
            header = _HEADER.pack(number, time.time(), len(content))
            self.bytes[start : start + _HEADER.size] = header
            self._end = end
        return f"{self.name}{start:08x}{number.hex()}"


def recent_answer(
    source: str, messages: Sequence[Any], replies: Sequence[dict[str, Any]]
) -> RecentAnswer:
    """Return an answer as feedback needs it, with the messages of which the log keeps any."""
    newest = list(messages)  # those of one author may be joined
    if all(isinstance(message, str) for message in messages):
        newest = [message for message in messages if message.strip()][-NEWEST:]
    positions = [reply["position"] for reply in replies]
    return RecentAnswer(source, newest, positions, [reply["text"] for reply in replies])


def _written(path: Path) -> float:
    """Return when a ring was last written; 0.0: another worker has deleted it just now."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def is_answer_id(name: str) -> bool:
    """Return whether a text may be the id of an answer."""
    return _ID.fullmatch(name) is not None


def _encrypt(content: bytes, key: bytes, number: bytes) -> bytes:
    """Encrypt or decrypt a record by SHAKE-256 as a stream cipher; no two have the same number.

    Python's own library has no cipher. Shared memory without a file would need none, but it has
    64 MB in a container and outlives a kill under its name.
    """
    if not key:
        return content
    stream = hashlib.shake_256(key + number).digest(len(content))
    mixed = int.from_bytes(content, "big") ^ int.from_bytes(stream, "big")
    return mixed.to_bytes(len(content), "big")


def _record(ring: mmap.mmap, start: int, number: bytes, key: bytes) -> bytes | None:
    """Return the content of a record, unless another one has taken its place, if only just now."""
    header = ring[start : start + _HEADER.size]
    if len(header) < _HEADER.size:
        return None
    own, written, length = _HEADER.unpack(header)
    if own != number or not 0 <= time.time() - written <= SECONDS:
        return None
    content = ring[start + _HEADER.size : start + _HEADER.size + length]
    if ring[start : start + _HEADER.size] != header:
        return None
    return _encrypt(content, key, number)
