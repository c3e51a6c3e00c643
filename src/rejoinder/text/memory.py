"""A tokenizer that remembers the texts it has read: dialogues repeat each message many times."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rejoinder.text.tokenizer import Ids, Tokenizer

MOST = 1 << 18  # texts that are remembered, of one length at which they are cut


class Remembered:
    """Encodes each text once, as `tokenizer` does (see `Tokenizer.encode_ragged`).

    Every message of a dialogue is an input, a response and a part of some ten histories.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.padding_id = tokenizer.padding_id
        self.rows = tokenizer.rows
        self.cut = tokenizer.cut
        self.unit = tokenizer.unit
        self._tokenizer = tokenizer
        self._known: dict[int | None, dict[str, Ids]] = {}

    def __reduce__(self) -> tuple[type[Remembered], tuple[Tokenizer]]:
        return type(self), (self._tokenizer,)  # a worker remembers what it reads itself

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the tokenizer."""
        return self._tokenizer.fingerprint

    def save(self, path: str | Path) -> None:
        """Write the tokenizer."""
        self._tokenizer.save(path)

    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """Return all ids, one text after the other, and the number of each one's."""
        known = self._known.setdefault(max_length, {})
        if len(known) > MOST:
            known.clear()
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            ids, lengths = self._tokenizer.encode_ragged(new, max_length)
            starts = [0, *np.cumsum(lengths).tolist()]
            pieces = (ids[start:end] for start, end in itertools.pairwise(starts))
            known.update(zip(new, pieces, strict=True))
        found = [known[text] for text in texts]
        lengths = np.fromiter(map(len, found), np.int32, len(found))
        return np.concatenate([np.empty(0, np.int32), *found]), lengths
