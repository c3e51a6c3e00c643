"""The index: a folder of encoded replies, searched exactly.

    manifest.json                the model, the files with their digests, the positions that are gone
    segment-000000000000/        what was written at once; `add` writes another one
        replies.jsonl            texts and payloads
        offsets.i64              where each reply begins
        vectors.f32              exact vectors
        codes.*, scales.f32, errors.f32   what the scan reads instead (float16, int8)

A change writes new files first and then replaces the manifest, at one instant: whatever interrupts it, the index is
as before or as after. Positions are never given twice.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.engine import Engine
from rejoinder.errors import InputError
from rejoinder.files import Kind, atomic_folder, beside, check_replaceable, is_ours, locked, remove_leftovers
from rejoinder.progress import Advance
from rejoinder.ranker import Context, ContextVectors, FloatArray
from rejoinder.retrieval.candidates import Candidate
from rejoinder.retrieval.codes import DTYPES, Dtype, check_rows
from rejoinder.retrieval.encoding import ResponseEncoder, batches, check_model, has_unit_vectors, write_segment
from rejoinder.retrieval.manifest import KIND, MANIFEST, Manifest, ModelRecord, read_manifest
from rejoinder.retrieval.poly_search import search_poly
from rejoinder.retrieval.scan import Rows, search
from rejoinder.retrieval.segments import FILES, Segment

FOLDER = Kind(
    "an index",
    MANIFEST,
    lambda manifest: manifest["kind"] == KIND,
    # Earlier versions kept a lock there; what ends in .part is a killed process's.
    (MANIFEST, "lock", ".*.part", *(f"{place}/{name}" for place in ("segment-*", ".segment-*.part") for name in FILES)),
)
_TRIES, _PAUSE = 50, 0.02
"""How often `Index.open` tries to open an index that somebody is changing, and seconds in between."""
SMALL = 32 << 20
"""Bytes up to which `Index.open` compares the content of all files with their digests: a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of an index.

    Attributes:
        text: what to say.
        score: cosine of its encoding and the context's, or whatever else the model's score is.
        position: its number in the input, from 0; the same whatever was added or deleted since.
        payload: whatever other fields its input had.
    """

    text: str
    score: float
    position: int
    payload: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The reply as JSON types."""
        return {"text": self.text, "score": self.score, "position": self.position, "payload": dict(self.payload)}


class Index:
    """Encoded replies on disk. Make one with `Index.build` or `Index.open`.

    >>> index = Index.build(model, ["Hello!", "At noon."], "replies.index", dtype="int8")  # doctest: +SKIP
    >>> index.search([["When do we meet?"]], k=1)                                          # doctest: +SKIP
    """

    def __init__(
        self, folder: Path, manifest: Manifest, segments: list[Segment], encoder: ResponseEncoder | None
    ) -> None:
        self.folder = folder
        self.encoder = encoder
        self._set(manifest, segments)

    @classmethod
    def build(
        cls,
        encoder: ResponseEncoder,
        replies: Iterable[str | Candidate],
        folder: str | Path,
        *,
        dtype: Dtype = "float32",
        batch: int = 1024,
        overwrite: bool = False,
        progress: Advance | None = None,
        engine: Engine | None = None,
    ) -> Self:
        """Encode replies and write an index, whole or not at all.

        Args:
            encoder: the model.
            replies: texts, or texts with payloads; read one batch at a time.
            folder: where to.
            dtype: what the scan reads: float32, float16 (half the memory) or int8 (a quarter; the fastest where the
                processor has 8-bit products). The answers are the same, exact ones: the exact vectors lie beside on
                the disk, and only the few rows that may be among the best are read from them.
            batch: replies encoded at once.
            overwrite: replace an index that is there.
            progress: called with the number of replies just encoded.
            engine: its workers open the model by its name and encode; None encodes here.

        Raises:
            InputError: `folder` is taken, `dtype` is unknown, a payload is no JSON, the model's vectors are not unit
                vectors.
        """
        folder = Path(folder)
        if dtype not in DTYPES:
            raise InputError(f"dtype {dtype!r}: an index holds {', '.join(DTYPES)}")
        check_target(folder, overwrite=overwrite)
        manifest = Manifest(ModelRecord.of(encoder.fingerprint, encoder.name, folder), dtype)
        with atomic_folder(folder, FOLDER, overwrite=overwrite) as part:
            manifest = _extended(manifest, part, encoder, batches(replies, batch), progress, engine)
            manifest.write(part)
        return cls.open(folder, encoder, verify=False)

    @classmethod
    def open(cls, folder: str | Path, encoder: ResponseEncoder | None = None, *, verify: bool | None = None) -> Self:
        """Open an index.

        Args:
            folder: where it is.
            encoder: the model it was built with; without it the index can be listed and entries can be deleted.
            verify: compare the content of all files with their digests; None does so for small indexes. The sizes of
                the files are compared always.

        Raises:
            InputError: there is no index, a file is missing, truncated or altered, or the index is of another model.
        """
        folder = Path(folder)
        for _ in range(_TRIES):
            manifest = None
            try:
                manifest = read_manifest(folder)
                if encoder is not None:
                    check_model(folder, manifest.model, encoder)
                total = sum(size for record in manifest.segments for size, _ in record.files.values())
                check = total <= SMALL if verify is None else verify
                segments = [_open_segment(folder, manifest, i, verify=check) for i in range(len(manifest.segments))]
                if manifest == read_manifest(folder):
                    return cls(folder, manifest, segments, encoder)
            except (InputError, FileNotFoundError):
                if not _is_changing(folder, manifest):
                    raise
            time.sleep(_PAUSE)  # it was replaced while it was opened; the new one is as good
        raise InputError(f"{folder} is being changed all the time; try again")

    def __len__(self) -> int:
        """Number of replies."""
        return int(self.manifest.end - len(self._deleted))

    def __iter__(self) -> Iterator[tuple[int, Candidate]]:
        """All replies with their positions, in order."""
        for segment, rows in zip(self._segments, self._rows, strict=True):
            for row in range(segment.record.count):
                if rows.alive is None or rows.alive[row]:
                    yield segment.record.first + row, segment.candidate(row)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the model's fingerprint and of the content of all replies and vectors."""
        return self.manifest.fingerprint

    def verify(self) -> None:
        """Compare the content of all files with their digests.

        Raises:
            InputError: names the first file that is missing, truncated or altered.
        """
        for segment in self._segments:
            segment.check_files(content=True)

    def search(
        self, contexts: Sequence[Context], k: int = 5, minimum_score: float | None = None
    ) -> list[list[Reply]]:
        """The best replies to each context: the exact ones, whatever the form of the vectors.

        Args:
            contexts: conversations, each a list of messages, oldest first.
            k: how many; fewer are given where the index holds fewer.
            minimum_score: leave out replies whose score is below.

        Returns:
            For each context its replies, best first; equal scores in the order of their positions.
        """
        queries = self._model().encode_contexts(contexts)
        return self.search_vectors(queries, k, minimum_score)

    def search_vectors(
        self, queries: FloatArray | ContextVectors, k: int = 5, minimum_score: float | None = None
    ) -> list[list[Reply]]:
        """The same as `search` for contexts that the index's model has encoded already: (n, d), or a poly-encoder's.

        Several vectors a context, (n, m, d), are attended over by every reply (`poly_search.py`).
        """
        if k < 1:
            raise InputError(f"k is {k}; ask for at least one reply")
        if not len(self):
            return [[] for _ in range(len(queries))]
        minimum = -np.inf if minimum_score is None else minimum_score
        k = min(k, len(self))
        if not isinstance(queries, ContextVectors) and queries.ndim == 3:
            queries = ContextVectors(queries)
        if isinstance(queries, ContextVectors):
            found = search_poly(self._rows, queries, k, minimum)
        else:
            unit = self.encoder is None or has_unit_vectors(self.encoder)
            rows = check_rows(queries, "context", unit=unit)
            if rows.shape[1] != self.manifest.size:
                size = self.manifest.size
                raise InputError(f"queries of size {rows.shape[1]}; the vectors of {self.folder} have {size}")
            found = search(self._rows, rows, k, minimum)
        return [
            [self._reply(int(position), float(score)) for position, score in zip(positions, scores, strict=True)]
            for positions, scores in found
        ]

    def add(
        self,
        replies: Iterable[str | Candidate],
        *,
        batch: int = 1024,
        progress: Advance | None = None,
        engine: Engine | None = None,
    ) -> range:
        """Add replies; they get the next positions. All are added or none.

        Args:
            replies: as in `build`.
            batch: replies encoded at once.
            progress: called with the number of replies just encoded.
            engine: as in `build`.

        Returns:
            Their positions.

        Raises:
            InputError: as in `build`; or the index was changed by somebody else since it was opened.
        """
        encoder = self._model()
        with self._change():
            first = self.manifest.end
            manifest = _extended(self.manifest, self.folder, encoder, batches(replies, batch), progress, engine)
            manifest.write(self.folder)
            new = range(len(self._segments), len(manifest.segments))
            opened = [_open_segment(self.folder, manifest, i, verify=False) for i in new]
            self._set(manifest, [*self._segments, *opened])
            return range(first, manifest.end)

    def delete(self, positions: Iterable[int]) -> int:
        """Delete replies by their positions. All are deleted or none; the other positions stay as they are.

        Returns:
            How many were deleted.

        Raises:
            InputError: there is no reply at one of them; or the index was changed by somebody else.
        """
        chosen = np.unique(np.fromiter(positions, dtype=np.int64))
        with self._change():
            if len(strange := chosen[(chosen < 0) | (chosen >= self.manifest.end)]):
                last = self.manifest.end - 1
                raise InputError(f"{self.folder} has no reply {strange[0]}; its positions go from 0 to {last}")
            if len(gone := np.intersect1d(chosen, self._deleted)):
                raise InputError(f"reply {gone[0]} of {self.folder} was deleted before")
            manifest = self.manifest.without(chosen)
            manifest.write(self.folder)
            self._set(manifest, self._segments)
        return len(chosen)

    def find(self, field: str, values: Iterable[Any]) -> list[int]:
        """Positions of the replies whose payload has one of `values` in `field` (reads all replies)."""
        wanted = list(values)
        return [position for position, candidate in self if candidate.payload.get(field) in wanted]

    def _set(self, manifest: Manifest, segments: list[Segment]) -> None:
        self.manifest = manifest
        self._segments = segments
        self._deleted = manifest.positions_deleted()
        self._rows = [self._rows_of(segment) for segment in segments]

    def _rows_of(self, segment: Segment) -> Rows:
        first, count = segment.record.first, segment.record.count
        low, high = np.searchsorted(self._deleted, [first, first + count])
        alive: npt.NDArray[np.bool_] | None = None
        if high > low:
            alive = np.ones(count, dtype=np.bool_)
            alive[self._deleted[low:high] - first] = False
        return Rows(first, segment.vectors, segment.arrays, alive, segment.record.longest)

    def _reply(self, position: int, score: float) -> Reply:
        owner = int(np.searchsorted([rows.first for rows in self._rows], position, side="right")) - 1
        candidate = self._segments[owner].candidate(position - self._rows[owner].first)
        return Reply(candidate.text, score, position, candidate.payload)

    def _model(self) -> ResponseEncoder:
        if self.encoder is None:
            raise InputError(f"{self.folder} was opened without its model; open it with Index.open(folder, encoder)")
        return self.encoder

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        with locked(beside(self.folder), f"{self.folder} is being written"):
            if read_manifest(self.folder).fingerprint != self.fingerprint:
                raise InputError(f"{self.folder} was changed by somebody else since it was opened; open it again")
            remove_leftovers(self.folder)
            yield


def _is_changing(folder: Path, manifest: Manifest | None) -> bool:
    """Whether somebody is writing an index, or has since its manifest was read."""
    try:
        return beside(folder).exists() or read_manifest(folder) != manifest
    except InputError:
        return False


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that an index may not be written to.

    Raises:
        InputError: it is a file, something else than an index, or an index that is not to be overwritten.
    """
    if is_ours(folder, FOLDER) and not overwrite:
        choices = "add to it (--append), replace it (--overwrite), or name another folder"
        raise InputError(f"{folder} is an index already; {choices}")
    check_replaceable(folder, FOLDER, overwrite=overwrite)


def _extended(
    manifest: Manifest,
    folder: Path,
    encoder: ResponseEncoder,
    replies: Iterator[list[Candidate]],
    progress: Advance | None,
    engine: Engine | None,
) -> Manifest:
    """Write replies as a new segment in `folder`: the manifest that counts it in. The one on disk stays."""
    head = next(replies, None)
    if head is None:
        return manifest
    # Named by its first position: what a crash left there is in no manifest, and is replaced.
    name = f"segment-{manifest.end:012d}"
    with atomic_folder(folder / name, None) as part:
        all_of_them = itertools.chain([head], replies)
        record, size = write_segment(
            part,
            name,
            all_of_them,
            encoder,
            first=manifest.end,
            dtype=manifest.dtype,
            progress=progress,
            engine=engine,
        )
    if manifest.size not in (0, size):
        raise InputError(f"vectors of size {size}; those of the index have {manifest.size}")
    return replace(manifest, size=size, segments=(*manifest.segments, record))


def _open_segment(folder: Path, manifest: Manifest, place: int, *, verify: bool) -> Segment:
    record = manifest.segments[place]
    return Segment(folder / record.name, record, manifest.size, manifest.dtype, verify=verify)
