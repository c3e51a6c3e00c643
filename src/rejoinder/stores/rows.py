"""Rows of an index's segments: which of them count, and all of them in the order of positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray
from rejoinder.corpora.schema import Candidate
from rejoinder.stores.runs import Positions
from rejoinder.stores.scan import Array, Flags
from rejoinder.stores.segments import Segment


def gone_rows(segments: Sequence[Segment], deleted: Positions) -> list[Flags | None]:
    """Return which rows (n,) of each segment do not count; None: all do.

    These are rows of ascending positions that are `deleted`, and those that a revision supersedes.
    """
    gone: list[Flags | None] = [None] * len(segments)
    revised = deleted
    for number in reversed(range(len(segments))):
        segment = segments[number]
        if segment.record.revises:
            gone[number] = _flags(segment, revised)
            revised = np.union1d(revised, segment.record.positions)
    for number, segment in enumerate(segments):
        if not segment.record.revises:
            gone[number] = _flags(segment, revised)
    return gone


def _flags(segment: Segment, positions: Positions) -> Flags | None:
    rows = segment.rows_at(positions)
    if not len(rows):
        return None
    flags = np.zeros(segment.count, dtype=np.bool_)
    flags[rows] = True
    return flags


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """Some rows of several segments, by ascending positions."""

    segments: Sequence[Segment]
    positions: Positions  # (n,)
    owners: npt.NDArray[np.int32]  # (n,) the number of each row's segment
    rows: Positions  # (n,) its number there

    @classmethod
    def of(cls, segments: Sequence[Segment], gone: Sequence[Flags | None]) -> OrderedRows:
        """Return the rows of segments that are not gone."""
        rows = [
            np.arange(segment.count) if flags is None else np.flatnonzero(~flags)
            for segment, flags in zip(segments, gone, strict=True)
        ]
        nothing = np.zeros(0, np.int64)
        pairs = zip(segments, rows, strict=True)
        positions = np.concatenate(
            [nothing, *(segment.positions_of(own) for segment, own in pairs)]
        )
        numbers = np.arange(len(segments), dtype=np.int32)
        owners = np.repeat(numbers, list(map(len, rows)))
        joined_rows = np.concatenate([nothing, *rows])
        if any(segment.record.revises for segment in segments):
            order = np.argsort(positions)
            return cls(segments, positions[order], owners[order], joined_rows[order])
        return cls(segments, positions, owners, joined_rows)

    @classmethod
    def latest(cls, segments: Sequence[Segment], positions: Positions) -> OrderedRows:
        """Return the latest editions at ascending positions, as far as the segments hold them."""
        revisions = [number for number, segment in enumerate(segments) if segment.record.revises]
        others = [number for number, segment in enumerate(segments) if not segment.record.revises]
        parts = [np.zeros((3, 0), np.int64)]
        for number in (*reversed(revisions), *others):
            rows = segments[number].rows_at(positions)
            own = segments[number].positions_of(rows)
            parts.append(np.stack([own, np.full(len(rows), number), rows]))
            positions = np.setdiff1d(positions, own, assume_unique=True)
        places = np.concatenate(parts, axis=1)
        at, owners, rows = places[:, np.argsort(places[0])]
        return cls(segments, at, owners.astype(np.int32), rows)

    def __len__(self) -> int:
        return len(self.rows)

    def check(self) -> None:
        """Compare the files of the segments with their digests."""
        for segment in self.segments:
            segment.check(content=True)

    def part(self, start: int, end: int) -> OrderedRows:
        """Return some of the rows."""
        chosen = slice(start, end)
        return OrderedRows(
            self.segments, self.positions[chosen], self.owners[chosen], self.rows[chosen]
        )

    def lines(self) -> list[bytes]:
        """Return what is stored of the replies."""
        return [segment.line(row) for segment, row in self._pairs()]

    def candidates(self) -> list[Candidate]:
        """Read the replies."""
        return [segment.candidate(row) for segment, row in self._pairs()]

    def with_examples(self) -> list[Candidate]:
        """Read the replies of segments that have titles or examples."""
        return [segment.candidate(row) for segment, row in self._pairs() if segment.record.examples]

    def vectors(self) -> FloatArray:
        """Return the vectors by which they are scored, (n, d), of whole segments in memory."""
        return self._gathered([segment.vectors.__getitem__ for segment in self.segments])

    def responses(self) -> FloatArray:
        """Return the encodings of their texts, (n, d), of whole segments in memory."""
        return self._gathered([segment.responses.__getitem__ for segment in self.segments])

    def few_vectors(self) -> FloatArray:
        """Return the vectors by which they are scored, (n, d); no other row is read."""
        return self._gathered([segment.vectors_of for segment in self.segments])

    def few_responses(self) -> FloatArray:
        """Return the encodings of their texts, (n, d); no other row is read."""
        return self._gathered([segment.responses_of for segment in self.segments])

    @property
    def has_responses(self) -> bool:
        """Return whether the vectors of their segments are more than the encodings of the texts."""
        return any(segment.responses is not segment.vectors for segment in self.segments)

    def _pairs(self) -> list[tuple[Segment, int]]:
        pairs = zip(self.owners.tolist(), self.rows.tolist(), strict=True)
        return [(self.segments[owner], row) for owner, row in pairs]

    def _gathered(self, parts: Sequence[Callable[[Positions], Array]]) -> FloatArray:
        """Return what each segment's part gives for its rows; there is a row."""
        owners = np.unique(self.owners).tolist()
        if len(owners) == 1:
            return np.asarray(parts[owners[0]](self.rows))
        own = [np.flatnonzero(self.owners == owner) for owner in owners]
        pairs = zip(owners, own, strict=True)
        read = np.concatenate([parts[owner](self.rows[rows]) for owner, rows in pairs])
        return np.asarray(read[np.argsort(np.concatenate(own))])
