"""An index in a folder.

    manifest.json             the model, the files with their digests, the positions that are gone
    segment-000000000000/     replies that were written at once, or small segments joined by `add`;
                              or new editions of replies in other segments
        replies.jsonl         texts and payloads
        offsets.i64           where each reply begins
        vectors.f32           float32 vectors
    approximate-*.faiss       what makes searches faster; see `ann`
    head-*.safetensors        what titles, examples and sentences count; see `scoring`
    calibration.json          how probable it is that a best reply is right; see `calibration`

The folder is written whole or not at all; the manifest is replaced as a whole.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.digests import file_digest
from rejoinder.errors import InputError
from rejoinder.files import atomic_file, atomic_folder, remove, remove_leftovers
from rejoinder.folder_kinds import Kind, check_replaceable, is_ours
from rejoinder.locks import is_held, lock_path, locked
from rejoinder.progress import Track
from rejoinder.stores.ann import FaissIndex, build_file, library
from rejoinder.stores.folder.log_file import LogFile
from rejoinder.stores.folder.segments import SegmentFolder
from rejoinder.stores.manifest import (
    KIND,
    OFFSETS,
    REPLIES,
    RESPONSES,
    VECTORS,
    ApproximateRecord,
    Manifest,
    Method,
    parse_manifest,
)
from rejoinder.stores.names import CALIBRATION, FAISS_FILE, HEAD_FILE, free_name
from rejoinder.stores.scan import Rows
from rejoinder.stores.segments import Segment
from rejoinder.stores.store import PATIENCE, Store

MANIFEST = "manifest.json"
MILVUS = "milvus.json"  # where the segments are, if they are in Milvus; see `milvus`
FILES = (REPLIES, OFFSETS, VECTORS, RESPONSES, "codes.f16", "codes.i8", "scales.f32", "errors.f32")
"""All files that a segment may have; earlier versions wrote the last four."""
FOLDER = Kind(
    "an index",
    MANIFEST,
    lambda manifest: manifest["kind"] == KIND,
    # Earlier versions kept a lock and a map there; what ends in .part is a killed process's.
    (
        MANIFEST,
        MILVUS,
        CALIBRATION,
        FAISS_FILE,
        HEAD_FILE,
        "lock",
        "map.json",
        ".*.part",
        *(f"{folder}/{name}" for folder in ("segment-*", ".segment-*.part") for name in FILES),
        *("replies.db" + depth * "/*" for depth in range(1, 8)),  # of milvus-lite
    ),
    signs=(f"segment-*/{OFFSETS}",),
)
_TRIES = 50  # of a check that somebody's change gets in the way of, and seconds in between
_PAUSE = 0.02
_MEND = "build the index again (--overwrite) or copy it again"


class FolderStore(Store):
    """Keeps an index in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def __str__(self) -> str:
        return str(self.folder)

    def read_manifest(self) -> Manifest:
        """Read the manifest; one that is missing, altered or of a later version: InputError."""
        folder = self.folder
        path = folder / MANIFEST
        if not folder.exists():
            raise InputError(
                f"no index {folder}; `rejoinder index build MODEL REPLIES -o"
                f" {shlex.quote(str(folder))}` builds one"
            )
        if folder.is_file():
            raise InputError(
                f"{folder} is a file, not an index; `rejoinder index build MODEL"
                f" {shlex.quote(str(folder))} -o INDEX` builds one"
            )
        if not path.is_file():
            raise InputError(
                f"{folder} has no {MANIFEST}, so it is not an index; `rejoinder index build` "
                "builds one"
            )
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is damaged ({error}); {_MEND}") from None
        return parse_manifest(text, path, _MEND)

    def write_manifest(self, manifest: Manifest) -> None:
        """Put a manifest in the place of the present one, at one instant."""
        with atomic_file(self.folder / MANIFEST) as part:
            part.write_text(manifest.to_json(), encoding="utf-8")

    def check(self) -> None:
        """Raise what opening the index would raise now."""
        for left in reversed(range(_TRIES)):
            manifest = None
            try:
                manifest = self.read_manifest()
                for number in range(len(manifest.segments)):
                    self.open_segment(manifest, number, verify=False)
                return
            except (InputError, FileNotFoundError):
                if not left or not self.is_changing(manifest):
                    raise
            time.sleep(_PAUSE)

    def stamp(self) -> Hashable:
        """Return what changes whenever the manifest or the calibration does."""
        stamps = []
        for name in (MANIFEST, CALIBRATION):
            # `read_manifest` says what is wrong with a file in place of a folder.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                status = (self.folder / name).stat()
                stamps.append((name, status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(stamps) or None

    def is_changing(self, manifest: Manifest | None) -> bool:
        """Return whether somebody has replaced a manifest since it was read, or is about to."""
        try:
            return is_held(lock_path(self.folder)) or self.read_manifest() != manifest
        except InputError:
            return False

    def open_segment(self, manifest: Manifest, number: int, *, verify: bool) -> Segment:
        """Open a segment; `verify` compares its content with its digests, not its sizes alone."""
        return SegmentFolder(self.folder, manifest, number, verify=verify)

    @contextlib.contextmanager
    def new_segment(self, name: str) -> Iterator[SegmentFiles]:
        """Take the content of a segment, which is written whole or not at all."""
        with atomic_folder(self.folder / name, None) as part, contextlib.ExitStack() as stack:
            yield SegmentFiles(part, stack)

    def free_name(self, name: str) -> str:
        """Return the name, or that with a number behind, that no segment has."""
        return free_name(name, lambda candidate: (self.folder / candidate).exists())

    def has_file(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        return (self.folder / name).is_file()

    def read_file(self, name: str) -> bytes:
        """Read a file; InputError if there is none."""
        path = self.folder / name
        if not path.is_file():
            raise InputError(
                f"{path} is missing; build the index again or copy the whole folder again"
            )
        return path.read_bytes()

    def write_file(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all, in the place of one of the same name."""
        with atomic_file(self.folder / name) as part:
            part.write_bytes(content)

    def remove_file(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.folder / name).unlink(missing_ok=True)

    def size(self) -> int:
        """Return the number of bytes of all files."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def _alone(self, seconds: float) -> AbstractContextManager[None]:
        path = lock_path(self.folder)
        busy = f"{self.folder} is being written"
        return locked(path, busy, seconds=seconds, path=self.folder)

    def sweep(self, manifest: Manifest) -> None:
        """Remove what killed processes left, and files that the index no longer has."""
        remove_leftovers(self.folder)
        known = {record.name for record in manifest.segments}
        known |= {manifest.approximate.file} if manifest.approximate else set()
        known |= {manifest.head.file} if manifest.head else set()
        for pattern in ("segment-*", FAISS_FILE, HEAD_FILE):
            for path in self.folder.glob(pattern):
                if path.name not in known:
                    # Windows removes no file that a reader has open
                    with contextlib.suppress(PermissionError):
                        remove(path)

    def check_free(self, *, overwrite: bool) -> None:
        """Refuse a folder that an index may not be written to."""
        if is_ours(self.folder, FOLDER) and not overwrite:
            raise InputError(
                f"{self.folder} is an index already; take `rejoinder index add`, --overwrite, or "
                "another folder"
            )
        check_replaceable(self.folder, FOLDER, overwrite=overwrite)

    def _patience(self) -> float:
        """Return for how many seconds a build waits: not for one that makes what is not there."""
        return PATIENCE if is_ours(self.folder, FOLDER) else 0.0

    @contextlib.contextmanager
    def create(self, *, overwrite: bool) -> Iterator[FolderStore]:
        """Yield an empty folder, which takes this one's place at the end."""
        self.check_free(overwrite=overwrite)
        with atomic_folder(
            self.folder, FOLDER, overwrite=overwrite, seconds=self._patience()
        ) as part:
            yield FolderStore(part)

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    def private_names(self) -> Sequence[tuple[str, str]]:
        """Return paths, and what those see who need not know them."""
        log = self.log()
        names = [(str(log.path), log.path.name), (str(log.shown), log.path.name)]
        for path in (str(self.folder), os.path.realpath(self.folder)):
            names += [
                (f"no index {path}", "the index is gone"),
                (f"-o {shlex.quote(path)}", "-o INDEX"),
                (f"{path}: ", ""),
                (f"{path}{os.sep}", ""),
                (path, "the index"),
            ]
        return names

    def is_same(self, other: Store) -> bool:
        """Return whether another store keeps the same index."""
        if not isinstance(other, FolderStore) or not self.folder.exists():
            return False
        return self.folder.samefile(other.folder)

    def log(self) -> LogFile:
        """Return the SQLite file beside the folder, in which the use of the index is logged."""
        return LogFile(self.folder)

    def check_candidates(self) -> None:
        """Raise MissingExtraError if FAISS is not installed."""
        library()

    def build_candidates(
        self,
        segments: Sequence[Rows],
        contexts: Sequence[FloatArray],
        recall: float,
        method: Method | None,
        track: Track,
    ) -> ApproximateRecord:
        """Make a file of FAISS; see `Index.approximate`."""
        return build_file(self.folder, segments, contexts, recall, method, track)

    def open_candidates(self, record: ApproximateRecord) -> FaissIndex:
        """Open a file of FAISS."""
        return FaissIndex(self.folder, record)


class SegmentFiles:
    """The files of a segment that is being written; fulfils `store.SegmentWriter`."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self._end = 0
        self._files = {name: self._open(name) for name in (REPLIES, OFFSETS, VECTORS)}
        self._files[OFFSETS].write(np.zeros(1, dtype="<i8").tobytes())

    def _open(self, name: str) -> BinaryIO:
        return self._stack.enter_context((self.folder / name).open("wb"))

    def write(
        self, lines: Sequence[bytes], vectors: FloatArray, responses: FloatArray | None
    ) -> None:
        """Add replies as they are stored, their vectors, (n, d), and their texts' encodings."""
        if responses is not None:
            if RESPONSES not in self._files:
                self._files[RESPONSES] = self._open(RESPONSES)
            self._files[RESPONSES].write(responses.astype("<f4", copy=False).tobytes())
        ends = self._end + np.cumsum([len(line) for line in lines], dtype="<i8")
        self._files[REPLIES].writelines(lines)
        self._files[OFFSETS].write(ends.tobytes())
        self._files[VECTORS].write(vectors.astype("<f4", copy=False).tobytes())
        self._end = int(ends[-1])

    def files(self) -> dict[str, tuple[int, str]]:
        """Return the size and the SHA-256 of each file, which is closed."""
        for file in self._files.values():
            file.close()
        paths = {name: self.folder / name for name in self._files}
        return {name: (path.stat().st_size, file_digest(path)) for name, path in paths.items()}
