"""A list of words, in which those that are a few slips away from another word are found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

BINS = 32  # in which letters are counted: each letter of English has its own
MOST_COUNTED = 127  # letters of one bin, since a difference has 8 bits


class WordList:
    """Words, with the counts of their letters: 32 bytes a word.

    A slip changes the counts by two in all, so few words are compared letter by letter.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self._counts = _count_letters(self.words)

    def within(self, word: str, slips: int) -> list[tuple[str, int]]:
        """Return the words that are at most so many slips away, and how many.

        A slip is a letter too many, missing, or another one, or two letters in the wrong order.
        """
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        differences = np.abs(self._counts - _count_letters([word])).sum(0, dtype=np.int16)
        alike = [self.words[at] for at in np.flatnonzero(differences <= 2 * slips).tolist()]
        matches = process.extract(word, alike, scorer=OSA.distance, score_cutoff=slips, limit=None)
        return [(near, distance) for near, distance, _ in matches]


def _count_letters(words: Sequence[str]) -> npt.NDArray[np.int8]:
    """Return how many letters of each bin words have, (bins, n)."""
    codes = np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), "<u4")
    owners = np.repeat(np.arange(len(words)), [len(word) for word in words])
    counts = np.bincount(codes % BINS * len(words) + owners, minlength=BINS * len(words))
    return counts.clip(max=MOST_COUNTED).astype(np.int8).reshape(BINS, len(words))
