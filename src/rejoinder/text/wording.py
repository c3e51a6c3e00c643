"""The wording of messages and examples: chat words, emoji and tone as models know them."""

from __future__ import annotations

from rejoinder.text.chat_words import read_chat_words
from rejoinder.text.courtesy import words
from rejoinder.text.emoji import read_emoji
from rejoinder.text.spelling import other_languages
from rejoinder.text.tone import without_tone


def plain_wording(text: str) -> str:
    """Return a text in plain words.

    Beside a word of another language there are no English short forms: "u" is Dutch, too.

    >>> plain_wording("omg r u open tmrw???")
    'are you open tomorrow?'
    """
    read = read_emoji(text)
    if other_languages().isdisjoint(words(read)):
        read = read_chat_words(read)
    return without_tone(read)
