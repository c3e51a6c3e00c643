"""A tokenizer that remembers the texts it has read: dialogues repeat each message many times."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rejoinder.text.known_texts import KnownTexts
from rejoinder.text.pretrained import Pretrained
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
        self._reader = tokenizer.remembering() if isinstance(tokenizer, Pretrained) else tokenizer
        self._known: dict[int | None, KnownTexts] = {}

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
        known = self._known.get(max_length)
        if known is None:
            read = functools.partial(self._reader.encode_ragged, max_length=max_length)
            known = self._known[max_length] = KnownTexts(read, MOST)
        ids, lengths = known.read(texts, len(texts))
        return ids, lengths.astype(np.int32)
