"""Keyword rankers: candidates that share rare words with the newest message rank first.

The bar for every model. `BM25` is Robertson and Zaragoza's, "The Probabilistic Relevance Framework:
BM25 and Beyond" (2009), equation 3.15, with Lucene's inverse document frequency. `TfIdf` is that of
Henderson and others, "A Repository of Conversational Datasets" (2019), section 4.1, and of its
code: it learns from training examples how rare words are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray
from rejoinder.conversations import Context
from rejoinder.corpora import Example
from rejoinder.encoders import (
    CandidateLists,
    Ranker,
    candidate_lists,
    not_fitted,
    require_examples,
)
from rejoinder.errors import InputError, import_extra
from rejoinder.patterns import search_pattern
from rejoinder.progress import Advance

BUCKETS = 1 << 20  # rows of the table that words are hashed to (MurmurHash3 of their UTF-8 bytes)
# that Hybrid tries
WEIGHTS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
WEIGHED_ON = 2000  # examples on which it tries them, and candidates of each
GROUP = 100
_WORD = search_pattern(r"\w+")


def words(text: str) -> list[str]:
    """Return the lower-cased runs of letters, digits and underscores, in order."""
    return _WORD.findall(text.lower())


class BM25:
    """Textbook BM25 behind the `Ranker` protocol. Each call of `score` is a corpus of its own.

    The score of a candidate is the sum, over the words of the query that it holds, each as often as
    it stands there, of

        idf(w) * tf / (tf + k1 * (1 - b + b * length / average_length)),
        idf(w) = ln(1 + (n - df + 0.5) / (df + 0.5))

    where n, df and average_length are counted over the distinct candidates of the call. k1, 0 or
    more, says how slowly repetitions of a word saturate, b, from 0 to 1, how much long candidates
    are held back.
    """

    def __init__(self, *, k1: float = 1.5, b: float = 0.75) -> None:
        check_constants(k1, b)
        self.k1 = k1
        self.b = b
        self._bm25s = import_extra("bm25s", "BM25", "baselines")
        self._sparse = import_extra("scipy.sparse", "BM25", "baselines")

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """Score each context's own candidates; see `Ranker.score`.

        Those of the same words get the very same score.
        """
        lists = candidate_lists(contexts, candidates)
        ids: dict[str, int] = {}
        weights = self._weights([_ids(text, ids) for text in lists.texts], ids).tocsr()
        known = [
            [ids[word] for word in words(_newest(context)) if word in ids] for context in contexts
        ]
        starts = np.cumsum([0, *map(len, known)])
        columns = np.array([word for query in known for word in query], dtype=np.int64)
        counts = self._sparse.csr_matrix(
            (np.ones(len(columns)), columns, starts), shape=(len(known), max(1, len(ids)))
        )
        return _dot_products(counts, weights, lists, self._sparse)

    def _weights(self, documents: list[list[int]], ids: dict[str, int]) -> Any:
        """Return the weight of each word in each document, sparse (documents, words), float64."""
        if not ids:  # no words anywhere: the average length is 0, by which bm25s would divide
            return self._sparse.csc_matrix((len(documents), 1))
        library = self._bm25s.BM25(k1=self.k1, b=self.b, method="lucene", dtype="float64")
        library.index((documents, ids), create_empty_token=False, show_progress=False)
        by_word = (library.scores[name] for name in ("data", "indices", "indptr"))
        return self._sparse.csc_matrix(tuple(by_word), shape=(len(documents), len(ids)))


class WordIndex:
    """Scores all of many texts by `BM25`, one query after the other.

    A text of None is not there: it scores 0.
    """

    def __init__(self, texts: Iterable[str | None]) -> None:
        self._ids: dict[str, int] = {}
        documents = [None if text is None else _ids(text, self._ids) for text in texts]
        self._count = len(documents)
        self._rows = np.flatnonzero([document is not None for document in documents])
        self._weights = BM25()._weights([each for each in documents if each is not None], self._ids)

    def scores(self, query: str) -> npt.NDArray[np.float64]:
        """Return the score of each text, (n,)."""
        found = np.zeros(self._count)
        weights = self._weights
        for word in words(query):
            if (column := self._ids.get(word)) is not None:
                places = slice(weights.indptr[column], weights.indptr[column + 1])
                found[self._rows[weights.indices[places]]] += weights.data[places]
        return found


class Hybrid:
    """Words and meaning: a ranker's score plus a weight times `BM25`.

    Fulfils `encoders.FittedRanker`.
    """

    def __init__(self, ranker: Ranker) -> None:
        self.ranker = ranker
        self.bm25 = BM25()
        self._weight: float | None = None

    def fit(
        self, examples: Sequence[Example], progress: Advance | None = None
    ) -> Mapping[str, Any]:
        """Take the weight with the highest recall at 1, 1-of-100, on up to `WEIGHED_ON` examples.

        They should be none that the ranker has learned from, or words would count too little.
        """
        require_examples(examples, GROUP, "hybrid")
        # neighbours may be of one conversation
        count = min(len(examples), WEIGHED_ON) // GROUP * GROUP
        chosen = [
            examples[place] for place in np.random.default_rng(0).permutation(len(examples))[:count]
        ]
        groups = [
            [each.response for each in chosen[i : i + GROUP]] for i in range(0, len(chosen), GROUP)
        ]
        contexts = [each.context for each in chosen]
        meaning, matches = self._both(
            contexts, [groups[place // GROUP] for place in range(len(chosen))]
        )
        places = np.arange(len(chosen))
        recalls = {}
        for weight in WEIGHTS:
            scores = meaning + weight * matches
            recalls[weight] = float(
                ((scores >= scores[places, places % GROUP, None]).sum(axis=1) == 1).mean()
            )
        self._weight = max(recalls, key=recalls.__getitem__)
        if progress is not None:
            progress(2 * len(examples))
        return {
            "examples": len(chosen),
            "weight": self._weight,
            "recall_at_1": recalls[self._weight],
            "recall_at_1_without_words": recalls[0],
        }

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """Score each context's own candidates; see `Ranker.score`."""
        if self._weight is None:
            raise not_fitted("hybrid")
        meaning, matches = self._both(contexts, candidates)
        return np.asarray(meaning + self._weight * matches, dtype=np.float32)

    def _both(
        self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]
    ) -> tuple[FloatArray, FloatArray]:
        return self.ranker.score(contexts, candidates), self.bm25.score(contexts, candidates)


class TfIdf:
    """TF-IDF behind the `Ranker` protocol: the cosine of two vectors of words.

    Fulfils `encoders.FittedRanker`. A text's vector is, for each bucket w of its words of two or
    more characters,

        tf(w) * idf(w),   idf(w) = 1 + ln((1 + n) / (1 + df(w)))

    divided by its length (L2 norm), where n counts the contexts and responses of the training
    examples and df(w) those that hold w. A text without words is the zero vector and scores 0.
    """

    name = "TF-IDF"
    signed = True
    """Let two words of one bucket cancel out, as in DATA19's TF-IDF."""

    def __init__(self) -> None:
        self._features = import_extra("sklearn.feature_extraction.text", self.name, "baselines")
        self._sparse = import_extra("scipy.sparse", self.name, "baselines")
        self._idf: Any = None

    def fit(
        self, examples: Sequence[Example], progress: Advance | None = None
    ) -> Mapping[str, Any]:
        """Count in how many texts each word is; see `FittedRanker.fit`."""
        require_examples(examples, 1, self.name)
        counts = self._counts(
            [text for each in examples for text in (_newest(each.context), each.response)]
        )
        if progress is not None:
            progress(counts.shape[0])
        self._idf = self._features.TfidfTransformer().fit(counts)
        self._learn(self._idf.transform(counts))
        return {
            "examples": len(examples),
            "buckets_used": int(np.count_nonzero(document_counts(counts))),
        }

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """Score each context's own candidates; see `Ranker.score`."""
        lists = candidate_lists(contexts, candidates)
        queries = self._vectors([_newest(context) for context in contexts])
        return _dot_products(queries, self._vectors(lists.texts), lists, self._sparse)

    def _counts(self, texts: Sequence[str]) -> Any:
        hashing = self._features.HashingVectorizer(
            n_features=BUCKETS, norm=None, alternate_sign=self.signed
        )
        counts = hashing.transform(texts)
        counts.sum_duplicates()  # and sorts: texts of the same words get the very same numbers
        return counts

    def _tfidf(self, texts: Sequence[str]) -> Any:
        """Return TF-IDF vectors of unit length: sparse (n, BUCKETS), float64."""
        if self._idf is None:
            raise not_fitted(self.name)
        if not texts:  # the library refuses no text at all
            return self._sparse.csr_matrix((0, BUCKETS))
        return self._idf.transform(self._counts(texts))

    def _learn(self, tfidf: Any) -> None:
        """Learn more from the vectors of the training texts: here nothing."""

    def _vectors(self, texts: Sequence[str]) -> Any:
        """Return the vectors whose dot products are the scores: sparse (n, BUCKETS)."""
        return self._tfidf(texts)


def _ids(text: str, ids: dict[str, int]) -> list[int]:
    """Return the numbers of a text's words; new words get the next ones."""
    return [ids.setdefault(word, len(ids)) for word in words(text)]


def _newest(context: Context) -> str:
    return context[-1] if context else ""


def document_counts(matrix: Any) -> npt.NDArray[np.int64]:
    """Return in how many texts (rows) each word (column) is."""
    return np.bincount(matrix.indices[matrix.data != 0], minlength=matrix.shape[1])


def _dot_products(
    queries: Any, documents: Any, lists: CandidateLists, sparse: ModuleType
) -> FloatArray:
    """Multiply each context's words (n, words) with its candidates' (distinct, words).

    The result is (n, m) in float32. One product of sparse matrices serves all lists, by making a
    word another one in every list. Sums run in the order of the query's words, so candidates of the
    same words tie exactly.
    """
    n, m = lists.shape
    if not n * m:
        return np.zeros(lists.shape, dtype=np.float32)
    offered = documents[np.concatenate([columns for _, columns in lists.groups])]
    list_of_query = np.empty(n, dtype=np.int64)
    for number, (rows, _) in enumerate(lists.groups):
        list_of_query[rows] = number
    list_of_offered = np.repeat(np.arange(len(lists.groups)), m)
    sides = ((queries, list_of_query), (offered, list_of_offered))
    keys = [
        np.repeat(number, np.diff(side.indptr)) * side.shape[1] + side.indices
        for side, number in sides
    ]
    used, places = np.unique(np.concatenate(keys), return_inverse=True)
    left, right = (
        sparse.csr_matrix(
            (side.data, columns, side.indptr), shape=(side.shape[0], max(1, len(used)))
        )
        for (side, _), columns in zip(sides, np.split(places, [len(keys[0])]), strict=True)
    )
    # (n, m times the lists); a row has numbers among its own list's candidates only
    product = left @ right.T
    own = (product.data.astype(np.float32), product.indices % m, product.indptr)
    scores: FloatArray = sparse.csr_matrix(own, shape=(n, m)).toarray()
    return scores


def check_constants(k1: float, b: float) -> None:
    """Refuse constants of BM25 that are out of range."""
    if not 0 <= k1 < float("inf"):
        raise InputError(f"BM25's k1 must be a number of 0 or more, not {k1}")
    if not 0 <= b <= 1:
        raise InputError(f"BM25's b must lie between 0 and 1, not {b}")
