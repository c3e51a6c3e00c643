"""Files of numbered segments: one file for what belongs to many places, so that few files are open at once.

Layout: n + 1 places of 8 bytes (little-endian), of the first byte of each segment and of the end; then the segments.
A segment of records: rows of texts, 0xff after each text (`pack_rows`).
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rejoinder.files import atomic_file

_END = 0xFF


def write_segments(path: Path, segments: Sequence[bytes | memoryview], durable: bool = True) -> None:
    """Write a file of segments, whole or not at all (`durable`: see `files.atomic_file`)."""
    places = itertools.accumulate(map(len, segments), initial=8 * (len(segments) + 1))
    with atomic_file(path, durable=durable) as part, part.open("wb") as file:
        file.write(b"".join(place.to_bytes(8, "little") for place in places))
        file.writelines(segments)


def merge_segments(sources: Sequence[Path], path: Path, durable: bool = True) -> None:
    """Write one file of several: each of its segments is theirs one after the other. Memory holds one at a time.

    All sources are open at once.
    """
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(source.open("rb")) for source in sources]
        places = [_places(file) for file in files]
        part = stack.enter_context(atomic_file(path, durable=durable))
        target = stack.enter_context(part.open("wb"))
        # A place in the merged file is the sum of those in the sources: all headers but one are left out.
        shift = 8 * len(places[0]) * (len(places) - 1)
        target.write(b"".join((sum(each) - shift).to_bytes(8, "little") for each in zip(*places, strict=True)))
        for number in range(len(places[0]) - 1):
            for file, ends in zip(files, places, strict=True):
                file.seek(ends[number])
                target.write(file.read(ends[number + 1] - ends[number]))


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


def _places(file: IO[bytes]) -> array[int]:
    """The places at the start of a file."""
    start = file.read(8)
    places = array("Q", start + file.read(int.from_bytes(start, "little") - 8))
    if sys.byteorder == "big":
        places.byteswap()
    return places


def pack_rows(columns: Sequence[pa.Array]) -> pa.LargeBinaryArray:
    """Rows of texts as bytes: each text of a row, in the order of the columns, and the byte 0xff after each.

    That byte is in no text, since UTF-8 does not use it. So rows can be put one after the other and taken apart again.
    """
    texts = [column.cast(pa.large_binary()) for column in columns]
    return pc.binary_join_element_wise(*texts, pa.scalar(b"", pa.large_binary()), pa.scalar(b"\xff", pa.large_binary()))


def unpack_rows(data: bytes, names: Sequence[str]) -> pa.RecordBatch:
    """The rows in some bytes that `pack_rows` made, as columns of these names (large strings)."""
    bytes_ = np.frombuffer(data, np.uint8)
    is_end = bytes_ == _END
    ends = np.flatnonzero(is_end)
    # Without the bytes between them all texts of all rows are one column; each end moves by the ends before it.
    places = np.zeros(len(ends) + 1, np.int64)
    places[1:] = ends - np.arange(len(ends))
    texts = pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(places), pa.py_buffer(bytes_[~is_end]))
    columns = [texts.take(pa.array(np.arange(first, len(ends), len(names)))) for first in range(len(names))]
    return pa.RecordBatch.from_arrays(columns, names=list(names))
