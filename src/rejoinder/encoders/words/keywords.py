"""Keyword rankers: candidates that share rare words with the newest message rank first.

The bar for every model. `BM25` is Robertson and Zaragoza's, "The Probabilistic Relevance Framework:
BM25 and Beyond" (2009), equation 3.15, with Lucene's inverse document frequency. `TfIdf` is that of
Henderson and others, "A Repository of Conversational Datasets" (2019), section 4.1, and of its
code: it learns from training examples how rare words are.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray
from rejoinder.conversations import Conversation, read_contexts
from rejoinder.corpora.schema import Example
from rejoinder.encoders.candidates import candidate_lists
from rejoinder.encoders.protocol import Ranker
from rejoinder.encoders.words.fitted import not_fitted, require_examples
from rejoinder.encoders.words.sparse import SparseRows, dot_products
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
    """Return the lower-cased runs of letters, digits and underscores, in order.

    A letter and its accent are one letter (Unicode's NFC), as macOS does not write them.
    """
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


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

    def score(
        self, contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]
    ) -> FloatArray:
        """Score each context's own candidates; see `Ranker.score`.

        Those of the same words get the very same score.
        """
        lists = candidate_lists(contexts, candidates)
        ids: dict[str, int] = {}
        documents = self.weights([word_ids(text, ids) for text in lists.texts])
        known = [
            [ids[word] for word in words(_newest(context)) if word in ids] for context in contexts
        ]
        return dot_products(SparseRows.of_ones(known), documents, lists)

    def weights(self, documents: Sequence[Sequence[int]]) -> SparseRows:
        """Return the weight of each word in each document, a row each."""
        counts = SparseRows.counting(documents)
        if not len(counts.words):  # no words anywhere: the average length is 0
            return counts
        lengths = np.array([len(document) for document in documents], dtype=np.float64)
        rarity = self.rarity(len(documents), np.bincount(counts.words))
        held_back = self.held_back(lengths, lengths.mean())
        values = rarity[counts.words] * counts.values / (held_back[counts.rows] + counts.values)
        return dataclasses.replace(counts, values=values)

    def rarity(self, count: int, frequencies: Any) -> Any:
        """Return idf of words that so many of `count` documents have."""
        return np.log(1 + (count - frequencies + 0.5) / (frequencies + 0.5))

    def held_back(self, lengths: Any, mean_length: float) -> Any:
        """Return what is added to tf in the divisor for documents of some lengths."""
        return self.k1 * (1 - self.b) + self.k1 * self.b / mean_length * lengths


class Hybrid:
    """Words and meaning: a ranker's score plus a weight times `BM25`.

    Fulfils `encoders.protocol.FittedRanker`.
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
            examples[position]
            for position in np.random.default_rng(0).permutation(len(examples))[:count]
        ]
        groups = [
            [example.response for example in chosen[i : i + GROUP]]
            for i in range(0, len(chosen), GROUP)
        ]
        contexts = [example.context for example in chosen]
        meaning, matches = self._both(
            contexts, [groups[position // GROUP] for position in range(len(chosen))]
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

    def score(
        self, contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]
    ) -> FloatArray:
        """Score each context's own candidates; see `Ranker.score`."""
        if self._weight is None:
            raise not_fitted("hybrid")
        meaning, matches = self._both(contexts, candidates)
        return np.asarray(meaning + self._weight * matches, dtype=np.float32)

    def _both(
        self, contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]
    ) -> tuple[FloatArray, FloatArray]:
        return self.ranker.score(contexts, candidates), self.bm25.score(contexts, candidates)


class TfIdf:
    """TF-IDF behind the `Ranker` protocol: the cosine of two vectors of words.

    Fulfils `encoders.protocol.FittedRanker`. A text's vector is, for each bucket w of its words of
    two or more characters,

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
            [text for example in examples for text in (_newest(example.context), example.response)]
        )
        if progress is not None:
            progress(counts.shape[0])
        self._idf = self._features.TfidfTransformer().fit(counts)
        self._learn(self._idf.transform(counts))
        return {
            "examples": len(examples),
            "buckets_used": int(np.count_nonzero(document_counts(counts))),
        }

    def score(
        self, contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]
    ) -> FloatArray:
        """Score each context's own candidates; see `Ranker.score`."""
        lists = candidate_lists(contexts, candidates)
        queries = self._vectors([_newest(context) for context in contexts])
        documents = self._vectors(lists.texts)
        return dot_products(SparseRows.of(queries), SparseRows.of(documents), lists)

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


def word_ids(text: str, ids: dict[str, int]) -> list[int]:
    """Return the numbers of a text's words; new words get the next ones."""
    return [ids.setdefault(word, len(ids)) for word in words(text)]


def _newest(context: Conversation) -> str:
    """Return the newest message of a conversation; none of a conversation without messages."""
    return read_contexts([context])[0][-1] if context else ""


def document_counts(matrix: Any) -> npt.NDArray[np.int64]:
    """Return in how many texts (rows) each word (column) is."""
    return np.bincount(matrix.indices[matrix.data != 0], minlength=matrix.shape[1])


def check_constants(k1: float, b: float) -> None:
    """Refuse constants of BM25 that are out of range."""
    if not 0 <= k1 < float("inf"):
        raise InputError(f"BM25's k1 must be a number of 0 or more, not {k1}")
    if not 0 <= b <= 1:
        raise InputError(f"BM25's b must lie between 0 and 1, not {b}")
