"""Building a vocabulary of n-grams: the frequent words, and the most frequent pairs of them (ACL19, section 3)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError
from rejoinder.text.ngrams import END, START, NGrams, words_of

_Numbers = npt.NDArray[np.int64]


def build_ngrams(
    texts: Iterable[str], *, minimum_count: int = 10, bigrams: int = 200_000, buckets: int = 50_000
) -> NGrams:
    """Build the vocabulary of a corpus. The order of the texts does not matter.

    Args:
        texts: the corpus; read once.
        minimum_count: how often a word must be seen.
        bigrams: how many pairs to keep, the most frequent ones of known words; of equally frequent ones the first by
            their words.
        buckets: ids for what is unknown.

    Raises:
        InputError: there is no word in the texts.
    """
    names, stream = _numbered(texts)
    if len(stream) == 0:
        raise InputError("there is no word in the texts to build a vocabulary of")
    counts = np.bincount(stream, minlength=len(names))
    kept = [number for number, count in enumerate(counts.tolist()) if count >= minimum_count or number < 2]
    # The marks first, then by frequency, then by the word: ids do not depend on the order of the texts.
    kept[2:] = sorted(kept[2:], key=lambda number: (-counts[number], names[number]))
    place = np.full(len(names), -1)
    place[kept] = np.arange(len(kept))
    return NGrams([names[number] for number in kept], _frequent_pairs(place[stream], bigrams), buckets)


def _numbered(texts: Iterable[str]) -> tuple[list[str], _Numbers]:
    """All different words, START and END first, and the texts as one row of their numbers."""
    numbers = {START: 0, END: 1}
    stream = array("i")
    for text in texts:
        words = [numbers.setdefault(word, len(numbers)) for word in words_of(text.lower())]
        if words:
            stream.extend([0, *words, 1])
    return list(numbers), np.frombuffer(stream, np.int32).astype(np.int64)


def _frequent_pairs(words: _Numbers, limit: int) -> _Numbers:
    """The most frequent pairs of neighbours, (at most limit, 2); -1 stands for an unknown word."""
    first, second = words[:-1], words[1:]
    inside = (first >= 0) & (second >= 0) & (first != 1)  # END and START of the next text are no neighbours
    keys, counts = np.unique(first[inside] << 32 | second[inside], return_counts=True)
    chosen = keys[np.argsort(-counts, kind="stable")[:limit]]  # equal counts: by their words' ranks
    return np.stack([chosen >> 32, chosen & (2**32 - 1)], axis=1)
