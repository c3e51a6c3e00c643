"""Segments of an index: files that were written at once and never change."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.files import file_digest, is_within
from rejoinder.stores.manifest import (
    OFFSETS,
    REPLIES,
    RESPONSES,
    VECTORS,
    Manifest,
    runs_of,
)
from rejoinder.stores.scan import Array, Flags, Positions

IN_MEMORY = 1 << 20  # bytes of a file that is read when it is opened; a larger one is mapped


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


_LINES = msgspec.json.Decoder(Line)


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
            return _LINES.decode(self.line(row))
        except (ValueError, RecursionError):
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
