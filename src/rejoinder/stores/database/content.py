"""The content of a segment that is written to a database, with the digests of a folder's files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.stores.manifest import OFFSETS, REPLIES, RESPONSES, VECTORS


class Content:
    """Sizes and digests of what was written so far: the same replies have the same anywhere."""

    def __init__(self) -> None:
        self.rows = 0
        self._end = 0
        self._sizes: dict[str, int] = {}
        self._digests: dict[str, Any] = {}
        self._add(REPLIES, b"")
        self._add(OFFSETS, np.zeros(1, dtype="<i8").tobytes())
        self._add(VECTORS, b"")

    def add(
        self, lines: Sequence[bytes], vectors: FloatArray, responses: FloatArray | None
    ) -> None:
        """Note replies as they are stored, their vectors, (n, d), and their texts' encodings."""
        ends = self._end + np.cumsum([len(line) for line in lines], dtype="<i8")
        self._end = int(ends[-1])
        self.rows += len(lines)
        self._add(REPLIES, b"".join(lines))
        self._add(OFFSETS, ends.tobytes())
        self._add(VECTORS, vectors.astype("<f4").tobytes())
        if responses is not None:
            self._add(RESPONSES, responses.astype("<f4").tobytes())

    def files(self) -> dict[str, tuple[int, str]]:
        """Return the size and the SHA-256 of each part, as of the files of a folder."""
        return {name: (size, self._digests[name].hexdigest()) for name, size in self._sizes.items()}

    def _add(self, name: str, raw: bytes) -> None:
        self._sizes[name] = self._sizes.get(name, 0) + len(raw)
        self._digests.setdefault(name, hashlib.sha256()).update(raw)
