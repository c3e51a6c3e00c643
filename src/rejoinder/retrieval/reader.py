"""Reading an index: its segments, and the replies that pass a filter."""

from __future__ import annotations

import bisect
import heapq
import operator
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.checks import check_count
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.protocol import DualEncoder, Ranker
from rejoinder.encoders.words.word_index import Postings, WordIndex
from rejoinder.errors import InputError, NotFoundError, shown
from rejoinder.retrieval.encoding.density import Density, read_density
from rejoinder.retrieval.encoding.scoring import read_head
from rejoinder.retrieval.index_speller import IndexSpeller
from rejoinder.retrieval.options import Where
from rejoinder.retrieval.replies import Reply
from rejoinder.retrieval.search import Searcher
from rejoinder.retrieval.thread_lock import ThreadLock
from rejoinder.stores.address import store_of
from rejoinder.stores.ann import SMALL
from rejoinder.stores.candidates import CandidateSearch
from rejoinder.stores.folder.store import FolderStore
from rejoinder.stores.manifest import Manifest
from rejoinder.stores.models import check_encoder, check_model
from rejoinder.stores.rows import gone_rows
from rejoinder.stores.runs import Positions, are_in, read_runs
from rejoinder.stores.scan import Flags, Found, Rows, positions_of, search
from rejoinder.stores.segments import Segment, texts_of
from rejoinder.stores.store import Store
from rejoinder.text.spelling import Speller

_TRIES = 50  # how often an index that somebody is changing is tried, and seconds in between
_PAUSE = 0.02
_LISTED_AT_ONCE = 1 << 12


@dataclass(frozen=True)
class IndexState:
    """An index between two changes; a search reads one state of it."""

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
        return cls(manifest, segments, rows, named, density)

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


@dataclass(frozen=True)
class FilteredSegments:
    """Rows of a state's segments that pass a filter, numbered through all segments.

    It fulfils `replies.FilteredState`.
    """

    state: IndexState
    rows: Sequence[Rows]  # of each segment; those that do not pass are marked as deleted
    count: int  # rows that pass
    candidates: Callable[[Sequence[FloatArray], int, float], Found]  # by a scan, or those named
    word_index: Callable[[], WordIndex]  # of all rows

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments of the state."""
        return self.state.segments

    @property
    def manifest(self) -> Manifest:
        """The manifest of the state."""
        return self.state.manifest

    @property
    def density(self) -> Density | None:
        """The density of the state's head."""
        return self.state.density

    def vectors(self, numbers: Positions) -> FloatArray:
        """Return the vectors of rows: (n, d)."""
        return self._gather(numbers, [segment.vectors_of for segment in self.segments])

    def responses(self, numbers: Positions) -> FloatArray:
        """Return the encodings of the texts of rows: (n, d)."""
        return self._gather(numbers, [segment.responses_of for segment in self.segments])

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

    def reply(self, number: int, score: float) -> Reply:
        """Return the reply of a row with its score."""
        owner = bisect.bisect_right(self.rows, number, key=lambda rows: rows.first) - 1
        segment = self.segments[owner]
        row = number - self.rows[owner].first
        candidate = segment.candidate(row)
        return Reply.of(candidate, score, segment.position(row))

    def positions_of(self, numbers: Positions) -> Positions:
        """Return what rows of equal scores are ordered by; see `scan.positions_of`."""
        return positions_of(self.rows, numbers)

    def words(self) -> tuple[WordIndex, Flags]:
        """Return the words of all rows, and which rows pass."""
        return self.word_index(), ~np.concatenate([rows.gone for rows in self.rows])


def open_segments(
    store: Store,
    encoder: DualEncoder | None,
    verify: bool | None,
    known: Mapping[str, Segment] | None = None,
) -> tuple[Manifest, list[Segment]]:
    """Read the manifest of an index, which somebody may be changing, and open its segments.

    Except those that are `known` by their names and still the same.
    """
    for _ in range(_TRIES):
        manifest = None
        stamp = store.stamp()
        try:
            manifest = store.read_manifest()
            if encoder is not None:
                check_model(store, manifest.model, encoder)
            segments = _open_all(store, manifest, verify, known or {})
            if stamp == store.stamp():
                return manifest, segments
        except (InputError, FileNotFoundError, PermissionError):
            # Windows opens no file that is just being replaced.
            if not store.is_changing(manifest):
                raise
        time.sleep(_PAUSE)  # retry with the new manifest
    store.read_manifest()  # which says so if the index was moved away while somebody changed it
    raise InputError(f"{store} kept changing while it was opened; try again")


def _by_name(index: IndexReader | None) -> dict[str, Segment]:
    return {} if index is None else {segment.record.name: segment for segment in index._segments}


def _open_all(
    store: Store, manifest: Manifest, verify: bool | None, known: Mapping[str, Segment]
) -> list[Segment]:
    total = sum(record.bytes for record in manifest.segments)
    check = total <= SMALL if verify is None else verify
    segments: list[Segment] = []
    for number, record in enumerate(manifest.segments):
        segment = known.get(record.name)
        if segment is None or segment.record != record:
            segment = store.open_segment(manifest, number, verify=check)
        else:
            segment.check(content=False)
        segments.append(segment)
    if verify and manifest.head:
        read_head(store, manifest.head)
    if manifest.head:
        read_density(store, manifest.head)  # which a change of the index may remove later
    if verify and manifest.approximate:
        store.open_candidates(manifest.approximate).check(content=True)
    return segments


def _places(segment: Segment, chosen: Flags, first: int) -> Iterator[tuple[int, Segment, int]]:
    """Yield positions of chosen rows, from the first on, with the segment and the row."""
    rows = np.flatnonzero(chosen)
    rows = rows[np.searchsorted(segment.positions_of(rows), first) :]
    for start in range(0, len(rows), _LISTED_AT_ONCE):
        own = rows[start : start + _LISTED_AT_ONCE]
        for position, row in zip(segment.positions_of(own).tolist(), own.tolist(), strict=True):
            yield position, segment, row


class IndexReader(Searcher):
    """An index as it was opened, or at its last `refresh`."""

    def __init__(
        self, store: Store, manifest: Manifest, segments: list[Segment], encoder: DualEncoder | None
    ) -> None:
        self.store = store
        self.encoder = encoder
        self._counted: tuple[IndexState, WordIndex] | None = None  # the words of a state
        self._postings: dict[Segment, Postings] = {}  # of the segments that the last one had
        self._speller = IndexSpeller()
        self._stamp: Hashable = None  # of the store when `refresh` read it
        self._threads = ThreadLock()  # of those that change it
        self._state = IndexState.of(store, manifest, segments)

    @property
    def manifest(self) -> Manifest:
        """The manifest of the index as it is now."""
        return self._state.manifest

    @property
    def _segments(self) -> list[Segment]:
        return self._state.segments

    @classmethod
    def open(
        cls,
        place: str | Path | Store,
        encoder: Ranker | None = None,
        *,
        verify: bool | None = None,
        like: IndexReader | None = None,
    ) -> Self:
        """Open an index: a folder, or the address of a database.

        Without an `encoder` it opens the model it was built with when that is needed.

        `verify` compares the content of files with their digests, not their sizes alone; None: of
        small indexes.

        `like` is the same index, opened earlier; what has not changed since is shared.

        Raises:
            InputError: there is no index, a file is missing, truncated or altered, or the index is
                of another model.
        """
        store = store_of(place)
        own = None if encoder is None else check_encoder(encoder)
        manifest, segments = open_segments(store, own, verify, _by_name(like))
        return cls(store, manifest, segments, own)

    @property
    def folder(self) -> Path:
        """The folder of the index; InputError where it is in a database."""
        if isinstance(self.store, FolderStore):
            return self.store.folder
        raise InputError(f"{self.store} is a database, not a folder")

    def refresh(self) -> bool:
        """Take over what others have changed since; return whether they have.

        Only what is new is opened.

        Where nothing has changed this takes microseconds. Searches may run meanwhile in other
        threads, changes may not.

        Raises:
            InputError: the index was built again with another model, or is damaged; this one stays
                as it was.
        """
        stamp = self.store.stamp()
        if stamp and stamp == self._stamp:
            return False
        manifest, segments = open_segments(self.store, self.encoder, None, _by_name(self))
        changed = manifest != self.manifest
        if changed:
            self._set(manifest, segments)
        self._stamp = stamp
        return changed

    def try_refresh(self) -> Exception | None:
        """Take over what others have changed since; return what kept it from being opened, if any.

        This one stays as it was then, and goes on answering. See `refresh`.
        """
        try:
            self.refresh()
        except (InputError, OSError) as error:
            return error
        return None

    def __len__(self) -> int:
        return self._state.present

    def candidates(
        self, first: int = 0, *, deleted: bool = False
    ) -> Iterator[tuple[int, Candidate]]:
        """Yield positions, ascending from `first` on, and their replies.

        With `deleted` those that were deleted, and earlier editions of those that were changed, as
        long as the files hold them.
        """
        check_count("first", first, 0)
        state = self._state
        places = [
            _places(segment, rows.gone == deleted, first)
            for segment, rows in zip(state.segments, state.rows, strict=True)
        ]
        for position, segment, row in heapq.merge(*places, key=operator.itemgetter(0)):
            yield position, segment.candidate(row)

    def snapshot(self) -> IndexReader:
        """Return the index as it is now: what `refresh` and changes do does not reach it."""
        state = self._state
        return IndexReader(self.store, state.manifest, state.segments, self.encoder)

    def candidate(self, position: int, *, deleted: bool = False) -> Candidate:
        """Return the reply at a position.

        Args:
            position: of the reply.
            deleted: return also one that was deleted, as long as the files hold it.

        Raises:
            InputError: there is none, or it was deleted.
        """
        state = self._state
        known = np.array(self._known([position], state.manifest), dtype=np.int64)
        location = state.place(position)
        if location is None or not deleted:
            self._refuse_gone(known, state.manifest)
        assert location is not None
        segment, row = location
        return segment.candidate(row)

    def vectors(self, positions: Iterable[int], *, of_texts: bool = False) -> FloatArray:
        """Return the vectors of the replies at some positions, float32 (n, d).

        `of_texts`: the encodings of their texts alone.
        """
        state = self._state
        known = self._known(positions, state.manifest)
        self._refuse_gone(np.array(known, dtype=np.int64), state.manifest)
        rows = [_row(state, position, responses=of_texts) for position in known]
        return np.stack(rows) if rows else np.zeros((0, state.manifest.size), np.float32)

    @property
    def model(self) -> DualEncoder:
        """The index's model, which is opened when it is needed."""
        return self._model()

    def facts(self) -> Mapping[str, object]:
        """Return the folder or database, the number of replies, their size and the model."""
        state = self._state
        manifest = state.manifest
        model = manifest.model.name or manifest.model.fingerprint[:12]
        kind = "folder" if isinstance(self.store, FolderStore) else "database"
        return {
            kind: str(self.store),
            "replies": state.present,
            "size": manifest.size,
            "model": model,
        }

    def _set(self, manifest: Manifest, segments: list[Segment]) -> None:
        """Take over a manifest and its segments; a search that runs stays with the state before."""
        self._state = IndexState.of(self.store, manifest, segments, self._state.named)

    def _filter(self, where: Where | None) -> FilteredSegments:
        state = self._state
        rows = state.rows if where is None else self._passing_rows(state, where)
        find = search if state.named is None else state.named.search
        count = sum(own.present for own in rows)
        return FilteredSegments(
            state, rows, count, partial(find, rows), partial(self._words, state)
        )

    def _passing_rows(self, state: IndexState, where: Where) -> list[Rows]:
        """Return the rows of a state of which those that do not pass are marked as deleted."""
        gone = [rows.gone for rows in state.rows]
        conditions: list[tuple[str, set[str]]] | None = None
        if callable(where):
            for i, segment in enumerate(state.segments):
                gone[i] = np.array(
                    [out or not where(segment.candidate(row)) for row, out in enumerate(gone[i])]
                )
        elif isinstance(where, Mapping):
            conditions = [(name, texts_of(name, value)) for name, value in where.items()]
            for name, texts in conditions:
                having = [segment.having(name, texts) for segment in state.segments]
                if state.segments and all(flags is None for flags in having):
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
            for rows, out in zip(state.rows, gone, strict=True)
        ]

    def _unknown_field(self, name: str) -> InputError:
        fields = sorted({field for _, candidate in self for field in candidate.payload})
        known = f"the fields are {', '.join(fields)[:300]}" if fields else "none has a payload"
        return InputError(f"{self.store}: no reply has a field {name!r}; {known}")

    def _words(self, state: IndexState) -> WordIndex:
        """Return the words of all replies of a state, counted over those that are there."""
        counted = self._counted
        if counted is None or counted[0] is not state:
            known = self._postings
            postings = {
                segment: known.get(segment) or Postings(line.text for line in segment.lines())
                for segment in state.segments
            }
            gone = [rows.deleted for rows in state.rows]
            counted = state, WordIndex(list(zip(postings.values(), gone, strict=True)))
            self._postings = postings
            self._counted = counted
        return counted[1]

    def _make_speller(self) -> Speller:
        """Return what corrects messages, by the words of the replies, titles and examples."""
        state = self._state
        return self._speller.of(state.manifest, state.segments, state.rows)

    def _known(self, positions: Iterable[int], manifest: Manifest) -> list[int]:
        """Return positions as a list; one that no reply of a manifest had is an InputError."""
        if not isinstance(positions, Iterable):
            raise InputError(f"give a list of positions; given: {shown(positions)}")
        known = list(positions)
        for position in known:
            check_count("a position", position, 0)
            if position >= manifest.end:
                last = manifest.end - 1
                raise NotFoundError(
                    f"{self.store} has no reply {position}; its positions go from 0 to {last}"
                )
        return known

    def _refuse_gone(self, positions: Positions, manifest: Manifest) -> None:
        if len(gone := positions[are_in(positions, manifest.gone)]):
            raise NotFoundError(f"reply {gone[0]} of {self.store} was deleted before")


def _row(state: IndexState, position: int, *, responses: bool) -> FloatArray:
    """Return the vector, (d,), of the reply at a position, or the encoding of its text."""
    location = state.place(position)
    assert location is not None
    segment, row = location
    rows = np.array([row])
    return np.asarray((segment.responses_of if responses else segment.vectors_of)(rows)[0])
