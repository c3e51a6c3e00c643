"""A cache by which an encoder encodes no text twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.progress import Advance


class VectorCache:
    """Vectors of texts, those of each side apart: 4 bytes a number."""

    def __init__(self) -> None:
        self._vectors: dict[tuple[str, str], FloatArray] = {}

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
        new = [text for text in dict.fromkeys(texts) if (side, text) not in self._vectors]
        if new or not texts:
            vectors = compute(new)
            for text, vector in zip(new, vectors, strict=True):
                self._vectors[side, text] = vector
        if advance is not None:
            advance(len(texts) - len(new))
        return np.stack([self._vectors[side, text] for text in texts]) if texts else vectors
