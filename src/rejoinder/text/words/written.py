"""Words as they are written: what is a word of a text, a name, a code."""

from __future__ import annotations

from rejoinder.patterns import search_pattern

WORD = search_pattern(r"[^\W\d_]+(?:['\u2019][^\W\d_]{1,3}+)?+")
_CODE = frozenset("0123456789@/#_\\")


def plain(text: str) -> str:
    """Return a word or a text without capitals, its apostrophes straight."""
    return text.lower().replace("\u2019", "'")


def is_name(word: str) -> bool:
    """Return whether a word is written as a name is."""
    return word[0].isupper() and not word.isupper()


def is_code(chunk: str) -> bool:
    """Return whether what stands between blanks is a number, an address or the like."""
    return not _CODE.isdisjoint(chunk) or "." in chunk.strip(".,;:!?)'\"")
