"""The keyword rankers of DATA19: TF-IDF, and a BM25 that weighs TF-IDF values in place of counts.

Source: Henderson and others, "A Repository of Conversational Datasets" (2019), section 4.1, and the code published with
it. Both learn how rare words are from training examples. Words are hashed, so none is unknown. The textbook BM25, which
learns nothing, is in `keywords`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rejoinder.baselines.fitting import Progress, at_least, not_fitted
from rejoinder.baselines.search import (
    CELLS,
    Hits,
    best,
    check_k,
    common_length,
    number_texts,
    query_text,
    rows_of_each_list,
)
from rejoinder.corpora.example import Example
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.ranker import Context, FloatArray

if TYPE_CHECKING:
    from types import ModuleType

BUCKETS = 1 << 20
"""Rows of the table that words are hashed to (MurmurHash3 of their UTF-8 bytes)."""


class TfIdf:
    """TF-IDF behind the `Ranker` protocol: the cosine of two vectors of words (fulfils `fitting.Fitted`).

    A text's vector is, for each bucket w of its words,

        tf(w) * idf(w),   idf(w) = 1 + ln((1 + n) / (1 + df(w)))

    divided by its length (L2 norm), where n counts the contexts and responses of the training examples and df(w) those
    that hold w. Words are lower-cased runs of two or more letters, digits and underscores. A text without words is the
    zero vector and scores 0.
    """

    name = "TF-IDF"

    def __init__(self, *, whole_context: bool = False) -> None:
        """Set what counts as the query.

        Args:
            whole_context: search with every message of the context, not only with the newest one.

        Raises:
            MissingExtraError: scikit-learn is not installed.
        """
        self.whole_context = whole_context
        self._signed = True  # DATA19's: two words of one bucket may cancel out
        self._features = _library("sklearn.feature_extraction.text", self.name)
        self._idf: Any = None

    def fit(self, examples: Sequence[Example], progress: Progress | None = None) -> Mapping[str, Any]:
        """Count in how many texts each word is; see `Fitted.fit`."""
        at_least(examples, 1, self.name)
        texts = [text for example in examples for text in (self._query(example.context), example.response)]
        counts = self._counts(texts, progress)
        self._idf = self._features.TfidfTransformer().fit(counts)
        self._learn(self._idf.transform(counts))
        return {"examples": len(examples), "buckets_used": int(np.count_nonzero(_document_counts(counts)))}

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """Score each context's own candidates, 0 or more; see `Ranker.score`.

        Raises:
            InputError: not one list for each context, or lists of different lengths.
            RejoinderError: it was not fitted.
        """
        width = common_length(contexts, candidates)
        texts, columns = number_texts(candidates)
        queries, responses = self._vectors([self._query(context) for context in contexts]), self._vectors(texts)
        queries, responses = _only_used_columns(queries, responses)
        scores = np.zeros((len(contexts), width), dtype=np.float32)
        for key, rows in rows_of_each_list(candidates).items():
            scores[rows] = (queries[rows] @ responses[columns[key]].T).toarray()
        return scores

    def index(self, texts: Sequence[str]) -> SparseIndex:
        """Make texts searchable.

        Raises:
            RejoinderError: it was not fitted.
        """
        return SparseIndex(self, self._vectors(texts))

    def _query(self, context: Context) -> str:
        return query_text(context, self.whole_context)

    def _counts(self, texts: Sequence[str], progress: Progress | None = None) -> Any:
        """How often each bucket's words stand in each text: sparse (n, BUCKETS)."""
        hashing = self._features.HashingVectorizer(n_features=BUCKETS, norm=None, alternate_sign=self._signed)
        if not texts:
            return hashing.transform([""])[:0]
        counts = hashing.transform(texts)
        counts.sum_duplicates()  # and sorts: texts of the same words get the very same numbers
        if progress is not None:
            progress(len(texts))
        return counts

    def _tfidf(self, texts: Sequence[str]) -> Any:
        """TF-IDF vectors of unit length: sparse (n, BUCKETS), float64."""
        if self._idf is None:
            raise not_fitted(self.name)
        counts = self._counts(texts)
        return self._idf.transform(counts) if texts else counts  # the library refuses no text at all

    def _learn(self, tfidf: Any) -> None:
        """Learn from the vectors of the training texts what more there is to learn: here nothing."""

    def _vectors(self, texts: Sequence[str]) -> Any:
        """What scores are the dot products of: sparse (n, BUCKETS)."""
        return self._tfidf(texts)


class Data19BM25(TfIdf):
    """DATA19's BM25 behind the `Ranker` protocol (fulfils `fitting.Fitted`).

    With v(w) the TF-IDF values of a text, of unit length and not negative, its vector is

        v(w) * (k1 + 1) / (v(w) + k1 * (1 - b + b * l / L)) * ln((n - df(w) + 0.5) / (df(w) + 0.5))

    where l is the sum of the text's v(w), L its mean over the training texts, and n and df are counted over these. A
    score is the dot product of two such vectors: both sides are weighted, so each word counts with the square of its
    logarithm, and a word that more than half of all texts hold counts too, although its logarithm is negative.
    """

    name = "DATA19's BM25"

    def __init__(self, *, k1: float = 2.0, b: float = 0.75, whole_context: bool = False) -> None:
        """Set the formula's constants and what counts as the query.

        Args:
            k1: how slowly repetitions saturate, 0 or more.
            b: how much long texts are held back, 0 to 1.
            whole_context: search with every message of the context, not only with the newest one.

        Raises:
            InputError: a setting is out of range.
            MissingExtraError: scikit-learn is not installed.
        """
        if not 0 <= k1 < float("inf"):
            raise InputError(f"BM25's k1 must be a number of 0 or more, not {k1}")
        if not 0 <= b <= 1:
            raise InputError(f"BM25's b must lie between 0 and 1, not {b}")
        super().__init__(whole_context=whole_context)
        self.k1, self.b = k1, b
        self._signed = False
        self._rarity = np.zeros(0)
        self._mean_length = 0.0

    def _learn(self, tfidf: Any) -> None:
        n, df = tfidf.shape[0], _document_counts(tfidf)
        self._rarity = np.log((n - df + 0.5) / (df + 0.5))
        self._mean_length = float(tfidf.sum()) / n or 1.0  # 0 where no training text has a word

    def _vectors(self, texts: Sequence[str]) -> Any:
        vectors = self._tfidf(texts)
        lengths = np.repeat(np.asarray(vectors.sum(axis=1)).ravel(), np.diff(vectors.indptr))
        held_back = self.k1 * (1 - self.b + self.b * lengths / self._mean_length)
        vectors.data = vectors.data * (self.k1 + 1) / (vectors.data + held_back) * self._rarity[vectors.indices]
        return vectors


class SparseIndex:
    """Texts by their words; made by `TfIdf.index`."""

    def __init__(self, ranker: TfIdf, vectors: Any) -> None:
        self._ranker, self._by_word = ranker, vectors.T.tocsr()

    def __len__(self) -> int:
        return int(self._by_word.shape[1])

    def search(self, contexts: Sequence[Context], k: int = 10) -> Hits:
        """The k best of all indexed texts for each context; texts without a word of the query score 0.

        Raises:
            InputError: k is below 1.
        """
        check_k(k)
        step = max(1, CELLS // max(1, len(self)))
        found = [best(np.zeros((0, len(self))), k)]
        for start in range(0, len(contexts), step):
            texts = [self._ranker._query(context) for context in contexts[start : start + step]]
            found.append(best((self._ranker._vectors(texts) @ self._by_word).toarray(), k))
        return Hits(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _document_counts(matrix: Any) -> npt.NDArray[np.int64]:
    """In how many rows each column is not zero."""
    return np.bincount(matrix.indices[matrix.data != 0], minlength=matrix.shape[1])


def _only_used_columns(*matrices: Any) -> list[Any]:
    """The matrices without columns that are zero in all: a product of few rows then walks through no BUCKETS."""
    used, places = np.unique(np.concatenate([matrix.indices for matrix in matrices]), return_inverse=True)
    parts = np.split(places, np.cumsum([matrix.nnz for matrix in matrices])[:-1])
    return [
        type(matrix)((matrix.data, part, matrix.indptr), shape=(matrix.shape[0], len(used)))
        for matrix, part in zip(matrices, parts, strict=True)
    ]


def _library(name: str, feature: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(feature, "baselines") from error
