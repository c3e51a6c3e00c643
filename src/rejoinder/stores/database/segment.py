"""A segment whose rows are in a database, and are read into memory as far as they are used."""

from __future__ import annotations

import functools
import hashlib
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.errors import InputError
from rejoinder.stores.manifest import OFFSETS, REPLIES, RESPONSES, VECTORS, Manifest
from rejoinder.stores.runs import Positions
from rejoinder.stores.scan import Array, Flags
from rejoinder.stores.segments import Segment

REMEMBERED = 4096  # rows that searches in the database have read
FILTERS = 64  # values of fields whose rows are kept, one byte a row each


class StoredRow(NamedTuple):
    """A reply as a database holds it."""

    line: bytes
    vector: FloatArray  # (d,)
    response: FloatArray  # (d,): the encoding of its text


class DatabaseSegment(Segment):
    """An open segment in a database."""

    def __init__(self, manifest: Manifest, number: int, place: object) -> None:
        super().__init__(manifest.segments[number])
        self.shown = f"{place}, {self.record.name}"
        self.size = manifest.size
        self._rows: OrderedDict[int, StoredRow] = OrderedDict()
        self._having: dict[tuple[str, ...], Flags | None] = {}

    @abstractmethod
    def _read_lines(self) -> list[bytes]:
        """Read what is stored of all replies."""

    @abstractmethod
    def _read_vectors(self, *, of_texts: bool) -> FloatArray:
        """Read the vectors of all replies, (n, d), or the encodings of their texts."""

    @abstractmethod
    def _fetch(self, rows: Sequence[int]) -> Mapping[int, StoredRow]:
        """Read some rows."""

    @abstractmethod
    def _find_having(self, name: str, wanted: Collection[str]) -> list[int] | None:
        """Return the rows with one of the texts in a field; None: no row has the field."""

    @property
    def has_responses(self) -> bool:
        """Return whether the vectors are more than the encodings of the texts."""
        return RESPONSES in self.record.files

    @functools.cached_property
    def vectors(self) -> Array:  # type: ignore[override]  # read when first asked for
        """The vectors by which replies are scored: (n, d)."""
        vectors = self._read_vectors(of_texts=False)
        self._check_count(len(vectors))
        return vectors

    @functools.cached_property
    def responses(self) -> Array:  # type: ignore[override]  # read when first asked for
        """The encodings of the texts, (n, d): the same array where the vectors are no more."""
        if not self.has_responses:
            return self.vectors
        responses = self._read_vectors(of_texts=True)
        self._check_count(len(responses))
        return responses

    @functools.cached_property
    def stored(self) -> tuple[Array, Array]:  # type: ignore[override]  # read when first asked for
        """The bytes of all replies, and the offsets at which each begins, (n + 1,)."""
        lines = self._read_lines()
        self._check_count(len(lines))
        return _stored(lines)

    def opened(self, manifest: Manifest, number: int, *, verify: bool) -> Self:
        """Return the segment, read now unless graphs name its candidates, and checked."""
        built = manifest.approximate
        before = sum(record.count for record in manifest.segments[:number])
        if built is None or before >= built.count:
            self.read()
        self.check(content=verify)
        return self

    def hold(
        self, lines: Sequence[bytes], vectors: FloatArray, responses: FloatArray | None
    ) -> None:
        """Take all rows from who writes them, so that none is read."""
        own = vectors if responses is None else responses
        vars(self).update(vectors=vectors, responses=own, stored=_stored(lines))

    def read(self) -> None:
        """Read all that a search needs: what somebody sweeps away later is here."""
        assert self.vectors is not None
        assert self.responses is not None
        assert self.stored is not None

    def line(self, row: int) -> bytes:
        """Return what is stored of one reply."""
        return super().line(row) if "stored" in vars(self) else self._fetched([row])[0].line

    def lines_of(self, rows: Sequence[int]) -> Iterable[bytes]:
        """Return what is stored of some replies."""
        if "stored" in vars(self):
            return super().lines_of(rows)
        return [reply.line for reply in self._fetched(rows)]

    def vectors_of(self, rows: Positions) -> FloatArray:
        """Return the vectors of some rows: (b, d)."""
        if "vectors" in vars(self):
            return super().vectors_of(rows)
        return self._stacked([reply.vector for reply in self._fetched(rows.tolist())])

    def responses_of(self, rows: Positions) -> FloatArray:
        """Return the encodings of the texts of some rows: (b, d)."""
        if "responses" in vars(self):
            return super().responses_of(rows)
        return self._stacked([reply.response for reply in self._fetched(rows.tolist())])

    def remember(self, found: Mapping[int, StoredRow]) -> None:
        """Keep some rows that a search has read."""
        for row, stored in found.items():
            self._rows.pop(row, None)  # to the end; another thread may have taken it out
            self._rows[row] = stored
        while len(self._rows) > max(REMEMBERED, len(found)):
            self._rows.popitem(last=False)

    def having(self, name: str, wanted: Collection[str]) -> Flags | None:
        """Return which rows have one of the `wanted` texts in a field; None: none has the field."""
        if "stored" in vars(self):
            return super().having(name, wanted)
        key = (name, *sorted(wanted))
        kept = self._having
        if key in kept:
            return kept[key]
        rows = self._find_having(name, wanted)
        flags: Flags | None = None
        if rows is not None:
            flags = np.zeros(self.record.count, dtype=bool)
            flags[rows] = True
        if len(kept) >= FILTERS:
            self._having = kept = {}  # nothing is taken out: other threads may be reading it
        kept[key] = flags
        return flags

    def check(self, *, content: bool) -> None:
        """Refuse rows that are not what the manifest says; `content` compares all of them."""
        if not content:
            return
        replies, offsets = self.stored
        contents = {
            REPLIES: replies.tobytes(),
            OFFSETS: offsets.astype("<i8").tobytes(),
            VECTORS: self.vectors.astype("<f4").tobytes(),
        }
        if self.has_responses:
            contents[RESPONSES] = self.responses.astype("<f4").tobytes()
        for name, raw in contents.items():
            if self.record.files.get(name) != (len(raw), hashlib.sha256(raw).hexdigest()):
                raise InputError(
                    f"{self.shown} was altered after it was written ({name}); build the index again"
                )

    def _fetched(self, rows: Sequence[int]) -> list[StoredRow]:
        remembered = {row: self._rows.get(row) for row in rows}  # another thread may take some out
        known = {row: stored for row, stored in remembered.items() if stored is not None}
        if missing := [row for row in rows if row not in known]:
            read = self._fetch(missing)
            known.update(read)
            self.remember(read)
        if missing := [row for row in rows if row not in known]:
            raise InputError(f"{self.shown} has no row {missing[0]}; build the index again")
        return [known[row] for row in rows]

    def _stacked(self, vectors: Sequence[FloatArray]) -> FloatArray:
        return np.stack(vectors) if vectors else np.zeros((0, self.size), np.float32)

    def _check_count(self, count: int) -> None:
        if count != self.record.count:
            raise InputError(
                f"{self.shown} has {count} rows instead of {self.record.count}; build the index "
                "again"
            )


def _stored(lines: Sequence[bytes]) -> tuple[Array, Array]:
    ends = np.cumsum([len(line) for line in lines])
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    return np.frombuffer(b"".join(lines), dtype=np.uint8), offsets
