"""BM25 as DATA19 has it: Henderson and others, "A Repository of Conversational Datasets" (2019).

Section 4.1, and the paper's code. Like its TF-IDF it learns from training examples how rare words
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rejoinder.encoders.words.keywords import TfIdf, check_constants, document_counts


class Data19BM25(TfIdf):
    """DATA19's BM25 behind the `Ranker` protocol: the dot product of two vectors.

    Fulfils `encoders.protocol.FittedRanker`.

        v(w) * (k1 + 1) / (v(w) + k1 * (1 - b + b * l / L)) * ln((n - df(w) + 0.5) / (df(w) + 0.5))

    with v(w) the TF-IDF values of a text, l their sum, and L its mean over the training texts. Both
    sides are weighted, so a word that more than half of all texts hold counts too, although its
    logarithm is negative.
    """

    name = "DATA19's BM25"
    signed = False

    def __init__(self, *, k1: float = 2.0, b: float = 0.75) -> None:
        check_constants(k1, b)
        super().__init__()
        self.k1 = k1
        self.b = b
        self._rarity = np.zeros(0)
        self._mean_length = 0.0

    def _learn(self, tfidf: Any) -> None:
        n = tfidf.shape[0]
        df = document_counts(tfidf)
        self._rarity = np.log((n - df + 0.5) / (df + 0.5))
        self._mean_length = float(tfidf.sum()) / n or 1.0  # 0 where no training text has a word

    def _vectors(self, texts: Sequence[str]) -> Any:
        vectors = self._tfidf(texts)
        lengths = np.repeat(np.asarray(vectors.sum(axis=1)).ravel(), np.diff(vectors.indptr))
        held_back = self.k1 * (1 - self.b + self.b * lengths / self._mean_length)
        vectors.data = (
            vectors.data
            * (self.k1 + 1)
            / (vectors.data + held_back)
            * self._rarity[vectors.indices]
        )
        return vectors
