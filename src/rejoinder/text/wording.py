"""The wording of messages and examples: marks, chat words, emoji and tone as models know them."""

from __future__ import annotations

import functools
import html
import re
import unicodedata

from rejoinder.patterns import search_pattern
from rejoinder.text.chat_words import ALSO_ENGLISH, read_chat_words
from rejoinder.text.courtesy import has_content, words
from rejoinder.text.emoji import read_emoji
from rejoinder.text.tone import without_tone
from rejoinder.text.weekdays import read_weekdays
from rejoinder.text.words.english import other_languages

LEAST_CONTENT = 2  # words of content beside web addresses, from which these are not read
_WIDE = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_ENTITY = search_pattern(r"&(?:[A-Za-z]{2,8}|#\d{1,6}|#[xX][0-9A-Fa-f]{1,5});")
_EMPHASIS = search_pattern(r"(?:\*\*|~~)(?:(?<!\w..)(?=\S)|(?<=\S..)(?!\w))")
_BLANKS = search_pattern(r"[^\S\r\n](?:(?<! )|(?=[^\S\r\n]))[^\S\r\n]*+")  # no blank alone
_WEB = r"(?:https?://|www\.)[^\s<>\"()]{1,2000}(?<![.,;:!?'])"
_ADDRESS = search_pattern(rf"\({_WEB}\)|<{_WEB}>|\b{_WEB}", re.IGNORECASE)
_BEFORE_MARK = search_pattern(r" (?<!\s )(?=[?!.,;](?:\s|\Z))")


def plain_wording(text: str) -> str:
    """Return a text in plain words, with usual blanks, letters and marks.

    One blank is between two words, and none before a mark; nothing is of full width, an entity of
    HTML, or emphasised as in Markdown. The words of a web address are not read. A letter and its
    accent are one (NFC). Beside a word of another language there are no English short forms: "u" is
    Dutch, too.

    >>> plain_wording("omg r u open tmrw???")
    'are you open tomorrow?'
    """
    narrow = text if text.isascii() else text.translate(_WIDE)
    plain = _ENTITY.sub(lambda entity: html.unescape(entity[0]), narrow)
    plain = _without_addresses(unicodedata.normalize("NFC", plain))
    plain = _BLANKS.sub(" ", _EMPHASIS.sub("", plain))
    read = read_weekdays(read_emoji(_BEFORE_MARK.sub("", plain)))  # before "mon" makes it French
    if _never_english().isdisjoint(words(read)):
        read = read_chat_words(read)
    return without_tone(read)


@functools.cache
def _never_english() -> frozenset[str]:
    return frozenset(other_languages()) - ALSO_ENGLISH


def _without_addresses(text: str) -> str:
    """Return a text without web addresses, if it says something besides.

    Their words say where something is, not what.
    """
    if "://" not in text and "www." not in text.lower():
        return text
    rest = _ADDRESS.sub("", text)
    tokens = [word for word in words(rest) if word.isalpha() and has_content(word)]
    return rest if len(tokens) >= LEAST_CONTENT else text
