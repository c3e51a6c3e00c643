"""An index that is read: opened, followed when others change it, listed."""

from __future__ import annotations

import heapq
import operator
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.checks import check_count
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.protocol import DualEncoder, Ranker
from rejoinder.errors import InputError, NotFoundError, shown
from rejoinder.retrieval.encoding.density import read_density
from rejoinder.retrieval.encoding.scoring import read_head
from rejoinder.retrieval.search import Searcher
from rejoinder.retrieval.state import IndexState
from rejoinder.retrieval.thread_lock import ThreadLock
from rejoinder.stores.address import store_of
from rejoinder.stores.ann import SMALL
from rejoinder.stores.folder.store import FolderStore
from rejoinder.stores.manifest import Manifest
from rejoinder.stores.models import check_encoder, check_model
from rejoinder.stores.runs import Positions, are_in
from rejoinder.stores.scan import Flags
from rejoinder.stores.segments import AT_ONCE, Segment
from rejoinder.stores.store import Store

_TRIES = 50  # how often an index that somebody is changing is tried, and seconds in between
_PAUSE = 0.02


def open_segments(
    store: Store,
    encoder: DualEncoder | None,
    verify: bool | None,
    known: Mapping[str, Segment] | None = None,
) -> tuple[Manifest, list[Segment]]:
    """Read the manifest of an index, which somebody may be changing, and open its segments.

    Except those that are `known` by their names and still the same.
    """
    for left in reversed(range(_TRIES)):
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
            if not left or not store.is_changing(manifest):
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


def _chosen(segment: Segment, chosen: Flags, first: int) -> Iterator[tuple[int, Candidate]]:
    """Yield positions of chosen rows, from the first on, with their replies."""
    rows = np.flatnonzero(chosen)
    rows = rows[np.searchsorted(segment.positions_of(rows), first) :]
    for start in range(0, len(rows), AT_ONCE):
        own = rows[start : start + AT_ONCE]
        replies = segment.candidates(own.tolist())
        yield from zip(segment.positions_of(own).tolist(), replies, strict=True)


class IndexReader(Searcher):
    """An index as it was opened, or at its last `refresh`."""

    def __init__(
        self, store: Store, manifest: Manifest, segments: list[Segment], encoder: DualEncoder | None
    ) -> None:
        super().__init__(IndexState.of(store, manifest, segments), encoder)
        self._stamp: Hashable = None  # of the store when `refresh` read it
        self._threads = ThreadLock()  # of those that change it

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

    def __iter__(self) -> Iterator[tuple[int, Candidate]]:
        return self.candidates()

    def candidates(
        self, first: int = 0, *, deleted: bool = False
    ) -> Iterator[tuple[int, Candidate]]:
        """Yield positions, ascending from `first` on, and their replies.

        With `deleted` those that were deleted, and earlier editions of those that were changed, as
        long as the files hold them.
        """
        check_count("first", first, 0)
        state = self._state
        lists = [
            _chosen(segment, rows.gone == deleted, first)
            for segment, rows in zip(state.segments, state.rows, strict=True)
        ]
        yield from heapq.merge(*lists, key=operator.itemgetter(0))

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
