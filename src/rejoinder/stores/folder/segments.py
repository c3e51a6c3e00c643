"""The files of a segment in a folder."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from rejoinder.digests import file_digest
from rejoinder.errors import InputError
from rejoinder.paths import is_within
from rejoinder.stores.manifest import OFFSETS, REPLIES, RESPONSES, VECTORS, Manifest
from rejoinder.stores.scan import Array
from rejoinder.stores.segments import Segment

IN_MEMORY = 1 << 20  # bytes of a file that is read when it is opened; a larger one is mapped


class SegmentFolder(Segment):
    """An open segment in the folder of an index.

    Only what is used is read from the disk; `verify` compares content, not sizes alone.
    """

    def __init__(self, index: Path, manifest: Manifest, number: int, *, verify: bool) -> None:
        record = manifest.segments[number]
        super().__init__(record)
        self.folder = index / record.name
        self.shown = self.folder / REPLIES
        self.check(content=verify)
        self.vectors = self._map(VECTORS, "<f4", (record.count, manifest.size))
        self.responses = self.vectors
        if RESPONSES in record.files:
            self.responses = self._map(RESPONSES, "<f4", (record.count, manifest.size))
        offsets = self._map(OFFSETS, "<i8", (record.count + 1,))
        replies = self._map(REPLIES, "|u1", (record.files.get(REPLIES, (0, ""))[0],))
        self.stored = (replies, offsets)

    def check(self, *, content: bool) -> None:
        """Refuse files that are not what the manifest says."""
        for name, (size, digest) in self.record.files.items():
            path = self.folder / name
            if not is_within(path, self.folder.parent):
                raise InputError(f"{path} is a link out of the index; copy the files themselves")
            if not path.is_file():
                raise InputError(
                    f"{path} is missing; build the index again or copy the whole folder again"
                )
            if (actual := path.stat().st_size) != size:
                raise InputError(
                    f"{path} has {actual} bytes instead of {size}; build the index again or copy "
                    "it again"
                )
            if content and file_digest(path) != digest:
                raise InputError(
                    f"{path} was altered after it was written; build the index again or copy "
                    "it again"
                )

    def _map(self, name: str, kind: str, shape: tuple[int, ...]) -> Array:
        expected = math.prod(shape) * np.dtype(kind).itemsize
        if self.record.files.get(name, (None,))[0] != expected:
            raise InputError(
                f"{self.folder / name} does not fit the manifest; build the index again"
            )
        # or an index of many additions would take more open files than a process may have
        if expected <= IN_MEMORY:
            return np.fromfile(self.folder / name, dtype=kind).reshape(shape)
        # As a plain array, which is faster to index.
        return np.asarray(np.memmap(self.folder / name, dtype=kind, mode="r", shape=shape))
