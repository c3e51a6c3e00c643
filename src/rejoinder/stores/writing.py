"""Writing a segment by batches, or what is left of others."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.vectors import check_rows
from rejoinder.errors import InputError
from rejoinder.progress import Advance
from rejoinder.stores.manifest import Manifest, SegmentRecord
from rejoinder.stores.rows import OrderedRows
from rejoinder.stores.runs import Positions, write_gaps
from rejoinder.stores.scan import Array
from rejoinder.stores.segments import Segment
from rejoinder.stores.store import Store


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


def joinable(
    segments: Sequence[Segment], count: int, covered: int, *, revises: bool = False
) -> list[Segment]:
    """Return the last segments that go into a new one of `count` replies: into a revision others.

    Not the first `covered` rows, which stay.
    """
    starts = itertools.accumulate((segment.count for segment in segments), initial=0)
    joined: list[Segment] = []
    size = 0
    for segment, start in reversed([*zip(segments, starts, strict=False)]):
        record = segment.record
        if record.revises != revises:
            continue
        size = size + record.bytes
        if record.count > count or start < covered or size > JOINED_BYTES:
            break
        joined.insert(0, segment)
        count = count + record.count
    return joined


def longest_of(vectors: Array) -> float:
    """Return the greatest length of rows (n, d), rounded up a little."""
    return float(np.linalg.norm(vectors.astype(np.float64), axis=1).max(initial=0)) * (1 + 1e-6)


def write_segment(
    manifest: Manifest,
    store: Store,
    batches: Batches,
    *,
    unit: bool,
    holes: str = "",
    revised: Positions | None = None,
    progress: Advance | None = None,
) -> Manifest:
    """Write a segment of all positions from the manifest's end on, except `holes`.

    Return the manifest with it. With `revised`, ascending positions, it is a revision of these.
    """
    first = manifest.end
    if revised is not None:
        first = int(revised[0])
        holes = write_gaps(revised)
    name = store.free_name(f"segment-{first:012d}")
    count = 0
    size = manifest.size
    examples = 0
    longest = 0.0
    with store.new_segment(name) as segment:
        for encoded in batches:
            batch = encoded.checked(first + count, size, unit=unit)
            segment.write(batch.lines, batch.vectors, batch.responses)
            examples = examples + batch.examples
            count = count + len(batch.lines)
            size = batch.vectors.shape[1]
            longest = max(longest, longest_of(batch.vectors))
            if progress is not None:
                progress(len(batch.lines))
        files = segment.files()
    revises = revised is not None
    record = SegmentRecord(name, first, count, files, longest, holes, examples, revises)
    return replace(manifest, size=size, segments=(*manifest.segments, record), same_as="")


def copied(rows: OrderedRows, batch: int) -> Batches:
    """Yield rows of segments as they are stored; see `checked_parts`."""
    return map(copy_of, checked_parts(rows, batch))


def copy_of(rows: OrderedRows) -> Batch:
    """Return rows of segments as they are stored."""
    # Of a segment without examples no line is read.
    examples = sum(map(example_count, rows.with_examples()))
    responses = rows.responses() if rows.has_responses else None
    return Batch(rows.lines(), rows.vectors(), responses, examples)


def checked_parts(rows: OrderedRows, batch: int) -> Iterator[OrderedRows]:
    """Yield rows, `batch` at once.

    The files of their segments are compared with their digests first.
    """
    rows.check()
    yield from (rows.part(start, start + batch) for start in range(0, len(rows), batch))


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
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"reply {position} cannot be stored as JSON in UTF-8: {error}") from None
