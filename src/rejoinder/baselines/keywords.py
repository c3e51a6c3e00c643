"""BM25: candidates that share rare words with the newest message rank first. The bar every model has to clear.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), equation 3.15, with
the inverse document frequency of Lucene, which is never negative (Kamphuis and others, ECIR 2020, table 1, "Lucene
(accurate)"). The library bm25s computes the weight of each word in each candidate; this file only adds them up.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

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
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.ranker import Context, FloatArray

if TYPE_CHECKING:
    from types import ModuleType

IntArray = npt.NDArray[np.int64]

_WORD = re.compile(r"\w+")


def words(text: str, stop_words: Collection[str] = ()) -> list[str]:
    """Lower-cased runs of letters, digits and underscores, in order, without those in `stop_words`."""
    found: list[str] = _WORD.findall(text.lower())
    return [word for word in found if word not in stop_words] if stop_words else found


class BM25:
    """Textbook BM25 behind the `Ranker` protocol. It learns nothing: each call of `score` is a corpus of its own.

    The score of a candidate is the sum, over the words of the query that it holds, of

        idf(w) * tf / (tf + k1 * (1 - b + b * length / average_length)),   idf(w) = ln(1 + (n - df + 0.5) / (df + 0.5))

    where n, df and average_length are counted over the distinct candidates of the call. A word that stands twice in
    the query counts twice. A query or a candidate without words scores 0.
    """

    def __init__(
        self,
        *,
        k1: float = 1.5,
        b: float = 0.75,
        whole_context: bool = False,
        stop_words: Collection[str] = (),
    ) -> None:
        """Set the formula's constants and what counts as the query.

        Args:
            k1: how slowly repetitions of a word saturate, 0 or more; 1.2 to 2.0 are usual.
            b: how much long candidates are held back, from 0 (not at all) to 1 (in proportion to their length).
            whole_context: search with every message of the context, not only with the newest one.
            stop_words: lower-cased words to leave out of queries and candidates.

        Raises:
            InputError: a setting is out of range.
            MissingExtraError: bm25s is not installed.
        """
        if not 0 <= k1 < float("inf"):
            raise InputError(f"BM25's k1 must be a number of 0 or more, not {k1}")
        if not 0 <= b <= 1:
            raise InputError(f"BM25's b must lie between 0 and 1, not {b}")
        if isinstance(stop_words, str):
            raise InputError(f"stop_words must be a collection of words, not the text {stop_words!r}")
        self.k1 = k1
        self.b = b
        self.whole_context = whole_context
        self.stop_words = frozenset(stop_words)
        self._bm25s = _import_bm25s()

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """Score each context's own candidates; see `Ranker.score`. The time is linear in their number.

        Args:
            contexts: n conversations, oldest message first.
            candidates: n lists of m texts. Contexts that share one list object are scored together, which is fast.

        Returns:
            Array (n, m), float32, 0 or more. Candidates of the same words get the very same score.

        Raises:
            InputError: not one list for each context, or lists of different lengths.
        """
        width = common_length(contexts, candidates)
        texts, columns = number_texts(candidates)
        vocabulary: dict[str, int] = {}
        weights = self._weights(texts, vocabulary)
        queries = [self._query(context, vocabulary) for context in contexts]
        scores = np.zeros((len(contexts), width), dtype=np.float32)
        for key, rows in rows_of_each_list(candidates).items():
            scores[rows] = _score_block([queries[row] for row in rows], weights.of(columns[key]), width)
        return scores

    def index(self, texts: Sequence[str]) -> BM25Index:
        """Make texts searchable: n, df and average_length of the formula are counted over them, copies included."""
        vocabulary: dict[str, int] = {}
        entries = self._weights(texts, vocabulary).of(np.arange(len(texts)))
        return BM25Index(self, entries, vocabulary, len(texts))

    def _query(self, context: Context, vocabulary: dict[str, int]) -> IntArray:
        """Ids of the query's words that any candidate holds, repetitions included."""
        found = words(query_text(context, self.whole_context), self.stop_words)
        return np.array([vocabulary[word] for word in found if word in vocabulary], dtype=np.int64)

    def _weights(self, documents: Sequence[str], vocabulary: dict[str, int]) -> _Weights:
        """Weight of each word in each document, computed by bm25s. Fills `vocabulary`."""
        ids = [
            [vocabulary.setdefault(word, len(vocabulary)) for word in words(document, self.stop_words)]
            for document in documents
        ]
        if not vocabulary:  # no words anywhere: the average length is 0, by which bm25s would divide
            nothing = np.zeros(0, dtype=np.int64)
            return _Weights(np.zeros(len(documents) + 1, dtype=np.int64), nothing, nothing.astype(np.float64))
        library = self._bm25s.BM25(k1=self.k1, b=self.b, method="lucene", dtype="float64")
        library.index((ids, vocabulary), create_empty_token=False, show_progress=False)
        # bm25s files the weights by word; we want them by document.
        by_word = library.scores
        order = np.argsort(by_word["indices"], kind="stable")
        word_of = np.repeat(np.arange(len(vocabulary)), np.diff(by_word["indptr"]))
        sizes = np.bincount(by_word["indices"], minlength=len(documents))
        return _Weights(np.concatenate(([0], np.cumsum(sizes))), word_of[order], by_word["data"][order])


class BM25Index:
    """Texts by their words; made by `BM25.index`."""

    def __init__(self, ranker: BM25, entries: _Entries, vocabulary: dict[str, int], size: int) -> None:
        self._ranker, self._entries, self._vocabulary, self._size = ranker, entries, vocabulary, size

    def __len__(self) -> int:
        return self._size

    def search(self, contexts: Sequence[Context], k: int = 10) -> Hits:
        """The k best of all indexed texts for each context; texts without a word of the query score 0.

        Raises:
            InputError: k is below 1.
        """
        check_k(k)
        step = max(1, CELLS // max(1, self._size))
        found = [best(np.zeros((0, self._size)), k)]
        for start in range(0, len(contexts), step):
            queries = [self._ranker._query(context, self._vocabulary) for context in contexts[start : start + step]]
            found.append(best(_score_block(queries, self._entries, self._size), k))
        return Hits(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


class _Entries(NamedTuple):
    """The weights of m candidates, sorted by word: entry e says that candidate `column[e]` holds `word[e]`."""

    word: IntArray
    column: IntArray
    weight: npt.NDArray[np.float64]


class _Weights(NamedTuple):
    """A sparse matrix (documents, words): row d is entries `start[d]` to `start[d + 1]`."""

    start: IntArray
    word: IntArray
    weight: npt.NDArray[np.float64]

    def of(self, documents: IntArray) -> _Entries:
        """The rows of `documents` (m,), which may repeat, as entries sorted by word."""
        sizes = self.start[documents + 1] - self.start[documents]
        entries = _ranges(self.start[documents], sizes)
        column = np.repeat(np.arange(len(documents)), sizes)
        order = np.argsort(self.word[entries], kind="stable")
        entries = entries[order]
        return _Entries(self.word[entries], column[order], self.weight[entries])


def _score_block(queries: Sequence[IntArray], entries: _Entries, width: int) -> npt.NDArray[np.float64]:
    """Scores (n, width) of n queries, lists of word ids, for the candidates that `entries` describe.

    Every sum runs over the words of the query in their order, so candidates of the same words tie exactly, wherever
    they stand; a matrix product would round them apart.
    """
    word = np.concatenate(queries)
    row = np.repeat(np.arange(len(queries)), [len(query) for query in queries])
    first = np.searchsorted(entries.word, word, side="left")
    holders = np.searchsorted(entries.word, word, side="right") - first
    hits = _ranges(first, holders)
    cell = np.repeat(row, holders) * width + entries.column[hits]
    sums = np.zeros(len(queries) * width)
    sums += np.bincount(cell, weights=entries.weight[hits], minlength=len(sums))
    return sums.reshape(len(queries), width)


def _ranges(starts: IntArray, sizes: IntArray) -> IntArray:
    """The numbers start, start + 1, ..., start + size - 1 of each pair, one range after the other."""
    ends = np.cumsum(sizes)
    return np.arange(sizes.sum()) + np.repeat(starts - (ends - sizes), sizes)


def _import_bm25s() -> ModuleType:
    try:
        import bm25s
    except ImportError as error:
        raise MissingExtraError("BM25", "baselines") from error
    module: ModuleType = bm25s
    return module
