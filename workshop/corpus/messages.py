"""Single messages: cleaned of transcription, judged fit to learn from, drawn on for personas.

Pure functions. What someone states in the first person elsewhere in a conversation is put before an
example as the persona of the one who replies, so that a model learns to read those of the few and
small sets that have them (Mazaré et al. 2018).
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence

from rejoinder.conversations import PERSONA
from rejoinder.corpora.keys import words_of
from workshop.corpus.plan import Filters

_BRACKETS = re.compile(r"\[[^\[\]]{0,80}\]")
_PARENTHESES = re.compile(r"\([a-z][a-z',\- ]{0,60}\)")
_BEFORE_MARK = re.compile(r" +(?=(?:[,.?!;:%)]|'(?:s|m|re|ve|ll|d|t)\b|n't\b))", re.IGNORECASE)
_MARK = re.compile(r"(?<=\w)(?=[,.?!;:](?:\s|$))")
_URL = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_COMMAND = re.compile(r"\s*[!/][a-z]\w*\s*", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_FIRST_PERSON = re.compile(r"\b(?:i|my|me|we)\b", re.IGNORECASE)

FEWEST = 3  # statements of a persona
MOST = 5

CLEANERS: dict[str, Callable[[str], str]] = {  # named by a source's `clean`
    "brackets": lambda text: _BRACKETS.sub(" ", text),  # "[laughs]", "[01:08:04.19]"
    "parentheses": lambda text: _PARENTHESES.sub(" ", text),  # lower-case asides: "(groans)"
    # a tokenizer's: "Yeah , it 's" becomes "Yeah, it's"
    "spacing": lambda text: _BEFORE_MARK.sub("", text),
}
# What makes a message unfit, by (text, its words, limits), in the order in which it is asked.
RULES: dict[str, Callable[[str, Sequence[str], Filters], bool]] = {
    "no words": lambda _, words, __: not words,
    "too long": lambda _, words, filters: len(words) > filters.most_words,
    "only links": lambda text, _, __: (
        _URL.search(text) is not None and not words_of(_URL.sub(" ", text))
    ),
    "mostly no letters": lambda text, words, filters: (
        sum(len(word) for word in words if word.isalpha())
        < filters.fewest_letters * (len(text) - text.count(" "))
    ),
    "repeated word": lambda _, words, filters: (
        len(words) >= 6 and max(Counter(words).values()) > filters.most_repeated * len(words)
    ),
    # to a chat robot, and nothing else
    "command": lambda text, _, __: _COMMAND.fullmatch(text) is not None,
}


def clean(text: str, names: Sequence[str]) -> str:
    """Put the text through these cleaners, in this order; what they changed has single spaces."""
    cleaned = text
    for name in names:
        cleaned = CLEANERS[name](cleaned)
    return text if cleaned == text else " ".join(cleaned.split())


def spaced_out(text: str) -> str:
    """Put a space before each mark that ends a word, as tokenised data sets do: "Yeah , it's"."""
    return _MARK.sub(" ", text)


def fault_of(text: str, words: Sequence[str], filters: Filters) -> int:
    """Return the number of the first rule that a message breaks, from 1; 0 if it breaks none."""
    return next(
        (number for number, breaks in enumerate(RULES.values(), 1) if breaks(text, words, filters)),
        0,
    )


def statements(turns: Sequence[str]) -> list[tuple[int, str]]:
    """Return the sentences in the first person, with their turns' places.

    They have 4 to 14 words and are not questions.
    """
    found = (
        (place, text)
        for place, turn in enumerate(turns)
        for text in _SENTENCE_END.split(turn.strip())
    )
    return [
        (place, text)
        for place, text in found
        if 4 <= len(text.split()) <= 14 and not text.endswith("?") and _FIRST_PERSON.search(text)
    ]


def persona_of(
    place: int, response: str, said: Sequence[tuple[int, str]], rng: random.Random
) -> str:
    """Draw statements of the one who responds, who speaks at every second place, as one message.

    "" if too few. What is part of the response is left out, and so is what the speaker's message
    before it or after it says: it may be the same sentence cut in two.
    """
    own = [
        text
        for other, text in said
        if other % 2 == place % 2 and abs(other - place) > 2 and text not in response
    ]
    own = list(dict.fromkeys(own))
    if len(own) < FEWEST:
        return ""
    return " ".join(
        PERSONA + text for text in rng.sample(own, min(len(own), rng.randint(FEWEST, MOST)))
    )
