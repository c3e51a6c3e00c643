"""An index of words: all of many texts are scored by `BM25`, one query after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rejoinder.encoders.words.keywords import BM25, word_ids, words
from rejoinder.encoders.words.sparse import SparseRows


class Matches(NamedTuple):
    """Texts that have a word."""

    texts: npt.NDArray[np.int64]  # their numbers
    counts: npt.NDArray[np.int32]  # how often each has it
    lengths: npt.NDArray[np.int32]  # how many words each has

    def at(self, places: slice | npt.NDArray[np.bool_]) -> Matches:
        """Return some of them."""
        return Matches(self.texts[places], self.counts[places], self.lengths[places])


class _Weighed(NamedTuple):
    texts: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]


class Postings:
    """Postings of some texts: which have a word, how often, and how many words each text has."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._ids: dict[str, int] = {}
        documents = [word_ids(text, self._ids) for text in texts]
        self.lengths = np.array([len(document) for document in documents], dtype=np.int32)
        counts = SparseRows.counting(documents)
        by_word = np.argsort(counts.words, kind="stable")
        rows = counts.rows[by_word]
        values = counts.values[by_word].astype(np.int32)
        self._found = Matches(rows, values, self.lengths[rows])
        self._starts = np.searchsorted(counts.words[by_word], np.arange(len(self._ids) + 1))

    def of(self, word: str, gone: npt.NDArray[np.bool_] | None) -> Matches:
        """Return the texts that have a word, without those that are gone."""
        number = self._ids.get(word)
        places = slice(0) if number is None else slice(*self._starts[number : number + 2])
        matches = self._found.at(places)
        return matches if gone is None else matches.at(~gone[matches.texts])


class WordIndex:
    """Scores texts of several parts by `BM25`, whose figures are counted over all of them.

    Args:
        parts: of the texts, each with flags of those that are gone, or None: these score 0.
    """

    def __init__(self, parts: Sequence[tuple[Postings, npt.NDArray[np.bool_] | None]]) -> None:
        self._parts = parts
        self._bm25 = BM25()
        self._known: dict[str, list[_Weighed]] = {}  # of words that queries had
        lengths = [
            postings.lengths if gone is None else postings.lengths[~gone]
            for postings, gone in parts
        ]
        self._count = sum(map(len, lengths))
        total = sum(int(part_lengths.sum()) for part_lengths in lengths)
        self._mean_length = total / max(self._count, 1)

    @classmethod
    def of(cls, texts: Iterable[str]) -> WordIndex:
        """Return the index of some texts."""
        return cls([(Postings(texts), None)])

    def scores(self, query: str) -> npt.NDArray[np.float64]:
        """Return the score of each text, (n,)."""
        scores = [np.zeros(len(postings.lengths)) for postings, _ in self._parts]
        for word in words(query):
            for own, (texts, weights) in zip(scores, self._weighed(word), strict=False):
                own[texts] += weights
        return np.concatenate([np.zeros(0), *scores])

    def _weighed(self, word: str) -> list[_Weighed]:
        """Return the texts of each part that have a word, with what it adds to their scores."""
        if word not in self._known:
            matches = [postings.of(word, gone) for postings, gone in self._parts]
            frequency = sum(len(match.texts) for match in matches)
            if not frequency:
                return []
            rarity = float(self._bm25.rarity(self._count, frequency))
            self._known[word] = [self._weigh(match, rarity) for match in matches]
        return self._known[word]

    def _weigh(self, matches: Matches, rarity: float) -> _Weighed:
        held_back = self._bm25.held_back(matches.lengths, self._mean_length)
        return _Weighed(matches.texts, rarity * matches.counts / (held_back + matches.counts))
