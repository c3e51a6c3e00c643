"""Segments of an index: replies that were written at once and never change."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.stores.manifest import SegmentRecord
from rejoinder.stores.runs import Positions, runs_of
from rejoinder.stores.scan import Array, Flags


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
AT_ONCE = 1000  # replies that are read together


def texts_of(name: str, value: object) -> set[str]:
    """Return the texts of what a filter wants of a field: one value, or one of several."""
    values = (
        value if isinstance(value, Collection) and not isinstance(value, str | Mapping) else [value]
    )
    try:
        return {text for item in values for text in _wanted_texts(item)}
    except TypeError as error:
        raise InputError(
            f"where {name!r}: {error}; values are of JSON types, as those of payloads are"
        ) from None


def _wanted_texts(value: object) -> Iterator[str]:
    """Yield the texts of a value that a filter wants; of a number those of all its equals.

    A payload's 3 is found by 3.0, and its 3.0 by 3; true is no number.
    """
    for item in _values(value):
        plain: object = item.item() if isinstance(item, np.generic) else item
        yield _text(plain)
        if isinstance(plain, int | float) and not isinstance(plain, bool):
            yield from _equal_texts(plain)


def _equal_texts(number: float) -> Iterator[str]:
    """Yield how JSON may write a whole number: as an integer and as a float; nothing of others."""
    if number == 0:
        yield "-0.0"
    with contextlib.suppress(OverflowError, ValueError):  # inf and nan, and what no float can be
        if int(number) == number == float(number):
            yield from (_text(int(number)), _text(float(number)))


def value_texts(value: object) -> list[str]:
    """Return the texts by which a payload's value is found, as JSON writes them.

    A list has those of its items.
    """
    return [_text(item) for item in _values(value)]


def _values(value: object) -> list[object]:
    """Return the items of a list, or the value itself."""
    return value if isinstance(value, list) and value else [value]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class Segment(ABC):
    """An open segment."""

    record: SegmentRecord
    shown: object  # name of what holds its replies
    vectors: Array  # by which replies are scored: (n, d)
    responses: Array  # encodings of the texts, (n, d): the vectors, where these are no more
    stored: tuple[Array, Array]  # the bytes of all replies, and where each begins, (n + 1,)

    def __init__(self, record: SegmentRecord) -> None:
        self.record = record
        self._columns: dict[str, tuple[dict[str, int], Array]] = {}
        self._fields: frozenset[str] | None = None  # None: not read yet

    @property
    def count(self) -> int:
        """The number of its rows."""
        return self.record.count

    @abstractmethod
    def check(self, *, content: bool) -> None:
        """Refuse what is not what the manifest says; `content` compares all of it."""

    def position(self, row: int) -> int:
        """Return the position of a row."""
        is_simple = not self.record.holes
        return self.record.first + row if is_simple else int(self.positions_of(np.array(row)))

    def rows_at(self, positions: Positions) -> Positions:
        """Return the rows of those of ascending positions that it has."""
        starts, _, missing = self._holes
        first, last = np.searchsorted(positions, [self.record.first, self.record.end])
        inside = positions[first:last]
        before = np.searchsorted(starts, inside, side="right")
        rows = inside - self.record.first - missing[before]
        return np.asarray(rows[self.positions_of(rows) == inside])

    def positions_of(self, rows: Positions) -> Positions:
        """Return the positions of some rows: (b,)."""
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
        replies, offsets = self.stored
        return bytes(replies[offsets[row] : offsets[row + 1]])

    def vectors_of(self, rows: Positions) -> Array:
        """Return the vectors of some rows: (b, d)."""
        return np.asarray(self.vectors[rows])

    def responses_of(self, rows: Positions) -> Array:
        """Return the encodings of the texts of some rows: (b, d)."""
        return np.asarray(self.responses[rows])

    def candidate(self, row: int) -> Candidate:
        """Read one reply."""
        return self._decode(row, self.line(row)).candidate()

    def candidates(self, rows: Sequence[int]) -> Iterator[Candidate]:
        """Read some replies, one after the other; a database is asked for many at once."""
        for start in range(0, len(rows), AT_ONCE):
            own = rows[start : start + AT_ONCE]
            for row, line in zip(own, self.lines_of(own), strict=True):
                yield self._decode(row, line).candidate()

    def lines_of(self, rows: Sequence[int]) -> Iterable[bytes]:
        """Return what is stored of some replies."""
        return map(self.line, rows)

    def _decode(self, row: int, line: bytes) -> Line:
        try:
            return _LINES.decode(line)
        except (ValueError, RecursionError):
            raise InputError(
                f"{self.shown}: line {row + 1} was altered; build the index again or copy it again"
            ) from None

    def fields(self) -> frozenset[str]:
        """Return the names of the fields of all payloads; the first call reads these."""
        if self._fields is None:
            replies = self.candidates(range(self.count))
            self._fields = frozenset(name for reply in replies for name in reply.payload)
        return self._fields

    def having(self, name: str, wanted: Collection[str]) -> Flags | None:
        """Return which rows have one of the `wanted` texts in a field of their payload.

        None: no row has the field.

        The first call for a field reads all payloads; what it finds is kept.

        """
        if self._fields is not None and name not in self._fields:
            return None
        column = self._columns.get(name) or self._read_column(name)
        numbers, pairs = column
        if not numbers:
            return None
        self._columns[name] = column
        flags = np.zeros(self.record.count, dtype=bool)
        flags[
            pairs[np.isin(pairs[:, 1], [numbers[text] for text in wanted if text in numbers]), 0]
        ] = True
        return flags

    def _read_column(self, name: str) -> tuple[dict[str, int], Array]:
        """Return the numbers of a field's texts, and pairs of a row and a number, (n, 2)."""
        numbers: dict[str, int] = {}
        pairs: list[tuple[int, int]] = []
        fields: set[str] = set()
        for row, line in enumerate(self.lines()):
            fields.update(line.payload)
            if name in line.payload:
                texts = value_texts(line.payload[name])
                pairs += [(row, numbers.setdefault(text, len(numbers))) for text in texts]
        self._fields = frozenset(fields)
        return numbers, np.array(pairs, dtype=np.int32).reshape(-1, 2)

    def lines(self) -> Iterator[Line]:
        """Read all replies, one after the other."""
        replies, offsets = self.stored
        lines = replies.data
        decode = msgspec.json.Decoder(Line).decode
        for row, (start, end) in enumerate(itertools.pairwise(offsets.tolist())):
            try:
                yield decode(lines[start:end])
            except (msgspec.DecodeError, RecursionError):
                yield self._decode(row, self.line(row))  # its error says which line was altered
