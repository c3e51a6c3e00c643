"""A segment of an index on disk: exact vectors, their small form, and the replies, all memory-mapped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import numpy as np

from rejoinder.errors import InputError
from rejoinder.files import file_digest, parse_json
from rejoinder.ranker import FloatArray
from rejoinder.retrieval.candidates import Candidate
from rejoinder.retrieval.codes import Array, Dtype, encode_rows, longest_of
from rejoinder.retrieval.manifest import SegmentRecord

REPLIES = "replies.jsonl"
OFFSETS = "offsets.i64"
VECTORS = "vectors.f32"
_FILES = {  # array: its file and type, for each form
    "float32": {},
    "float16": {"codes": ("codes.f16", "<f2")},
    "int8": {"codes": ("codes.i8", "|i1"), "scales": ("scales.f32", "<f4"), "errors": ("errors.f32", "<f4")},
}

FILES = (REPLIES, OFFSETS, VECTORS, *(name for form in _FILES.values() for name, _ in form.values()))
"""Names of all files that a segment may have."""


class SegmentWriter:
    """Writes the files of a segment, a batch at a time, so that its size is bounded by the disk alone."""

    def __init__(self, folder: Path, first: int, dtype: Dtype) -> None:
        self.folder = folder
        self.first = first
        self.dtype: Dtype = dtype
        self.count = 0
        self.size = 0
        self.longest = 0.0
        self._end = 0
        names = [REPLIES, OFFSETS, VECTORS, *(name for name, _ in _FILES[dtype].values())]
        self._files: dict[str, IO[bytes]] = {name: (folder / name).open("wb") for name in names}
        self._files[OFFSETS].write(np.int64(0).astype("<i8").tobytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()

    def write(self, lines: Sequence[bytes], vectors: FloatArray) -> None:
        """Append replies (`to_line`) and their vectors (n, d)."""
        ends = self._end + np.cumsum([len(line) for line in lines], dtype="<i8")
        self._files[REPLIES].writelines(lines)
        self._files[OFFSETS].write(ends.tobytes())
        self._files[VECTORS].write(vectors.astype("<f4", copy=False).tobytes())
        for key, array in encode_rows(vectors, self.dtype).items():
            name, kind = _FILES[self.dtype][key]
            self._files[name].write(array.astype(kind, copy=False).tobytes())
        self._end = int(ends[-1])
        self.count += len(lines)
        self.size = vectors.shape[1]
        self.longest = max(self.longest, longest_of(vectors))

    def finish(self, name: str) -> SegmentRecord:
        """Close the files and describe them; `name` is what the folder will be called."""
        for file in self._files.values():
            file.close()
        paths = [self.folder / file for file in self._files]
        files = {path.name: (path.stat().st_size, file_digest(path)) for path in paths}
        return SegmentRecord(name=name, first=self.first, count=self.count, files=files, longest=self.longest)


class Segment:
    """An open segment. Only what is used is read from the disk.

    Args:
        folder: its folder.
        record: what the manifest says about it.
        size: size d of the vectors.
        dtype: form of the rows in the scan.
        verify: compare the content of all files with their digests; otherwise only their sizes.

    Raises:
        InputError: a file is missing, truncated or altered.
    """

    def __init__(self, folder: Path, record: SegmentRecord, size: int, dtype: Dtype, *, verify: bool) -> None:
        self.folder = folder
        self.record = record
        self.check_files(content=verify)
        self.vectors = self._map(VECTORS, "<f4", (record.count, size))
        shapes = {"codes": (record.count, size), "scales": (record.count,), "errors": (record.count,)}
        self.arrays: dict[str, Array] = {
            key: self._map(name, kind, shapes[key]) for key, (name, kind) in _FILES[dtype].items()
        }
        self._offsets = self._map(OFFSETS, "<i8", (record.count + 1,))
        self._replies = self._map(REPLIES, "|u1", (record.files.get(REPLIES, (0, ""))[0],))

    def check_files(self, *, content: bool) -> None:
        """Refuse files that are not what the manifest says (see `Segment`)."""
        for name, (size, digest) in self.record.files.items():
            path = self.folder / name
            if not path.is_file():
                raise InputError(f"{path} is missing; build the index again or copy the whole folder again")
            found = path.stat().st_size
            if found != size:
                raise InputError(f"{path} has {found} bytes instead of {size}; build the index again or copy it again")
            if content and file_digest(path) != digest:
                raise InputError(f"{path} was altered after it was written; build the index again or copy it again")

    def candidate(self, row: int) -> Candidate:
        """Read one reply."""
        line = self._replies[self._offsets[row] : self._offsets[row + 1]].tobytes()
        try:
            values = parse_json(line)
            return Candidate(values["text"], values.get("payload", {}))
        except (ValueError, KeyError, TypeError):
            path = self.folder / REPLIES
            raise InputError(f"{path}: line {row + 1} was altered; build the index again or copy it again") from None

    def _map(self, name: str, kind: str, shape: tuple[int, ...]) -> Array:
        expected = int(np.prod(shape)) * np.dtype(kind).itemsize
        if self.record.files.get(name, (None,))[0] != expected:
            raise InputError(f"{self.folder / name} does not fit the manifest; build the index again")
        # Copy-on-write instead of read-only: PyTorch warns about arrays that it could not write to. Nobody writes.
        return np.memmap(self.folder / name, dtype=kind, mode="c", shape=shape)


def to_line(candidate: Candidate, position: int) -> bytes:
    """A reply as it is stored.

    Raises:
        InputError: its text is no Unicode, or its payload is not of JSON types.
    """
    values = {"text": candidate.text} | ({"payload": dict(candidate.payload)} if candidate.payload else {})
    try:
        return json.dumps(values, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise InputError(f"reply {position} cannot be stored as JSON in UTF-8: {error}") from None
