"""A segment of an index: float32 vectors and the replies, memory-mapped; see `writing`."""

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

from rejoinder.arrays import FloatArray
from rejoinder.encoders.protocol import DualEncoder, check_vectors
from rejoinder.errors import InputError
from rejoinder.files import file_digest, is_within, parse_json
from rejoinder.retrieval.manifest import Manifest, Positions, runs_of
from rejoinder.retrieval.replies import Candidate
from rejoinder.retrieval.scan import Array, Flags

REPLIES, OFFSETS, VECTORS = "replies.jsonl", "offsets.i64", "vectors.f32"
FILES = (REPLIES, OFFSETS, VECTORS, "codes.f16", "codes.i8", "scales.f32", "errors.f32")
"""All files that a segment may have; earlier versions wrote the last four."""
IN_MEMORY = 1 << 20  # bytes of a file that is read when it is opened; a larger one is mapped
_LONGEST_UNIT = 1.01  # a model that normalises in 16 bits may miss 1 by a little


def has_unit_vectors(encoder: DualEncoder | None) -> bool:
    """Return whether vectors of another length than 1 are a sign of a diverged training."""
    return encoder is None or encoder.unit_length


def check_rows(
    vectors: Array, what: str, first: int = 0, *, count: int | None = None, size: int = 0, unit: bool = True
) -> FloatArray:
    """Return vectors as (n, d) float32 after checking their lengths: 1 or 0 if `unit`, else finite.

    n is `count` and d the `size`, if these are known. The error names the first row that cannot be used by `what` and
    its number, counted from `first`.
    """
    rows = check_vectors(vectors, what, count)
    if rows.ndim != 2 or (len(rows) and not rows.shape[1]):
        raise InputError(f"the model gives encodings of shape {rows.shape}; an index holds one vector per {what}")
    if size not in (0, rows.shape[1]):
        raise InputError(f"vectors of size {rows.shape[1]}; those of the index have {size}")
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    near_one = np.abs(lengths - 1) < _LONGEST_UNIT - 1
    good = (lengths == 0) | near_one if unit else np.isfinite(lengths)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        reason = "its training may have diverged" + (", or it does not normalise" if unit else "")
        raise InputError(
            f"the model's vector of {what} {first + row} has length {lengths[row]:.4g}{', not 1' if unit else ''}: "
            f"{reason}; use another model"
        )
    return rows


class Line(msgspec.Struct):
    """What is stored of a reply."""

    text: str
    payload: dict[str, Any] = {}


def texts_of(name: str, value: object) -> set[str]:
    """Return the texts of what a filter wants of a field: one value, or one of several."""
    values = value if isinstance(value, Collection) and not isinstance(value, str | Mapping) else [value]
    try:
        return {text for each in values for text in value_texts(each)}
    except TypeError as error:
        raise InputError(f"where {name!r}: {error}; values are of JSON types, as those of payloads are") from None


def value_texts(value: object) -> list[str]:
    """Return the texts by which a payload's value is found: its own as JSON writes it, or those of a list's items."""
    values = value if isinstance(value, list) and value else [value]
    return [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in values]


class Segment:
    """An open segment. Only what is used is read from the disk; `verify` compares content, not sizes alone."""

    def __init__(self, index: Path, manifest: Manifest, place: int, *, verify: bool) -> None:
        self.record = record = manifest.segments[place]
        self.folder = index / record.name
        self.check_files(content=verify)
        self.vectors = self._map(VECTORS, "<f4", (record.count, manifest.size))
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
                raise InputError(f"{path} is missing; build the index again or copy the whole folder again")
            if (found := path.stat().st_size) != size:
                raise InputError(f"{path} has {found} bytes instead of {size}; build the index again or copy it again")
            if content and file_digest(path) != digest:
                raise InputError(f"{path} was altered after it was written; build the index again or copy it again")

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
        return positions - self.record.first - missing[np.searchsorted(starts, positions, side="right")]

    def _positions(self, rows: Positions) -> Positions:
        _, behind, missing = self._holes
        return np.asarray(self.record.first + rows + missing[np.searchsorted(behind, rows, side="right")])

    @functools.cached_property
    def _holes(self) -> tuple[Positions, Positions, Positions]:
        """Of each run of holes the start and the row behind it (n,), and how many holes the first i have (n + 1,)."""
        starts, counts = runs_of(self.record.holes)
        missing = np.concatenate([[0], np.cumsum(counts)])
        return starts, starts - self.record.first - missing[:-1], missing

    def line(self, row: int) -> bytes:
        """Return what is stored of one reply."""
        return bytes(self._replies[self._offsets[row] : self._offsets[row + 1]])

    def candidate(self, row: int) -> Candidate:
        """Read one reply."""
        try:
            values = parse_json(self.line(row))
            return Candidate(values["text"], values.get("payload", {}))
        except (ValueError, KeyError, TypeError):
            path = self.folder / REPLIES
            raise InputError(f"{path}: line {row + 1} was altered; build the index again or copy it again") from None

    def having(self, name: str, wanted: Collection[str]) -> Flags | None:
        """Return which rows have one of the `wanted` texts in a field of their payload; None: no row has the field.

        The first call for a field reads all payloads; what it finds is kept.
        """
        if name not in self._columns:
            numbers: dict[str, int] = {}
            self._columns[name] = numbers, np.array(
                [
                    (row, numbers.setdefault(text, len(numbers)))
                    for row, line in enumerate(self.lines())
                    if name in line.payload
                    for text in value_texts(line.payload[name])
                ],
                dtype=np.int32,
            ).reshape(-1, 2)
        numbers, pairs = self._columns[name]
        flags = np.zeros(self.record.count, dtype=bool)
        flags[pairs[np.isin(pairs[:, 1], [numbers[text] for text in wanted if text in numbers]), 0]] = True
        return flags if numbers else None

    def lines(self) -> Iterator[Line]:
        """Read all replies, one after the other."""
        lines, decode = self._replies.data, msgspec.json.Decoder(Line).decode
        for row, (start, end) in enumerate(itertools.pairwise(self._offsets.tolist())):
            try:
                yield decode(lines[start:end])
            except (msgspec.DecodeError, RecursionError):
                found = self.candidate(row)  # its error says which line was altered
                yield Line(found.text, dict(found.payload))

    def _map(self, name: str, kind: str, shape: tuple[int, ...]) -> Array:
        expected = math.prod(shape) * np.dtype(kind).itemsize
        if self.record.files.get(name, (None,))[0] != expected:
            raise InputError(f"{self.folder / name} does not fit the manifest; build the index again")
        if expected <= IN_MEMORY:  # or an index of many additions would take more open files than a process may have
            return np.fromfile(self.folder / name, dtype=kind).reshape(shape)
        # As a plain array, which is faster to index.
        return np.asarray(np.memmap(self.folder / name, dtype=kind, mode="r", shape=shape))
