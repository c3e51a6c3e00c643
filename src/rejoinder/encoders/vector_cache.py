"""Caches by which an encoder encodes no text twice: within one search, and from one to the next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.progress import Advance

ReadText: TypeAlias = tuple[str, str]
"""The side that a text is read for, and the text itself."""

KEPT = 4096  # texts, as many as messages are kept clean: those of a chat come with each turn


class RecentVectors:
    """Vectors of the `most` texts that were read last, for all threads.

    A vector of 384 numbers takes 1.5 kB.
    """

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._vectors: OrderedDict[ReadText, FloatArray] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, texts: Iterable[ReadText]) -> dict[ReadText, FloatArray]:
        """Return the vectors of those texts that are kept."""
        vectors: dict[ReadText, FloatArray] = {}
        with self._lock:
            for text in texts:
                vector = self._vectors.get(text)
                if vector is not None:
                    self._vectors.move_to_end(text)
                    vectors[text] = vector
        return vectors

    def add(self, vectors: Mapping[ReadText, FloatArray]) -> None:
        """Keep the vectors of texts, in place of those that nobody has read for longest."""
        with self._lock:
            for text, vector in vectors.items():
                self._vectors[text] = vector.copy()  # a row would keep all others of its array
            while len(self._vectors) > self._most:
                self._vectors.popitem(last=False)


class VectorCache:
    """Vectors of texts, those of each side apart: 4 bytes a number.

    Args:
        recent: those that other caches have read before; None: there are none.
    """

    def __init__(self, recent: RecentVectors | None = None) -> None:
        self._vectors: dict[ReadText, FloatArray] = {}
        self._recent = recent

    def encode(
        self,
        texts: Sequence[str],
        side: str,
        compute: Callable[[list[str]], FloatArray],
        advance: Advance | None = None,
    ) -> FloatArray:
        """Return the vectors of texts, (n, d).

        `compute` encodes those that are not in the cache.
        """
        new = self._unknown(texts, side)
        if new or not texts:
            vectors = compute(new)
            self._add({(side, text): row for text, row in zip(new, vectors, strict=True)})
        if advance is not None:
            advance(len(texts) - len(new))
        return np.stack([self._vectors[side, text] for text in texts]) if texts else vectors

    def _unknown(self, texts: Sequence[str], side: str) -> list[str]:
        """Return those of some texts whose vectors have to be computed, each once."""
        new = [text for text in dict.fromkeys(texts) if (side, text) not in self._vectors]
        if self._recent is None:
            return new
        self._vectors |= self._recent.find((side, text) for text in new)
        return [text for text in new if (side, text) not in self._vectors]

    def _add(self, vectors: dict[ReadText, FloatArray]) -> None:
        self._vectors |= vectors
        if self._recent is not None:
            self._recent.add(vectors)
