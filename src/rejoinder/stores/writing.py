"""Writing a segment by batches, or what is left of others."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.vectors import check_rows
from rejoinder.errors import InputError
from rejoinder.files import atomic_folder, file_digest, remove, remove_leftovers
from rejoinder.progress import Advance
from rejoinder.stores.manifest import (
    FAISS_FILE,
    HEAD_FILE,
    OFFSETS,
    REPLIES,
    RESPONSES,
    VECTORS,
    Manifest,
    SegmentRecord,
)
from rejoinder.stores.scan import Array
from rejoinder.stores.segments import Segment


class Batch(NamedTuple):
    """Replies as they are written."""

    lines: list[bytes]
    vectors: FloatArray  # (n, d)
    responses: FloatArray | None  # encodings of the texts, where the vectors are more than these
    examples: int  # titles and examples of the replies

    def checked(self, first: int, size: int, *, unit: bool) -> Batch:
        """Return the batch, from position `first` on, with checked encodings; see `check_rows`."""
        encoded = self.vectors if self.responses is None else self.responses
        count = len(self.lines)
        rows = check_rows(encoded, "reply", first, count=count, size=size, unit=unit)
        if self.responses is None:
            return self._replace(vectors=rows)
        return self._replace(responses=rows)


Batches: TypeAlias = Iterable[Batch]

JOINED_BYTES = 32 << 20  # of the segments that an addition copies at most: a tenth of a second

_to_json = msgspec.json.Encoder().encode


def joinable(segments: Sequence[Segment], count: int, covered: int) -> Sequence[Segment]:
    """Return the last segments that go into a new one of `count` replies.

    Not the first `covered` rows, which stay.
    """
    end = sum(segment.record.count for segment in segments)
    size = 0
    first = len(segments)
    while first:
        record = segments[first - 1].record
        end = end - record.count
        size = size + record.bytes
        if record.count > count or end < covered or size > JOINED_BYTES:
            break
        first = first - 1
        count = count + record.count
    return segments[first:]


def sweep(folder: Path, manifest: Manifest) -> None:
    """Remove what killed processes left in an index, and files that it no longer has."""
    remove_leftovers(folder)
    known = {record.name for record in manifest.segments}
    known |= {manifest.approximate.file} if manifest.approximate else set()
    known |= {manifest.head.file} if manifest.head else set()
    for path in [*folder.glob("segment-*"), *folder.glob(FAISS_FILE), *folder.glob(HEAD_FILE)]:
        if path.name not in known:
            # Windows removes no file that a reader has open
            with contextlib.suppress(PermissionError):
                remove(path)


def longest_of(vectors: Array) -> float:
    """Return the greatest length of rows (n, d), rounded up a little."""
    return float(np.linalg.norm(vectors.astype(np.float64), axis=1).max(initial=0)) * (1 + 1e-6)


def write_segment(
    manifest: Manifest,
    folder: Path,
    batches: Batches,
    *,
    unit: bool,
    holes: str = "",
    progress: Advance | None = None,
) -> Manifest:
    """Write a segment of all positions from the manifest's end on, except `holes`.

    Return the manifest with it.
    """
    name = _free_name(folder, f"segment-{manifest.end:012d}")
    with atomic_folder(folder / name, None) as part:
        record, size = _write_files(
            part, name, batches, manifest, unit=unit, holes=holes, progress=progress
        )
    return replace(manifest, size=size, segments=(*manifest.segments, record), same_as="")


def _free_name(folder: Path, name: str) -> str:
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(1)))
    return next(each for each in names if not (folder / each).exists())


def _write_files(
    folder: Path,
    name: str,
    batches: Batches,
    manifest: Manifest,
    *,
    unit: bool,
    holes: str,
    progress: Advance | None,
) -> tuple[SegmentRecord, int]:
    """Write batches to a folder that will be called `name`.

    Return the segment's record, and the vectors' size.
    """
    first = manifest.end
    count = 0
    end = 0
    size = manifest.size
    examples = 0
    longest = 0.0
    with contextlib.ExitStack() as stack:
        files = {
            file: stack.enter_context((folder / file).open("wb"))
            for file in (REPLIES, OFFSETS, VECTORS)
        }
        files[OFFSETS].write(np.zeros(1, dtype="<i8").tobytes())
        for encoded in batches:
            batch = encoded.checked(first + count, size, unit=unit)
            lines = batch.lines
            vectors = batch.vectors
            if batch.responses is not None:
                if RESPONSES not in files:
                    files[RESPONSES] = stack.enter_context((folder / RESPONSES).open("wb"))
                files[RESPONSES].write(batch.responses.astype("<f4", copy=False).tobytes())
            examples = examples + batch.examples
            ends = end + np.cumsum([len(line) for line in lines], dtype="<i8")
            files[REPLIES].writelines(lines)
            files[OFFSETS].write(ends.tobytes())
            files[VECTORS].write(vectors.astype("<f4", copy=False).tobytes())
            count = count + len(lines)
            end = int(ends[-1])
            size = vectors.shape[1]
            longest = max(longest, longest_of(vectors))
            if progress is not None:
                progress(len(lines))
    sizes = {file: ((folder / file).stat().st_size, file_digest(folder / file)) for file in files}
    return SegmentRecord(name, first, count, sizes, longest, holes, examples), size


def copied(segments: Sequence[Segment], gone: Array, batch: int) -> Batches:
    """Yield what is left of segments as it is stored."""
    for segment, rows in rows_left(segments, gone, batch):
        whole = segment.responses is not segment.vectors
        yield Batch(
            list(map(segment.line, rows)),
            np.asarray(segment.vectors[rows]),
            np.asarray(segment.responses[rows]) if whole else None,
            # Of a segment without examples no line is read.
            sum(map(example_count, map(segment.candidate, rows))) if segment.record.examples else 0,
        )


def rows_left(
    segments: Sequence[Segment], gone: Array, batch: int
) -> Iterator[tuple[Segment, Array]]:
    """Yield the rows that are left, `batch` at once, each time after their segment.

    The segment's files are compared with their digests first.
    """
    for segment in segments:
        segment.check_files(content=True)
        rows = segment.rows(np.setdiff1d(segment.positions, gone, assume_unique=True))
        yield from ((segment, rows[start : start + batch]) for start in range(0, len(rows), batch))


def example_count(candidate: Candidate) -> int:
    """Return the number of titles and examples of a reply."""
    return len(candidate.examples) + len(candidate.learned) + (candidate.title != "")


def to_line(candidate: Candidate, position: int) -> bytes:
    """Return what is stored of a reply."""
    try:
        values: dict[str, object] = {"text": candidate.text}
        if candidate.title:
            values["title"] = candidate.title
        if candidate.examples:
            values["examples"] = [list(example) for example in candidate.examples]
        if candidate.learned:
            values["learned"] = [list(example) for example in candidate.learned]
        if not candidate.payload:
            return _to_json(values) + b"\n"  # ten times as fast, but writes NaN as null
        values["payload"] = dict(candidate.payload)
        return json.dumps(values, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise InputError(f"reply {position} cannot be stored as JSON in UTF-8: {error}") from None
