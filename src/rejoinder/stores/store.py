"""Stores of an index: a folder, or a database.

An index is a manifest, segments of replies with their vectors, and a few small files. A segment has
new replies or, as a revision, new editions of some that other segments have. Segments and
files never change: a change writes new ones before, or with, the manifest that names them.
Whatever interrupts it, the index is as before or as after; what no manifest names is swept away by
the next change. So all that an index does is written once, and a store only has to keep things.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from rejoinder.arrays import FloatArray
from rejoinder.errors import InputError, RejoinderError
from rejoinder.progress import Track
from rejoinder.stores.candidates import CandidateSearch
from rejoinder.stores.log.database import LogDatabase
from rejoinder.stores.manifest import ApproximateRecord, Manifest, Method
from rejoinder.stores.scan import Rows
from rejoinder.stores.segments import Segment

PATIENCE = 10.0  # seconds for which a change waits for another process


class _Held(threading.local):
    """The stores that a thread has locked; no context, which tasks of other threads inherit."""

    stores: tuple[Store, ...] = ()


_HELD = _Held()


class UnreachableError(RejoinderError, OSError):
    """A store cannot be reached."""


class LockedOutError(UnreachableError, InputError):
    """A store lets this user in no longer: whoever has it open goes on as if it were away."""


class DeniedError(InputError):
    """The user of a store has no right to do that."""


class StaleError(InputError):
    """Segments that were opened have been replaced since; `refresh` opens the present ones."""


class SegmentWriter(Protocol):
    """Takes the replies of a new segment, batch after batch."""

    def write(
        self, lines: Sequence[bytes], vectors: FloatArray, responses: FloatArray | None, /
    ) -> None:
        """Add replies as they are stored, their vectors (n, d), and the encodings of their texts.

        None: the vectors are these encodings.
        """

    def files(self) -> dict[str, tuple[int, str]]:
        """Return the size and the SHA-256 of each part of the content, once all is written."""


class Store(ABC):
    """The storage of an index. `str` gives its name, without any password."""

    @abstractmethod
    def read_manifest(self) -> Manifest:
        """Read the manifest; one that is missing, altered or of a later version: InputError."""

    @abstractmethod
    def write_manifest(self, manifest: Manifest) -> None:
        """Put a manifest in the place of the present one, at one instant."""

    @abstractmethod
    def check(self) -> None:
        """Raise what opening the index would raise now, without reading all of it."""

    @abstractmethod
    def stamp(self) -> Hashable:
        """Return what changes whenever the manifest or a file does; None: there is no index."""

    @abstractmethod
    def is_changing(self, manifest: Manifest | None) -> bool:
        """Return whether somebody has replaced a manifest since it was read, or is about to."""

    @abstractmethod
    def open_segment(self, manifest: Manifest, number: int, *, verify: bool) -> Segment:
        """Open a segment; `verify` compares its content with its digests."""

    @abstractmethod
    def new_segment(self, name: str) -> AbstractContextManager[SegmentWriter]:
        """Take the content of a segment of a `free_name`, which is kept whole or not at all."""

    @abstractmethod
    def free_name(self, name: str) -> str:
        """Return the name, or that with a number behind, that no segment has."""

    @abstractmethod
    def has_file(self, name: str) -> bool:
        """Return whether there is a file of this name."""

    @abstractmethod
    def read_file(self, name: str) -> bytes:
        """Read a file; InputError if there is none."""

    @abstractmethod
    def write_file(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all, in the place of one of the same name."""

    @abstractmethod
    def remove_file(self, name: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def size(self) -> int:
        """Return the number of bytes that the index takes."""

    @contextlib.contextmanager
    def lock(self, seconds: float | None = None) -> Iterator[None]:
        """Keep others from changing the index; the thread that has the lock goes on with it.

        Raises:
            BusyError: somebody else has had it for so many seconds. None: for `PATIENCE`.
        """
        held = _HELD.stores
        if any(store is self for store in held):
            yield
            return
        with self._alone(PATIENCE if seconds is None else seconds):
            _HELD.stores = (*held, self)
            try:
                yield
            finally:
                _HELD.stores = held

    @abstractmethod
    def _alone(self, seconds: float) -> AbstractContextManager[None]:
        """Keep others from changing the index; see `lock`."""

    @abstractmethod
    def sweep(self, manifest: Manifest) -> None:
        """Remove what a manifest does not name, such as what killed processes left."""

    @abstractmethod
    def check_free(self, *, overwrite: bool) -> None:
        """Refuse to build an index where there is one already, unless it may be overwritten."""

    @abstractmethod
    def create(self, *, overwrite: bool) -> AbstractContextManager[Store]:
        """Yield an empty store for a new index, which takes this one's place at the end."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the index, without its place."""

    @abstractmethod
    def private_names(self) -> Sequence[tuple[str, str]]:
        """Return what errors name the place by, and what those see who need not know it."""

    def hide_place(self, text: str) -> str:
        """Return an error's text without the place of the index, for whoever need not know it."""
        for name, shown in self.private_names():
            for verb in ("calibrate", "learn"):
                text = text.replace(f"{verb} {shlex.quote(name)} ", f"{verb} INDEX ")
            # neither the beginning nor the end of a longer path
            whole = rf"(?<!\w){re.escape(name)}(?:(?<=[/\\ ])|(?![\w-]|\.\w))"
            text = re.sub(whole, shown.replace("\\", r"\\"), text)
        return text

    @abstractmethod
    def is_same(self, other: Store) -> bool:
        """Return whether another store keeps the same index."""

    def break_off(self) -> None:  # noqa: B027 (few stores have to)
        """End all that waits for a database in this process: it raises UnreachableError."""

    @abstractmethod
    def log(self) -> LogDatabase:
        """Return the database in which the use of the index is logged."""

    @abstractmethod
    def check_candidates(self) -> None:
        """Raise MissingExtraError where an approximate search needs what is not installed."""

    @abstractmethod
    def build_candidates(
        self,
        segments: Sequence[Rows],
        contexts: Sequence[FloatArray],
        recall: float,
        method: Method | None,
        track: Track,
    ) -> ApproximateRecord:
        """Make what names candidates of a search; see `Index.approximate`."""

    @abstractmethod
    def open_candidates(self, record: ApproximateRecord) -> CandidateSearch:
        """Open what names candidates of a search."""
