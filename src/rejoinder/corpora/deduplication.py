"""Examples that were seen before, found by their digests."""

from __future__ import annotations

import hashlib

from rejoinder.corpora.example import Example


class SeenPairs:
    """Remembers (context, response) pairs.

    Of each distinct pair it keeps a digest of 8 bytes, about 100 bytes of memory in a Python set, whatever the
    length of the texts. Two different pairs share a digest with a probability of about n² / 2^65 for n pairs
    (0.00003 % for 3.5 million): then the later one is taken for a copy of the earlier.
    """

    def __init__(self) -> None:
        self._digests: set[int] = set()

    def __len__(self) -> int:
        return len(self._digests)

    def add(self, example: Example) -> bool:
        """Remember the pair; True if it is new, False if exactly this context and response were there before."""
        digest = hashlib.blake2b(digest_size=8)
        for text in (*example.context, example.response):
            data = text.encode("utf-8")
            digest.update(len(data).to_bytes(8, "little"))  # so that ("a", "b") and ("ab",) differ
            digest.update(data)
        before = len(self._digests)
        self._digests.add(int.from_bytes(digest.digest(), "little"))
        return len(self._digests) > before
