"""Writing a segment by batches: replies that are just encoded, or what is left of an index."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.conversations import check_count
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.open import open_encoder
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.engine import Engine
from rejoinder.errors import InputError, shown
from rejoinder.files import atomic_folder, file_digest, remove, remove_leftovers
from rejoinder.progress import Advance
from rejoinder.retrieval import templates
from rejoinder.retrieval.manifest import (
    FAISS_FILE,
    HEAD_FILE,
    OFFSETS,
    REPLIES,
    RESPONSES,
    VECTORS,
    Manifest,
    SegmentRecord,
    join_runs,
    read_runs,
)
from rejoinder.retrieval.queries import check_rows, has_unit_vectors
from rejoinder.retrieval.replies import Segment
from rejoinder.retrieval.scan import Array
from rejoinder.retrieval.scoring import Head, encode_views

Lines: TypeAlias = Iterator[tuple[list[bytes], list[Candidate]]]
"""Of each batch of replies what is stored, and the replies as an encoder reads them."""


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


def extend(
    manifest: Manifest,
    folder: Path,
    encoder: DualEncoder,
    replies: Iterable[str | Candidate],
    batch: int,
    progress: Advance | None,
    engine: Engine | None,
    segments: Sequence[Segment] = (),
    head: Head | None = None,
) -> Manifest:
    """Write replies as a new segment in `folder` and return the manifest that counts it in.

    The one on disk stays.

    The last of the index's `segments` go into the new one while they are no larger (`JOINED_BYTES`
    at most): n replies added one by one are in about log2 n segments, and each was copied as often
    at most. With a `head` their titles and examples count.
    """
    encoded = encoded_batches(
        replies, manifest.end, encoder, batch, engine, head, plain=manifest.plain
    )
    if (first := next(encoded, None)) is None:
        return manifest
    covered = manifest.approximate.count if manifest.approximate else 0
    old = _joinable(segments, len(first.lines), covered)
    kept = replace(manifest, segments=manifest.segments[: len(manifest.segments) - len(old)])
    copied = _copied(old, np.empty(0, dtype=np.int64), batch)
    batches = itertools.chain(copied, _counted(itertools.chain([first], encoded), progress))
    holes = join_runs(segment.record.holes for segment in old)
    return write_segment(
        kept, folder, batches, unit=has_unit_vectors(encoder), holes=holes, progress=None
    )


def _joinable(segments: Sequence[Segment], count: int, covered: int) -> Sequence[Segment]:
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


def _counted(batches: Batches, progress: Advance | None) -> Batches:
    for batch in batches:
        yield batch
        if progress is not None:
            progress(len(batch.lines))


def encoded_batches(
    replies: Iterable[str | Candidate],
    first: int,
    encoder: DualEncoder,
    batch: int,
    engine: Engine | None,
    head: Head | None = None,
    *,
    plain: bool,
) -> Iterator[Batch]:
    """Yield replies, from position `first` on, `batch` at once, checked before encoding."""
    check_count("batch", batch)
    candidates = _candidates(replies)
    batches = iter(lambda: list(itertools.islice(candidates, batch)), [])
    return _encoded(_lines(batches, first, plain=plain), encoder, engine, head)


def rewrite(
    manifest: Manifest,
    folder: Path,
    segments: Sequence[Segment],
    old: Manifest,
    encoder: DualEncoder | None,
    batch: int,
    progress: Advance | None,
    engine: Engine | None = None,
) -> Manifest:
    """Write what is left of `segments` as one, at the same positions.

    Return the empty `manifest` with it.

    `old` is the manifest that they are of. The vectors stay, or come from an `encoder`.

    """
    check_count("batch", batch)
    gone = read_runs(old.deleted)
    batches: Batches
    if encoder is None:
        batches = _copied(segments, gone, batch)
    else:
        left = _left(segments, gone, batch)
        lines = (
            (list(map(s.line, rows)), read_as(map(s.candidate, rows), plain=manifest.plain))
            for s, rows in left
        )
        batches = _encoded(lines, encoder, engine, None)
    # Vectors that stay were checked when they were written.
    unit = encoder is not None and has_unit_vectors(encoder)
    return write_segment(manifest, folder, batches, unit=unit, holes=old.gone, progress=progress)


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


def encode_with(model: str, fingerprint: str, texts: Sequence[str]) -> FloatArray:
    """Encode responses with a model by its name: a task of an engine.

    The model stays open in this process.
    """
    return _worker_model(model, fingerprint).encode_responses(texts)


@functools.lru_cache(1)
def _worker_model(model: str, fingerprint: str) -> DualEncoder:
    encoder = open_encoder(model)
    if encoder.fingerprint != fingerprint:
        raise InputError(
            f"{model} is another model on a worker's machine; all machines must see the same one"
        )
    return encoder


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


def _copied(segments: Sequence[Segment], gone: Array, batch: int) -> Batches:
    """Yield what is left of segments as it is stored."""
    for segment, rows in _left(segments, gone, batch):
        whole = segment.responses is not segment.vectors
        yield Batch(
            list(map(segment.line, rows)),
            np.asarray(segment.vectors[rows]),
            np.asarray(segment.responses[rows]) if whole else None,
            # Of a segment without examples no line is read.
            sum(map(example_count, map(segment.candidate, rows))) if segment.record.examples else 0,
        )


def _left(segments: Sequence[Segment], gone: Array, batch: int) -> Iterator[tuple[Segment, Array]]:
    """Yield the rows that are left, `batch` at once, each time after their segment.

    The segment's files are compared with their digests first.
    """
    for segment in segments:
        segment.check_files(content=True)
        rows = segment.rows(np.setdiff1d(segment.positions, gone, assume_unique=True))
        yield from ((segment, rows[start : start + batch]) for start in range(0, len(rows), batch))


def _candidates(replies: Iterable[str | Candidate]) -> Iterator[Candidate]:
    if isinstance(replies, str | Mapping) or not isinstance(replies, Iterable):
        raise InputError(f"give a list of replies, texts or Candidates; given: {shown(replies)}")
    for reply in replies:
        if not isinstance(reply, str | Candidate):
            raise InputError(f"a reply is a text or a Candidate; given: {shown(reply)}")
        if isinstance(reply, str):
            yield Candidate(reply)
        elif len(set(reply.examples)) < len(reply.examples):
            yield replace(reply, examples=tuple(dict.fromkeys(reply.examples)))
        else:
            yield reply


def _lines(replies: Iterable[list[Candidate]], first: int, *, plain: bool) -> Lines:
    """Yield batches, checked before anything is encoded, with replies as an encoder reads them."""
    for batch in replies:
        lines = [to_line(candidate, first + i) for i, candidate in enumerate(batch)]
        yield lines, read_as(batch, plain=plain)
        first += len(batch)


def read_as(replies: Iterable[Candidate], *, plain: bool) -> list[Candidate]:
    """Return replies as an encoder reads them: `plain`, or as they are written."""
    return (
        [replace(reply, text=templates.plain(reply.text)) for reply in replies]
        if plain
        else list(replies)
    )


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


def _encoded(
    batches: Lines, encoder: DualEncoder, engine: Engine | None, head: Head | None
) -> Iterator[Batch]:
    if engine is None:
        for lines, candidates in batches:
            texts = [candidate.text for candidate in candidates]
            yield _batch(lines, candidates, encoder.encode_responses(texts), encoder, head)
        return
    waiting: deque[tuple[list[bytes], list[Candidate]]] = deque()

    def tasks() -> Iterator[list[str]]:
        for lines, candidates in batches:
            waiting.append((lines, candidates))
            yield [candidate.text for candidate in candidates]

    model = str(Path(encoder.name).resolve()) if Path(encoder.name).is_dir() else encoder.name
    work = functools.partial(encode_with, model, encoder.fingerprint)
    with contextlib.closing(engine.map(work, tasks())) as results:
        for vectors in results:
            lines, candidates = waiting.popleft()
            yield _batch(lines, candidates, vectors, encoder, head)


def _batch(
    lines: list[bytes],
    candidates: list[Candidate],
    responses: FloatArray,
    encoder: DualEncoder,
    head: Head | None,
) -> Batch:
    examples = sum(map(example_count, candidates))
    if head is None:
        return Batch(lines, responses, None, examples)
    views = encode_views(encoder, candidates)
    weights = head.discriminants(views, len(candidates))
    return Batch(lines, head.vectors(weights, responses), responses, examples)
