"""Files of numbered segments: one file for what belongs to many places, so that few files are open at once.

Layout: n + 1 places of 8 bytes (little-endian), of the first byte of each segment and of the end; then the segments.
Records within a segment: 4 bytes of length, then the bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from rejoinder.files import atomic_file


def write_segments(path: Path, segments: Sequence[bytes | bytearray]) -> None:
    """Write a file of segments, whole or not at all."""
    places = itertools.accumulate(map(len, segments), initial=8 * (len(segments) + 1))
    with atomic_file(path) as part, part.open("wb") as file:
        file.write(b"".join(place.to_bytes(8, "little") for place in places))
        file.writelines(segments)


def read_segment(path: Path, number: int) -> bytes:
    """One segment of a file."""
    with path.open("rb", buffering=0) as file:
        file.seek(8 * number)
        ends = file.read(16)
        start, end = int.from_bytes(ends[:8], "little"), int.from_bytes(ends[8:], "little")
        file.seek(start)
        data = file.read(end - start)
    assert len(data) == end - start, f"{path} is cut off"
    return data


def add_record(segment: bytearray, record: bytes) -> None:
    """Put a record at the end of a segment."""
    segment += len(record).to_bytes(4, "little")
    segment += record


def records_of(segment: bytes) -> Iterator[bytes]:
    """The records of a segment."""
    place = 0
    while place < len(segment):
        end = place + 4 + int.from_bytes(segment[place : place + 4], "little")
        yield segment[place + 4 : end]
        place = end
