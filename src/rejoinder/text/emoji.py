"""Emoji as words, by the names that Unicode gives them.

Models know few of them, so that all of these would have one vector.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable

from rejoinder.patterns import search_pattern
from rejoinder.text.courtesy import has_content, is_courteous

# pictographs, dingbats, symbols and flags, with what follows them: joiners, skin tones, selectors
_PICTURE = (
    "\u203c\u2049\u2139\u2194-\u21aa\u231a-\u23ff\u25aa-\u25fe\u2600-\u27bf\u2934\u2935"
    "\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
LEAST_WORDS = 3  # beside which emoji only give the tone
_RUN = search_pattern(f"[{_PICTURE}][{_PICTURE}\u200d\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f]*+")
_TONES = range(0x1F3FB, 0x1F400)
_DROPPED = frozenset("\u200d\ufe0e\ufe0f\u20e3")
_NAME_NOISE = "face sign symbol with of mark the black white heavy"
_NOISE = frozenset(_NAME_NOISE.split())


def read_emoji(text: str) -> str:
    """Return a text without the emoji beside what is said; others are read as their names."""
    if text.isascii():
        return text
    rest = without_emoji(text)
    is_said = has_content(rest) or len(rest.split()) >= LEAST_WORDS
    return rest if is_said or is_courteous(rest) else name_emoji(text)


def name_emoji(text: str) -> str:
    """Return a text with the names of its emoji in their places.

    >>> name_emoji("thanks \U0001f44d\U0001f3fd")
    'thanks thumbs up'
    """
    if text.isascii() or _RUN.search(text) is None:
        return text
    return _replaced(text, lambda match: f" {_names(match[0])} ")


def without_emoji(text: str) -> str:
    """Return a text without its emoji."""
    if text.isascii() or _RUN.search(text) is None:
        return text
    return _replaced(text, lambda _: " ")


def _replaced(text: str, replacement: Callable[[re.Match[str]], str]) -> str:
    """Return a text with its emoji replaced; lines without any stay as they are."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if _RUN.search(line):
            lines[number] = " ".join(_RUN.sub(replacement, line).split())
    return "\n".join(lines)


@functools.lru_cache(maxsize=1024)
def _names(run: str) -> str:
    names: dict[str, None] = {}
    for character in run:
        code = ord(character)
        if character in _DROPPED or code in _TONES or code >= 0xE0000:
            continue
        words = unicodedata.name(character, "").lower().replace("-", " ").split()
        kept = [word for word in words if word not in _NOISE] or words
        names[" ".join(kept)] = None
    return " ".join(names)
