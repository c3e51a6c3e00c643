"""Is a message fit to be learned from? Pure functions of one message; the first rule broken is the reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rejoinder.corpora.pretraining.recipe import Filters
from rejoinder.corpora.splits import words_of

_URL = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_COMMAND = re.compile(r"\s*[!/][a-z]\w*\s*", re.IGNORECASE)
_REPEATING = 6


def no_words(_text: str, words: Sequence[str], _filters: Filters) -> bool:
    """No letter and no digit is in it."""
    return not words


def too_long(_text: str, words: Sequence[str], filters: Filters) -> bool:
    """More words than `most_words`."""
    return len(words) > filters.most_words


def only_links(text: str, _words: Sequence[str], _filters: Filters) -> bool:
    """Nothing is left without its web addresses."""
    return _URL.search(text) is not None and not words_of(_URL.sub(" ", text))


def mostly_no_letters(text: str, words: Sequence[str], filters: Filters) -> bool:
    """Words of letters alone make less than `fewest_letters` of its characters without spaces."""
    return sum(len(word) for word in words if word.isalpha()) < filters.fewest_letters * (len(text) - text.count(" "))


def repeated_word(_text: str, words: Sequence[str], filters: Filters) -> bool:
    """One word is more than `most_repeated` of six words or more."""
    if len(words) < _REPEATING:
        return False
    return max(Counter(words).values()) > filters.most_repeated * len(words)


def command(text: str, _words: Sequence[str], _filters: Filters) -> bool:
    """A command to a chat robot and nothing else, "!paste" say."""
    return _COMMAND.fullmatch(text) is not None


RULES = (no_words, too_long, only_links, mostly_no_letters, repeated_word, command)
"""In the order in which they are asked."""
REASONS = tuple(rule.__name__.replace("_", " ") for rule in RULES)


def fault_of(text: str, words: Sequence[str], filters: Filters) -> int:
    """Number of the first rule that the message breaks, from 1; 0 if it breaks none.

    Args:
        text: the message.
        words: its `splits.words_of`.
        filters: the limits.
    """
    return next((number for number, rule in enumerate(RULES, 1) if rule(text, words, filters)), 0)
