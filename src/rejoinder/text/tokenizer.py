"""What every tokenizer offers: the rest of the library knows no more of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]


class Tokenizer(Protocol):
    """Text to ids of tokens."""

    @property
    def padding_id(self) -> int:
        """The id that stands where there is no token."""
        ...

    @property
    def rows(self) -> int:
        """Number of ids in all, and so of rows in an embedding table."""
        ...

    @property
    def fingerprint(self) -> str:
        """SHA-256: two tokenizers with the same one give the same ids."""
        ...

    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """All ids one after the other and the number of ids of each text, cut at `max_length` tokens.

        Where ids stand for more than tokens (pairs of words, say), a text has more ids than that.
        """
        ...

    def save(self, path: str | Path) -> None:
        """Write it as one JSON file, whole or not at all."""
        ...
