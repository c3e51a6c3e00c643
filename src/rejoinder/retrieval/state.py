"""One state of an index, as a search reads it, and its rows that pass a filter."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.words.word_index import WordIndex
from rejoinder.errors import InputError, shown
from rejoinder.retrieval.encoding.density import Density, read_density
from rejoinder.retrieval.options import Where
from rejoinder.stores.candidates import CandidateSearch
from rejoinder.stores.manifest import Manifest
from rejoinder.stores.rows import gone_rows
from rejoinder.stores.runs import Positions, read_runs
from rejoinder.stores.scan import Flags, Found, Rows, positions_of, search
from rejoinder.stores.segments import Segment, texts_of
from rejoinder.stores.store import Store


@dataclass(frozen=True)
class IndexState:
    """An index between two changes; a search reads one state of it."""

    store: Store
    manifest: Manifest
    segments: list[Segment]
    rows: list[Rows]  # of each segment, numbered through all segments; see `Segment.position`
    named: CandidateSearch | None  # names the candidates of an approximate search
    density: Density | None  # of the manifest's head

    @classmethod
    def of(
        cls,
        store: Store,
        manifest: Manifest,
        segments: list[Segment],
        named: CandidateSearch | None = None,
    ) -> IndexState:
        """Return the state of a manifest and its segments.

        `named` is the candidate search of the state before, which is used further if it can be.
        """
        gone = gone_rows(segments, read_runs(manifest.deleted))
        is_revised = any(segment.record.revises for segment in segments)
        end = 0
        rows: list[Rows] = []
        for segment, flags in zip(segments, gone, strict=True):
            own = Rows(end, segment.count, segment, flags, segment.record.longest)
            rows.append(replace(own, positions_of=segment.positions_of) if is_revised else own)
            end += segment.count
        built = manifest.approximate
        if built is None:
            named = None
        elif named is None or named.record != built:
            named = store.open_candidates(built)
        head = manifest.head
        # Now, since the next change may remove the head's file.
        density = None if head is None else read_density(store, head)
        return cls(store, manifest, segments, rows, named, density)

    @property
    def present(self) -> int:
        """The number of replies."""
        return sum(rows.present for rows in self.rows)

    def place(self, position: int) -> tuple[Segment, int] | None:
        """Return the segment of a reply's latest edition, and its row there; None: it has none."""
        at = np.array([position])
        location = None
        for segment in self.segments:
            record = segment.record
            if not record.first <= position < record.end or (location and not record.revises):
                continue
            if len(rows := segment.rows_at(at)):
                location = segment, int(rows[0])
        return location

    def filtered(self, where: Where | None, words: Callable[[], WordIndex]) -> FilteredRows:
        """Return the rows that pass; `words` are those of all rows, if a search asks for them."""
        rows = self.rows if where is None else self._passing(where)
        find = search if self.named is None else self.named.search
        count = sum(own.present for own in rows)
        return FilteredRows(self, rows, count, partial(find, rows), words)

    def _passing(self, where: Where) -> list[Rows]:
        """Return the rows of which those that do not pass are marked as deleted."""
        gone = [rows.gone for rows in self.rows]
        conditions: list[tuple[str, set[str]]] | None = None
        if callable(where):
            gone = [
                _failing(segment, out, where)
                for segment, out in zip(self.segments, gone, strict=True)
            ]
        elif isinstance(where, Mapping):
            conditions = [(name, texts_of(name, value)) for name, value in where.items()]
            for name, texts in conditions:
                having = [segment.having(name, texts) for segment in self.segments]
                if self.segments and all(flags is None for flags in having):
                    raise self._unknown_field(name)
                gone = [
                    out | (True if flags is None else ~flags)
                    for out, flags in zip(gone, having, strict=True)
                ]
        else:
            raise InputError(
                f"where is {shown(where)}; it is a mapping of fields to values, or a function of a "
                "candidate"
            )
        return [
            replace(rows, deleted=out, conditions=conditions, gone_before=rows.deleted)
            for rows, out in zip(self.rows, gone, strict=True)
        ]

    def _unknown_field(self, name: str) -> InputError:
        fields = frozenset[str]().union(*(segment.fields() for segment in self.segments))
        known = ", ".join(sorted(fields))[:300]
        allowed = f"the fields are {known}" if fields else "none has a payload"
        return InputError(f"{self.store}: no reply has a field {name!r}; {allowed}")


def _failing(segment: Segment, gone: Flags, where: Callable[[Candidate], bool]) -> Flags:
    """Return which rows of a segment are gone, or are of replies that a function does not pass."""
    rows = np.flatnonzero(~gone).tolist()
    replies = segment.candidates(rows)
    passing = [row for row, reply in zip(rows, replies, strict=True) if where(reply)]
    failing = np.ones(len(gone), dtype=bool)
    failing[passing] = False
    return failing


@dataclass(frozen=True)
class FilteredRows:
    """Rows of a state's segments that pass a filter, numbered through all segments."""

    state: IndexState
    rows: Sequence[Rows]  # of each segment; those that do not pass are marked as deleted
    count: int  # of those that pass
    candidates: Callable[[Sequence[FloatArray], int, float], Found]
    """Returns the best k for the vectors (m, d) of each context: by a scan, or of those named."""
    word_index: Callable[[], WordIndex]  # of all rows

    @property
    def manifest(self) -> Manifest:
        """The manifest of the state."""
        return self.state.manifest

    @property
    def density(self) -> Density | None:
        """The density of the state's head."""
        return self.state.density

    def vectors(self, numbers: Positions) -> FloatArray:
        """Return the vectors by which rows are scored: (n, d)."""
        return self._gather(numbers, [segment.vectors_of for segment in self.state.segments])

    def responses(self, numbers: Positions) -> FloatArray:
        """Return the encodings of the texts of rows: (n, d)."""
        return self._gather(numbers, [segment.responses_of for segment in self.state.segments])

    def _gather(
        self, numbers: Positions, parts: Sequence[Callable[[Positions], FloatArray]]
    ) -> FloatArray:
        firsts = [rows.first for rows in self.rows]
        if len(parts) == 1:
            return parts[0](numbers - firsts[0])
        owners = np.searchsorted(firsts, numbers, side="right") - 1
        rows_by_part = [np.flatnonzero(owners == owner) for owner in range(len(parts))]
        read = [
            part(numbers[rows] - first)
            for part, first, rows in zip(parts, firsts, rows_by_part, strict=True)
            if len(rows)
        ]
        vectors = np.concatenate(read) if read else np.zeros((0, 1), np.float32)
        return vectors[np.argsort(np.concatenate([np.zeros(0, np.int64), *rows_by_part]))]

    def read(self, number: int) -> tuple[int, Candidate]:
        """Return the position of a row's reply, and the reply."""
        owner = bisect.bisect_right(self.rows, number, key=lambda rows: rows.first) - 1
        segment = self.state.segments[owner]
        row = number - self.rows[owner].first
        return segment.position(row), segment.candidate(row)

    def positions_of(self, numbers: Positions) -> Positions:
        """Return what rows of equal scores are ordered by; see `scan.positions_of`."""
        return positions_of(self.rows, numbers)

    def words(self) -> tuple[WordIndex, Flags]:
        """Return the words of all rows, (n,), and which rows pass."""
        return self.word_index(), ~np.concatenate([rows.gone for rows in self.rows])
