"""Messages of other languages than English, told by words and letters.

Those of an index count as known, whatever their language.
"""

from __future__ import annotations

from rejoinder.text.words.english import COMMON, english, other_languages
from rejoinder.text.words.own_words import OwnWords
from rejoinder.text.words.written import WORD, is_code, is_name, plain

MAX_UNKNOWN = 0.5  # of the words of a text that is not foreign
MAX_LETTERS = 1_000  # of a message whose language is looked at
FUNCTIONAL = 100  # English words that nearly every sentence has: "the", "is", "my"
LEAST_FUNCTIONAL = 2  # of these in a sentence that is English beside others that are not
LEAST_OTHER = 1  # frequent words of another language, and
OTHER_SHARE = 0.25  # of the words of a text, from which it has no typos
LAST_LATIN = "\u024f"
_PURELY_ENGLISH_WORDS = "the my your you and this that it i i'm have what with from"
_PURELY_ENGLISH = frozenset(_PURELY_ENGLISH_WORDS.split())


def is_foreign(text: str, own: OwnWords) -> bool:
    """Return whether most words of a text are neither English nor of the index.

    Frequent words of other languages count as such, unless the index has them; names do not.
    """
    if own.is_of_other_language:
        return False
    matches = list(WORD.finditer(_without_codes(text[:MAX_LETTERS])))
    named = [number > 0 and is_name(match[0]) for number, match in enumerate(matches)]
    words = [
        plain(match[0]) for match, is_named in zip(matches, named, strict=True) if not is_named
    ]
    if all(map(own.is_strange, words)):  # beside strange words, names are strange too
        words = [plain(match[0]) for match in matches]
    unknown = [word for word in words if own.is_strange(word)]
    is_one_word = len(words) == 1 and words[0].isascii() and len(set(words[0])) > 1
    return not is_one_word and len(unknown) > MAX_UNKNOWN * len(words)


def is_other_language(text: str, own: OwnWords) -> bool:
    """Return whether a text is foreign by frequent words of another language, or by its script.

    Such a text has no typos.
    """
    if own.is_of_other_language:
        return False
    words = [plain(word) for word in WORD.findall(_without_codes(text[:MAX_LETTERS]))]
    others = other_languages()
    foreign = [word for word in words if word in others and word not in own]
    letters = [letter for letter in text[:MAX_LETTERS] if letter.isalpha()]
    is_other_script = 2 * sum(letter > LAST_LATIN for letter in letters) > len(letters)
    is_enough = len(foreign) >= LEAST_OTHER and len(foreign) >= OTHER_SHARE * len(words)
    return is_other_script or (is_enough and is_foreign(text, own))


def is_sentence_of_other(text: str, own: OwnWords) -> bool:
    """Return whether a text is of another language, and not English with names of it."""
    words = map(plain, WORD.findall(text))
    return _PURELY_ENGLISH.isdisjoint(words) and is_other_language(text, own)


def is_clearly_english(text: str, own: OwnWords) -> bool:
    """Return whether a text has English words of which every sentence has some, and is read."""
    ranks = english()
    words = {plain(word) for word in WORD.findall(text[:MAX_LETTERS]) if len(word) > 1}
    functional = [word for word in words if ranks.get(word, COMMON) < FUNCTIONAL]
    is_enough = len(functional) >= LEAST_FUNCTIONAL
    return is_enough and not (is_foreign(text, own) or is_other_language(text, own))


def _without_codes(text: str) -> str:
    """Return a text without its numbers, addresses and the like, whose letters are no words."""
    return " ".join(chunk for chunk in text.split() if not is_code(chunk))
