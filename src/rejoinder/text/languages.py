"""Detection of English texts by the frequent English words."""

from __future__ import annotations

from collections.abc import Sequence

from rejoinder.patterns import search_pattern
from rejoinder.text.words.english import COMMON, english

ENGLISH_SHARE = 0.7
"""Of the words of an English text that are frequent ones, names and typos aside."""
MAX_WORDS = 200  # of a text that are looked at
_WORD = search_pattern(r"[^\W\d_]+")


def english_share(text: str) -> float:
    """Return the share of a text's words that are frequent English ones; 1.0 without words."""
    ranks = english()
    words = [match[0].lower() for match in _WORD.finditer(text[: 10 * MAX_WORDS])]
    known = sum(ranks.get(word, COMMON) < COMMON for word in words)
    return known / len(words) if words else 1.0


def is_english(text: str) -> bool:
    """Return whether a text is probably English."""
    return english_share(text) >= ENGLISH_SHARE


def are_mostly_english(texts: Sequence[str]) -> bool:
    """Return whether at least half of some texts are probably English."""
    return 2 * sum(map(is_english, texts)) >= len(texts)
