"""The share of a message's words that are among known ones, rare words counting more.

A small encoder places "play some jazz" beside "tell me a joke"; their words differ.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Set as AbstractSet

from rejoinder.patterns import search_pattern
from rejoinder.text.words.english import english

MAX_LETTERS = 2_000  # of a text whose words are read
RANK_OF_UNKNOWN = 30_000  # of a word that is not English, in a list of frequencies
_WORD = search_pattern(r"[^\W\d_]+(?:['\u2019][^\W\d_]{1,3}+)?+")


@functools.lru_cache(maxsize=16_384)
def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, in lower case."""
    return frozenset(_WORD.findall(text[:MAX_LETTERS].lower().replace("\u2019", "'")))


def word_overlap(text: str, known: AbstractSet[str]) -> float:
    """Return the share, 0 to 1, of a text's words that are known, each by its rarity."""
    weights = {word: _rarity(word) for word in word_set(text)}
    total = sum(weights.values())
    return sum(weights[word] for word in weights.keys() & known) / total if total else 0.0


def _rarity(word: str) -> float:
    return math.log(2 + english().get(word.partition("'")[0], RANK_OF_UNKNOWN))
