"""Tokens of a text: runs of word characters and runs of separators (CONVERT's splitting).

A separator is a character of the Unicode classes P and Z; every other one is a word character,
controls included. A single space between two word runs is not a token; any other separator run is,
so that the text can be put together again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rejoinder.patterns import search_pattern
from rejoinder.text.characters import _PUNCTUATION, _SPACES, _class


def _tokens_pattern(end: int) -> re.Pattern[str]:
    separators = f"{_PUNCTUATION} {_SPACES}"
    word = _class(separators, end, no=True)
    separator = _class(separators, end)
    # The space that disappears is the one separator run that no alternative takes.
    return search_pattern(rf"{word}+|{separator}{{2,}}|(?! ){separator}|\A | \Z")


# Most chat is plain ASCII, and its small character class is matched three times as fast.
_ASCII_TOKENS = _tokens_pattern(0x80)

_TOKENS = _tokens_pattern(0x110000)


def lower(text: str) -> str:
    """Lower-case the letters A to Z and nothing else, so that every character keeps its place."""
    if text.isascii():
        return text.lower()
    # bytes.lower() knows ASCII only; no byte of another character's UTF-8 is an ASCII letter.
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def tokens(text: str) -> list[str]:
    """Return the tokens of a text.

    >>> tokens("well, how are you?")
    ['well', ', ', 'how', 'are', 'you', '?']
    """
    return (_ASCII_TOKENS if text.isascii() else _TOKENS).findall(text)


def token_starts(text: str) -> Iterator[tuple[int, str]]:
    """Yield each token of a text after the place of its first character."""
    pattern = _ASCII_TOKENS if text.isascii() else _TOKENS
    for match in pattern.finditer(text):
        yield match.start(), match.group()
