"""A file for a parser that reads it piece by piece."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rejoinder.corpora.lines import Reading, open_pieces

if TYPE_CHECKING:
    pass


class Pieces:
    """A file for a parser to read from."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self._pieces = open_pieces(path, reading)
        self._held = next(self._pieces, b"").removeprefix(b"\xef\xbb\xbf")

    def read(self, size: int) -> bytes:
        """Return at most so many of the next bytes; those of a piece if `size` is negative."""
        self._held = self._held or next(self._pieces, b"")
        piece, self._held = (
            (self._held, b"") if size < 0 else (self._held[:size], self._held[size:])
        )
        return piece
