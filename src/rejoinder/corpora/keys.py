"""Texts by their words, so that equal ones are found."""

from __future__ import annotations

import unicodedata

from rejoinder.patterns import search_pattern

_WORD = search_pattern(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """Return the words by which texts are compared: runs of letters and digits, casefolded."""
    return _WORD.findall(text.casefold())


def text_key(text: str) -> str:
    """Return the key by which replies are compared.

    Letter case, spaces, punctuation and Unicode's forms (NFKC) do not count.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    letters = (" " if unicodedata.category(char)[0] == "P" else char for char in folded)
    return " ".join("".join(letters).split()) or folded
