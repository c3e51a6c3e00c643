"""Segments of an index: float32 vectors and the replies, memory-mapped; see `writing`."""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.corpora.example import Candidate
from rejoinder.encoders.keywords import WordIndex
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.errors import InputError
from rejoinder.files import beside, file_digest, is_within, parse_json
from rejoinder.retrieval.ann import SMALL, FaissIndex
from rejoinder.retrieval.manifest import (
    MANIFEST,
    OFFSETS,
    REPLIES,
    RESPONSES,
    VECTORS,
    Manifest,
    Positions,
    check_encoder,
    check_model,
    read_manifest,
    runs_of,
)
from rejoinder.retrieval.replies import Reply
from rejoinder.retrieval.scan import Array, Flags, Found, Rows
from rejoinder.retrieval.scoring import read_head

IN_MEMORY = 1 << 20  # bytes of a file that is read when it is opened; a larger one is mapped
_TRIES = 50  # how often an index that somebody is changing is tried, and seconds in between
_PAUSE = 0.02


class Line(msgspec.Struct):
    """The stored form of a reply."""

    text: str
    payload: dict[str, Any] = {}
    title: str = ""
    examples: list[tuple[str, ...]] = []
    learned: list[tuple[str, ...]] = []

    def candidate(self) -> Candidate:
        """Return the reply."""
        return Candidate(
            self.text, self.payload, self.title, tuple(self.examples), tuple(self.learned)
        )


def texts_of(name: str, value: object) -> set[str]:
    """Return the texts of what a filter wants of a field: one value, or one of several."""
    values = (
        value if isinstance(value, Collection) and not isinstance(value, str | Mapping) else [value]
    )
    try:
        return {text for each in values for text in value_texts(each)}
    except TypeError as error:
        raise InputError(
            f"where {name!r}: {error}; values are of JSON types, as those of payloads are"
        ) from None


def value_texts(value: object) -> list[str]:
    """Return the texts by which a payload's value is found, as JSON writes them.

    A list has those of its items.
    """
    values = value if isinstance(value, list) and value else [value]
    return [
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in values
    ]


class Segment:
    """An open segment.

    Only what is used is read from the disk; `verify` compares content, not sizes alone.
    """

    def __init__(self, index: Path, manifest: Manifest, place: int, *, verify: bool) -> None:
        self.record = record = manifest.segments[place]
        self.folder = index / record.name
        self.check_files(content=verify)
        self.vectors = self._map(VECTORS, "<f4", (record.count, manifest.size))
        self.responses = self.vectors  # encodings of the texts
        if RESPONSES in record.files:
            self.responses = self._map(RESPONSES, "<f4", (record.count, manifest.size))
        self._offsets = self._map(OFFSETS, "<i8", (record.count + 1,))
        self._replies = self._map(REPLIES, "|u1", (record.files.get(REPLIES, (0, ""))[0],))
        self._columns: dict[str, tuple[dict[str, int], Array]] = {}

    def check_files(self, *, content: bool) -> None:
        """Refuse files that are not what the manifest says."""
        for name, (size, digest) in self.record.files.items():
            path = self.folder / name
            if not is_within(path, self.folder.parent):
                raise InputError(f"{path} is a link out of the index; copy the files themselves")
            if not path.is_file():
                raise InputError(
                    f"{path} is missing; build the index again or copy the whole folder again"
                )
            if (found := path.stat().st_size) != size:
                raise InputError(
                    f"{path} has {found} bytes instead of {size}; build the index again or copy it "
                    "again"
                )
            if content and file_digest(path) != digest:
                raise InputError(
                    f"{path} was altered after it was written; build the index again or copy it "
                    "again"
                )

    @functools.cached_property
    def positions(self) -> Positions:
        """The positions of its rows, (n,), ascending."""
        return self._positions(np.arange(self.record.count))

    def position(self, row: int) -> int:
        """Return the position of a row."""
        return int(self._positions(np.array(row))) if self.record.holes else self.record.first + row

    def rows(self, positions: Positions) -> Positions:
        """Return the rows of positions that it has."""
        starts, _, missing = self._holes
        return (
            positions
            - self.record.first
            - missing[np.searchsorted(starts, positions, side="right")]
        )

    def _positions(self, rows: Positions) -> Positions:
        _, behind, missing = self._holes
        return np.asarray(
            self.record.first + rows + missing[np.searchsorted(behind, rows, side="right")]
        )

    @functools.cached_property
    def _holes(self) -> tuple[Positions, Positions, Positions]:
        """Starts of the runs of holes, rows behind them, (n,); holes of the first i, (n + 1,)."""
        starts, counts = runs_of(self.record.holes)
        missing = np.concatenate([[0], np.cumsum(counts)])
        return starts, starts - self.record.first - missing[:-1], missing

    def line(self, row: int) -> bytes:
        """Return what is stored of one reply."""
        return bytes(self._replies[self._offsets[row] : self._offsets[row + 1]])

    def candidate(self, row: int) -> Candidate:
        """Read one reply."""
        return self._read(row).candidate()

    def _read(self, row: int) -> Line:
        try:
            return msgspec.convert(parse_json(self.line(row)), Line)
        except ValueError:
            path = self.folder / REPLIES
            raise InputError(
                f"{path}: line {row + 1} was altered; build the index again or copy it again"
            ) from None

    def having(self, name: str, wanted: Collection[str]) -> Flags | None:
        """Return which rows have one of the `wanted` texts in a field of their payload.

        None: no row has the field.

        The first call for a field reads all payloads; what it finds is kept.

        """
        if name not in self._columns:
            numbers: dict[str, int] = {}
            self._columns[name] = (
                numbers,
                np.array(
                    [
                        (row, numbers.setdefault(text, len(numbers)))
                        for row, line in enumerate(self.lines())
                        if name in line.payload
                        for text in value_texts(line.payload[name])
                    ],
                    dtype=np.int32,
                ).reshape(-1, 2),
            )
        numbers, pairs = self._columns[name]
        flags = np.zeros(self.record.count, dtype=bool)
        flags[
            pairs[np.isin(pairs[:, 1], [numbers[text] for text in wanted if text in numbers]), 0]
        ] = True
        return flags if numbers else None

    def lines(self) -> Iterator[Line]:
        """Read all replies, one after the other."""
        lines = self._replies.data
        decode = msgspec.json.Decoder(Line).decode
        for row, (start, end) in enumerate(itertools.pairwise(self._offsets.tolist())):
            try:
                yield decode(lines[start:end])
            except (msgspec.DecodeError, RecursionError):
                yield self._read(row)  # its error says which line was altered

    def _map(self, name: str, kind: str, shape: tuple[int, ...]) -> Array:
        expected = math.prod(shape) * np.dtype(kind).itemsize
        if self.record.files.get(name, (None,))[0] != expected:
            raise InputError(
                f"{self.folder / name} does not fit the manifest; build the index again"
            )
        # or an index of many additions would take more open files than a process may have
        if expected <= IN_MEMORY:
            return np.fromfile(self.folder / name, dtype=kind).reshape(shape)
        # As a plain array, which is faster to index.
        return np.asarray(np.memmap(self.folder / name, dtype=kind, mode="r", shape=shape))


@dataclass(frozen=True)
class FilteredSegments:
    """Rows of segments that pass a filter, numbered through all segments.

    It fulfils `replies.FilteredIndex`.
    """

    segments: Sequence[Segment]
    rows: Sequence[Rows]  # of each segment; those that do not pass are marked as deleted
    count: int  # rows that pass
    candidates: Callable[[Sequence[FloatArray], int, float], Found]  # by a scan, or by FAISS
    word_index: Callable[[], WordIndex]  # of all rows

    def vectors(self, numbers: Positions) -> FloatArray:
        """Return the vectors of rows: (n, d)."""
        return self._gather(numbers, [segment.vectors for segment in self.segments])

    def responses(self, numbers: Positions) -> FloatArray:
        """Return the encodings of the texts of rows: (n, d)."""
        return self._gather(numbers, [segment.responses for segment in self.segments])

    def _gather(self, numbers: Positions, parts: Sequence[Array]) -> FloatArray:
        firsts = [rows.first for rows in self.rows]
        owners = np.searchsorted(firsts, numbers, side="right") - 1
        vectors = np.empty((len(numbers), parts[0].shape[1]), dtype=np.float32)
        for owner in np.unique(owners):
            vectors[owners == owner] = parts[owner][numbers[owners == owner] - firsts[owner]]
        return vectors

    def reply(self, number: int, score: float) -> Reply:
        """Return the reply of a row with its score."""
        owner = bisect.bisect_right(self.rows, number, key=lambda rows: rows.first) - 1
        segment = self.segments[owner]
        row = number - self.rows[owner].first
        candidate = segment.candidate(row)
        return Reply.of(candidate, score, segment.position(row))

    def words(self) -> tuple[WordIndex, Flags]:
        """Return the words of all rows, and which rows pass."""
        return self.word_index(), ~np.concatenate([rows.gone for rows in self.rows])


def open_segments(
    folder: Path,
    encoder: DualEncoder | None,
    verify: bool | None,
    known: Mapping[str, Segment] | None = None,
) -> tuple[Manifest, list[Segment]]:
    """Read the manifest of an index, which somebody may be changing, and open its segments.

    Except those that are `known` by their names and still the same. An index in Milvus has none.

    """
    if encoder is not None:
        check_encoder(encoder)
    for _ in range(_TRIES):
        manifest = None
        stamp = stamp_of(folder)
        try:
            manifest = read_manifest(folder)
            if encoder is not None:
                check_model(folder, manifest.model, encoder)
            segments = _open_all(folder, manifest, verify, known or {})
            if stamp == stamp_of(folder):
                return manifest, segments
        except (InputError, FileNotFoundError, PermissionError):
            # Windows opens no file that is just being replaced.
            if not _is_changing(folder, manifest):
                raise
        time.sleep(_PAUSE)  # retry with the new manifest
    raise InputError(f"{folder} kept changing while it was opened; try again")


def _open_all(
    folder: Path, manifest: Manifest, verify: bool | None, known: Mapping[str, Segment]
) -> list[Segment]:
    total = sum(record.bytes for record in manifest.segments)
    check = total <= SMALL if verify is None else verify
    segments: list[Segment] = []
    for number, record in enumerate(manifest.segments):
        segment = known.get(record.name)
        if segment is None or segment.record != record:
            segment = Segment(folder, manifest, number, verify=check)
        segments.append(segment)
    if verify and manifest.head:
        read_head(folder, manifest.head)
    if verify and manifest.approximate:
        FaissIndex(folder, manifest.approximate).check(content=True)
    return segments


def stamp_of(folder: Path) -> tuple[int, int, int] | None:
    """Return what changes whenever the manifest does."""
    try:
        found = (folder / MANIFEST).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _is_changing(folder: Path, manifest: Manifest | None) -> bool:
    try:
        return beside(folder).exists() or read_manifest(folder) != manifest
    except InputError:
        return False
