"""The index: encoded replies, in a folder or in a database; see `stores.store`.

Beside the replies may be the log of their use; see `curation`.

A change writes what is new first and then replaces the manifest, at one instant: whatever
interrupts it, the index is as before or as after. Positions are never reused. Readers stay with
what they opened until they `refresh`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from rejoinder.checks import check_number
from rejoinder.conversations import Conversation
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.protocol import DualEncoder, Ranker
from rejoinder.engine import Engine
from rejoinder.errors import BusyError, InputError, shown
from rejoinder.progress import Advance, Track, no_track
from rejoinder.retrieval.calibration import why_uncalibrated
from rejoinder.retrieval.encoding.batches import as_candidates, extend, revise, rewrite
from rejoinder.retrieval.encoding.head import (
    FittedIndex,
    check_takes_examples,
    fit_index,
    needs_head,
    save_calibration,
    takes_examples,
    write_fitted,
)
from rejoinder.retrieval.encoding.scoring import read_head
from rejoinder.retrieval.reader import IndexReader
from rejoinder.stores.address import store_of
from rejoinder.stores.ann import MEASURED_ON
from rejoinder.stores.folder.store import FolderStore
from rejoinder.stores.manifest import ApproximateRecord, Manifest, Method
from rejoinder.stores.models import ModelRecord, check_encoder, model_record
from rejoinder.stores.names import CALIBRATION
from rejoinder.stores.runs import Positions
from rejoinder.stores.segments import Segment
from rejoinder.stores.store import Store
from rejoinder.stores.writing import example_count

MOST_FITTED = 2_000
"""Replies up to which `Index.edit` fits the head again, in a second or two. Above, it keeps the
head, as `Index.add` does: a change costs what the changed replies do."""
NOTHING: Positions = np.empty(0, dtype=np.int64)


def _kept(changes: Mapping[int, str | Candidate]) -> dict[int, Candidate]:
    """Return changes with replies as an index keeps them; see `batches.as_candidates`."""
    return dict(zip(changes, as_candidates(changes.values()), strict=True))


def with_questions(answers: Mapping[str, Sequence[str | Sequence[str]]]) -> list[Candidate]:
    """Return replies with the questions, or conversations, that each answers."""
    replies = []
    for text, questions in answers.items():
        if isinstance(questions, str):
            raise InputError(
                f"the reply {text[:60]!r} has one text for its questions; give a list of them"
            )
        if not isinstance(questions, Iterable):
            raise InputError(
                f"the reply {shown(text)} has {shown(questions)} for its questions;"
                " give a list of them, [] for none"
            )
        replies.append(Candidate(text, examples=tuple(questions)))  # type: ignore[arg-type]  # read as Candidates are
    return replies


def _model_record(encoder: DualEncoder, store: Store) -> ModelRecord:
    folder = store.folder if isinstance(store, FolderStore) else None
    return model_record(encoder.fingerprint, encoder.name, folder)


class Journal(Protocol):
    """A log of changes, which an index tells of each before it makes it, and afterwards."""

    def settle(self, token: str, /) -> None:
        """Finish what was announced earlier; `token` is that of the last change that was made.

        An error leaves the index as it is.
        """

    def announce(self, token: str, /) -> None:
        """Note the change that is about to be made, or raise an error, and it is not made."""

    def confirm(self, token: str, /) -> None:
        """Note that the change is made."""

    def withdraw(self, token: str, /) -> None:
        """Note that it is not made."""


class Index(IndexReader):
    """Encoded replies. Make one with `Index.build` or `Index.open`.

    Threads may share one: they search it at once, also beside a change, and changes wait for each
    other.

    >>> index = Index.build(model, ["Hello!", "At noon."], "replies.index")  # doctest: +SKIP
    >>> index.search([["When do we meet?"]], k=1)  # doctest: +SKIP
    """

    @classmethod
    def build(
        cls,
        model: Ranker,
        replies: Iterable[str | Candidate] | Mapping[str, Sequence[str | Sequence[str]]],
        place: str | Path | Store | None = None,
        *,
        batch: int = 1024,
        overwrite: bool = False,
        as_written: bool = False,
        progress: Advance | None = None,
        phases: Track = no_track,
        engine: Engine | None = None,
    ) -> Self:
        """Encode replies, `batch` at once, and write an index, whole or not at all.

        The model is one that encodes, as `rejoinder.load` opens. A mapping has the questions, or
        conversations, that each reply answers. `place` is a folder, or the address of a database;
        without one the index is in a temporary folder, which goes when nobody has the index any
        more.

        Canned replies are encoded without salutation, placeholders and the like
        (`templates.plain`), unless `as_written`; their texts come back untouched. Titles and
        examples, and sentences of long replies (`head.ANSWER_WORDS`), count if the model gives a
        conversation one vector; see `scoring`.

        Workers of an `engine` open the model by its name and encode; None encodes here. `progress`
        gets the number of replies just encoded; `phases` (`progress.track`) shows what follows.

        Raises:
            InputError: `place` is taken, a payload is not JSON, the model's vectors are not unit
                vectors.
        """
        encoder = check_encoder(model)
        entries = with_questions(replies) if isinstance(replies, Mapping) else replies
        with contextlib.ExitStack() as stack:
            if place is None:
                # Windows removes no file that a snapshot has open.
                temporary = tempfile.TemporaryDirectory(
                    prefix="rejoinder-", ignore_cleanup_errors=True
                )
                place = Path(stack.enter_context(temporary), "index")
            store = store_of(place)
            empty = Manifest(_model_record(encoder, store), plain=not as_written)
            with store.create(overwrite=overwrite) as part:
                manifest = extend(empty, part, encoder, entries, batch, progress, engine)
                write_fitted(part, manifest, encoder, phases)
            index = cls.open(store, encoder, verify=False)
            weakref.finalize(index, stack.pop_all().close)
        return index

    def add(
        self,
        replies: Iterable[str | Candidate],
        *,
        batch: int = 1024,
        progress: Advance | None = None,
        engine: Engine | None = None,
        journal: Journal | None = None,
    ) -> range:
        """Add replies, all or none; return their positions. See `build` and `delete`."""
        encoder = self._model()
        with self._change(journal):
            first = self.manifest.end
            old = self._segments
            record = self.manifest.head
            fitted = None
            head = None if record is None else read_head(self.store, record)
            manifest = extend(
                self.manifest, self.store, encoder, replies, batch, progress, engine, old, head
            )
            if manifest != self.manifest:
                segments = self._opened(manifest)
                is_first = manifest.examples > 0 and not self.manifest.examples
                if is_first and takes_examples(encoder):
                    fitted = fit_index(self.store, manifest, segments, encoder)
                    manifest = fitted.manifest
                    segments = [self._open_new(manifest)]
                self._set(self._replace_manifest(manifest, journal), segments)
                self._tidy_up(fitted)
            return range(first, manifest.end)

    def delete(self, positions: Iterable[int], *, journal: Journal | None = None) -> int:
        """Delete replies by their positions, all or none; return how many.

        The other positions stay as they are. A `journal` is told of the change.

        Raises:
            InputError: there is no reply at one of them, or the index was changed by somebody else
                since it was opened.
        """
        with self._change(journal):
            before = self.manifest
            chosen = np.unique(np.array(self._known(positions, before), dtype=np.int64))
            self._refuse_gone(chosen, before)
            manifest = self._replace_manifest(before.without(chosen), journal)
            self._set(manifest, self._segments)
        return len(chosen)

    def edit(
        self,
        changes: Mapping[int, str | Candidate],
        deleted: Iterable[int] = (),
        restored: Mapping[int, str | Candidate] | None = None,
        *,
        journal: Journal | None = None,
    ) -> None:
        """Change, delete and bring back replies at some positions, all or nothing.

        `curation.editing.Editor` does so by name, and writes it to the log.

        An index of up to `MOST_FITTED` replies is fitted again. A larger one stays as it was
        fitted, and the changed replies are written beside their earlier editions, which `compact`
        removes.

        Raises:
            InputError: there is no reply at a position, or somebody else has changed the index.
        """
        with self._threads:
            manifest = self.manifest
            gone = np.unique(np.array(self._known(deleted, manifest), dtype=np.int64))
            changed = self._known(changes, manifest)
            self._refuse_gone(np.array([*changed, *gone.tolist()], dtype=np.int64), manifest)
            self._known(restored or (), manifest)
            new = _kept({**changes, **(restored or {})})
            if new and (len(self) <= MOST_FITTED or self._has_first_examples(new)):
                self._refit(new, gone, journal)
            elif new:
                self._revise(new, gone, journal)
            elif len(gone):
                self.delete(gone.tolist(), journal=journal)

    def fit(self, changes: Mapping[int, str | Candidate] | None = None) -> None:
        """Fit the head again, to all replies as they are now, and write them anew.

        Before, `changes` take the place of replies at some positions; see `edit`. Without any, an
        index whose scores would be the same stays as it is, with a calibration that holds.
        """
        check_takes_examples(self._model())
        with self._threads:
            manifest = self.manifest
            changed = np.array(self._known(changes or (), manifest), dtype=np.int64)
            self._refuse_gone(changed, manifest)
            if changes or not self._is_fitted():
                self._refit(_kept(changes or {}))

    def _is_fitted(self) -> bool:
        """Return whether a fit would leave the scores and the calibration as they are.

        Without a head it would if none is needed. A head is of all replies while they are as
        `fit_index` wrote them: one segment, neither compacted nor searched approximately.
        """
        manifest = self.manifest
        head = manifest.head
        if head is None:
            count = sum(example_count(reply) for _, reply in self)
            return not needs_head(count, (reply for _, reply in self), self._model())
        if len(manifest.segments) != 1 or manifest.deleted or manifest.same_as:
            return False
        if manifest.approximate is not None or head.density_end not in (0, manifest.end):
            return False
        is_calibratable = head.held_out or self.store.has_file(CALIBRATION)
        return not is_calibratable or why_uncalibrated(self) is None

    def _has_first_examples(self, changes: Mapping[int, Candidate]) -> bool:
        """Return whether changes have the index's first titles and examples: they need a head."""
        if self.manifest.head is not None and self.manifest.examples:
            return False
        return any(map(example_count, changes.values())) and takes_examples(self._model())

    def _revise(
        self, changes: Mapping[int, Candidate], deleted: Positions, journal: Journal | None
    ) -> None:
        encoder = self._model()
        with self._change(journal):
            record = self.manifest.head
            head = None if record is None else read_head(self.store, record)
            manifest = self.manifest.without(deleted) if len(deleted) else self.manifest
            manifest = manifest.restoring(np.array(sorted(changes), dtype=np.int64))
            manifest = revise(manifest, self.store, encoder, changes, self._segments, head)
            segments = self._opened(manifest)
            self._set(self._replace_manifest(manifest, journal), segments)
            self._tidy_up()

    @functools.cached_property
    def _remembering(self) -> DualEncoder:
        """The model, which encodes once for all changes what replies answer, and keeps it."""
        return self._model().with_cache()

    def _refit(
        self,
        changes: Mapping[int, Candidate],
        deleted: Positions = NOTHING,
        journal: Journal | None = None,
    ) -> None:
        encoder = self._remembering if len(self) <= MOST_FITTED else self._model()
        with self._change(journal):
            manifest = self.manifest.without(deleted) if len(deleted) else self.manifest
            fitted = fit_index(self.store, manifest, self._segments, encoder, changes)
            segment = self._open_new(fitted.manifest)
            self._set(self._replace_manifest(fitted.manifest, journal), [segment])
            self._tidy_up(fitted)

    def compact(self, *, batch: int = 1024, progress: Advance | None = None) -> int:
        """Write all segments as one, without what was deleted or changed, all or nothing.

        Return how many replies' data went; an earlier edition of a reply counts as one.

        Positions and answers stay what they were, and so does a calibration. The files are compared
        with their digests first. `progress` gets the number of replies just copied.
        """
        with self._change():
            old = self.manifest
            if len(old.segments) > 1 or old.deleted:
                empty = Manifest(
                    old.model, size=old.size, head=old.head, plain=old.plain, change=old.change
                )
                new = rewrite(empty, self.store, self._segments, old, None, batch, progress)
                new = replace(new, same_as=old.fingerprint)
                segment = self._open_new(new)
                self._set(self._replace_manifest(new), [segment])
                self._tidy_up()
            return sum(record.count for record in old.segments) - len(self)

    def reencode(
        self,
        model: Ranker,
        place: str | Path | Store,
        *,
        batch: int = 1024,
        overwrite: bool = False,
        progress: Advance | None = None,
        engine: Engine | None = None,
    ) -> Self:
        """Write an index of the same replies, at their positions, with another model; see `build`.

        A calibration does not come along: it is of this model's scores.

        """
        store = store_of(place)
        if store.is_same(self.store):
            raise InputError(
                f"{store} is the index itself; write beside it, and let that take its place"
            )
        encoder = check_encoder(model)
        empty = Manifest(_model_record(encoder, store), plain=self.manifest.plain)
        with store.create(overwrite=overwrite) as part:
            old = self.manifest
            manifest = rewrite(empty, part, self._segments, old, encoder, batch, progress, engine)
            write_fitted(part, manifest, encoder)
        return type(self).open(store, encoder, verify=False)

    def approximate(
        self,
        recall: float = 0.95,
        contexts: Sequence[Conversation] | None = None,
        *,
        method: Method | None = None,
        track: Track = no_track,
    ) -> ApproximateRecord:
        """Let searches be approximate from now on: by a file of FAISS, or by a database's index.

        Args:
            recall: wanted share, on the average, of the `tuning.MEASURED_AT` best replies of an
                exact search.
            contexts: conversations as those that will be searched for. With half of them the search
                is tuned to the `recall`, on the others it is measured. None: texts of the replies,
                each as a message.
            method: "hnsw", "ivf" or "scan"; None: the graph, or above `ann.MOST_IN_GRAPH` replies
                the clusters.
            track: shows the progress.

        Raises:
            InputError: the recall is not above 0 and at most 1, there are fewer than two replies or
                contexts, a context has too many vectors for a scan, or FAISS is missing.
        """
        check_number("recall", recall, "it goes from above 0 to 1", math.ulp(0), 1)
        self.store.check_candidates()
        if contexts is None:
            step = len(self) // MEASURED_ON + 1
            contexts = [[candidate.text] for _, candidate in itertools.islice(self, 0, None, step)]
        if min(len(self), len(contexts)) < 2:
            raise InputError(
                f"{self.store}: {len(self)} replies and {len(contexts)} contexts; it needs two of "
                "each"
            )
        vectors = self.encode_contexts(contexts)
        with self._change():
            try:
                record = self.store.build_candidates(
                    self._state.rows, vectors, recall, method, track
                )
                self._replace_file(record)
            finally:
                self._tidy_up()
        return record

    def exact(self) -> None:
        """Let searches be exact again."""
        with self._change():
            self._replace_file(None)
            self._tidy_up()

    def _open_new(self, manifest: Manifest, number: int = 0) -> Segment:
        """Open a segment that was just written."""
        return self.store.open_segment(manifest, number, verify=False)

    def _opened(self, manifest: Manifest) -> list[Segment]:
        """Return the segments of a manifest, of which one was just written."""
        known = {segment.record.name: segment for segment in self._segments}
        segments = []
        for number, record in enumerate(manifest.segments):
            segment = known.get(record.name)
            if segment is None or segment.record != record:
                segment = self._open_new(manifest, number)
            segments.append(segment)
        return segments

    def _replace_file(self, record: ApproximateRecord | None) -> None:
        manifest = replace(self.manifest, approximate=record, same_as="")
        self._set(self._replace_manifest(manifest), self._segments)

    @contextlib.contextmanager
    def _change(self, journal: Journal | None = None) -> Iterator[None]:
        """Keep others from changing the index; this one must have its latest state."""
        with self._threads, self.store.lock():
            if self.store.read_manifest().fingerprint != self.fingerprint:
                raise BusyError(
                    f"{self.store} was changed by somebody else since it was opened; open it again"
                )
            if journal is not None:  # before anything is encoded: the log may refuse
                journal.settle(self.manifest.change)
            self.store.sweep(self.manifest)
            yield

    def _replace_manifest(self, manifest: Manifest, journal: Journal | None = None) -> Manifest:
        """Put a manifest in the place of the one on the disk, which makes a change; return it."""
        if journal is None:
            self.store.write_manifest(manifest)
            return manifest
        manifest = replace(manifest, change=os.urandom(8).hex())
        journal.announce(manifest.change)
        try:
            self.store.write_manifest(manifest)
        except BaseException:
            if not self._is_on_disk(manifest):
                journal.withdraw(manifest.change)
                raise
        journal.confirm(manifest.change)
        return manifest

    def _is_on_disk(self, manifest: Manifest) -> bool:
        try:
            return self.store.read_manifest().change == manifest.change
        except (InputError, OSError):
            return False

    def _tidy_up(self, fitted: FittedIndex | None = None) -> None:
        """Do what may fail after a change is made: the next change does it then."""
        with contextlib.suppress(InputError, OSError):
            self.store.sweep(self.store.read_manifest())
        with contextlib.suppress(OSError):
            if fitted is not None:
                save_calibration(self.store, fitted)
