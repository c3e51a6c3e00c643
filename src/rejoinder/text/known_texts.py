"""Texts that are tokenised once, and words: a million messages have a hundred thousand."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence

import numpy as np

from rejoinder.arrays import IntArray, ranges
from rejoinder.text.tokenizer import Ids, Read

MOST_WORDS = 1 << 20  # that are remembered


class _Numbers(dict[str, int]):
    """Numbers texts in the order in which they come."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


class KnownTexts:
    """Ids of texts, each of which is read once. Above `most` texts all are forgotten.

    Several threads may share it.
    """

    def __init__(self, read: Read, most: int) -> None:
        self._read = read
        self._most = most
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._numbers = _Numbers()
        self._ids = np.empty(0, np.int32)
        self._ends = np.zeros(1, np.int64)  # of each text's ids, after a zero

    def read(self, texts: Iterable[str], count: int) -> tuple[Ids, IntArray]:
        """Return the ids of `count` texts, one text's after the other's, and each one's number."""
        with self._lock:
            return self._found(texts, count)

    def _found(self, texts: Iterable[str], count: int) -> tuple[Ids, IntArray]:
        if len(self._numbers) > self._most:
            self._forget()
        numbers = np.fromiter(map(self._numbers.__getitem__, texts), np.int64, count)
        new = list(itertools.islice(self._numbers, len(self._ends) - 1, None))
        if new:
            ids, lengths = self._read(new)
            self._ids = np.concatenate([self._ids, ids])
            ends = self._ends[-1] + np.cumsum(lengths, dtype=np.int64)
            self._ends = np.concatenate([self._ends, ends])
        starts = self._ends[numbers]
        counts = self._ends[numbers + 1] - starts
        return self._ids[ranges(starts, counts)], counts


class KnownWords:
    """Reads texts word by word, each word once; a word is what stands between two spaces."""

    def __init__(self, read: Read) -> None:
        self._words = KnownTexts(read, MOST_WORDS)

    def read(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """Return what `Read` does of texts, at most `max_length` ids of each."""
        split = [text.split(" ") for text in texts]
        counts = np.fromiter(map(len, split), np.int64, len(split))
        last = np.cumsum(counts)
        words = itertools.chain.from_iterable(split)
        ids, token_counts = self._words.read(words, int(counts.sum()))
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(token_counts)])[last]
        lengths = np.diff(ends, prepend=0)
        if max_length is not None:
            kept = np.minimum(lengths, max_length)
            ids = ids[ranges(ends - lengths, kept)]
            lengths = kept
        return ids, lengths.astype(np.int32)
