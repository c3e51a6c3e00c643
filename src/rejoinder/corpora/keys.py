"""Texts by their words, so that equal ones are found."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from rejoinder.patterns import search_pattern

_WORD = search_pattern(r"[^\W_]+")


class _Blanks(dict[int, int]):
    """Translation of letters to those of a key; filled as letters are met. Punctuation is blank."""

    def __missing__(self, code: int) -> int:
        is_punctuation = unicodedata.category(chr(code))[0] == "P"
        self[code] = ord(" ") if is_punctuation else code
        return self[code]


_BLANKS = _Blanks()


def words_of(text: str) -> list[str]:
    """Return the words by which texts are compared: runs of letters and digits, casefolded."""
    return _WORD.findall(text.casefold())


def text_key(text: str) -> str:
    """Return the key by which replies are compared.

    Letter case, spaces, punctuation and Unicode's forms (NFKC) do not count.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.translate(_BLANKS).split()) or folded


def context_key(context: Iterable[str]) -> str:
    """Return the key by which conversations are compared: that of their messages as one text."""
    return text_key(" ".join(context))
