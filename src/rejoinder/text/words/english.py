"""English words by their frequency, and words of services, of chats and of other languages."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib.resources import files

from rejoinder.text.words.forms import LEAST_STEM, halves, inflections, stems, triples_of_letters
from rejoinder.text.words.word_list import WordList

COMMON = 15_000
"""English words that are certainly words; a rarer one is changed to one of the index that differs
by one likely slip behind the first letter, and proposed only as a form of a word of the index."""
SERVICE_RANK = 10_000  # of words of services and chats, whose frequency is not known
CERTAINLY_ENGLISH = 400
"""English words so frequent that they do not count as of another language: "do", "me", "we".

A rare word becomes one of these alone, and only if letters are swapped or doubled: "taht". Words of
three letters become one by a likely slip, and short words with a capital that begin a text."""
MIN_PART_RANK = 100
MAX_PART_RANK = 6_000
"""Words between the ranks make compounds: "deadlift", "headrest". More frequent ones do not, nor
behind a prefix: "withput", "ehere". Of 4,900 slips, 18 look as compounds do."""
LEAST_LETTERS = 3  # of a word that another one may be with a slip
LEAST_PLURAL = 5  # letters of a word that is one where its plural is listed
MAX_FORMS = 65_536  # words of indexes whose other forms are kept, since each change asks for all

_OF_VERBS = ("ate", "ates", "ated", "ating")


@functools.cache
def english() -> Mapping[str, int]:
    """Return the rank of each English word: its place by frequency, the most frequent first.

    The rarest ones follow by letters: they are known, and proposed only as a form of a word of the
    index. Words of services and of chats, which are rare in books, have `SERVICE_RANK` at most.
    """
    ranks = {word: rank for rank, word in enumerate(_read_words("words.txt"))}
    for word in map(str.lower, _read_words("service_words.txt")):
        ranks[word] = min(ranks.get(word, SERVICE_RANK), SERVICE_RANK)
    return ranks


@functools.cache
def misspellings() -> Mapping[str, str]:
    """Return words as many people write them, with those that they mean."""
    return dict(pair.split(":") for pair in _read_words("misspellings.txt"))


@functools.cache
def date_words() -> frozenset[str]:
    """Return the days and months, which have a capital in their file as in a text."""
    words = _read_words("service_words.txt")
    return frozenset(word.lower() for word in words if word[0].isupper())


@functools.cache
def first_names() -> frozenset[str]:
    """Return frequent first names, in small letters."""
    return frozenset(_read_words("first_names.txt"))


def _read_words(name: str) -> Iterator[str]:
    """Yield the words of a file of this package, without lines of comments."""
    text = files("rejoinder.text.words").joinpath(name).read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            yield from line.split()


@functools.cache
def other_languages() -> frozenset[str]:
    """Return frequent words of other languages."""
    ranks = english()
    return frozenset(
        word
        for word in _read_words("other_languages.txt")
        if ranks.get(word, COMMON) >= CERTAINLY_ENGLISH
    )


@functools.cache
def english_words(most_rank: int) -> WordList:
    """Return the English words up to a rank that may have been meant."""
    return WordList(
        word for word, rank in english().items() if rank < most_rank and len(word) >= LEAST_LETTERS
    )


@functools.cache
def _triples() -> frozenset[str]:
    """Return the letters that follow each other, or begin or end a word, in common words."""
    return frozenset(
        triple for word in english_words(COMMON).words for triple in triples_of_letters(word)
    )


def has_odd_letters(word: str) -> bool:
    """Return whether three letters of a word follow each other in no common English word."""
    return not _triples().issuperset(triples_of_letters(word))


def is_compound(word: str) -> bool:
    """Return whether a word consists of two frequent ones."""
    return any(_is_part(one) and _is_part(other) for one, other in halves(word))


def _is_part(word: str) -> bool:
    """Return whether a word may be a part of a compound."""
    return MIN_PART_RANK <= rank_of(word) < MAX_PART_RANK


@functools.lru_cache(maxsize=MAX_FORMS)
def english_forms(word: str) -> tuple[str, ...]:
    """Return the English words that are inflections of a word, or that it may be one of."""
    if len(word) < LEAST_STEM:
        return ()
    return tuple(form for form in (*inflections(word), *stems(word)) if form in english())


def rank_of(word: str) -> int:
    """Return the rank of a word; of one that is no English word that of the last common one."""
    return english().get(word, COMMON)


def is_english_word(word: str) -> bool:
    """Return whether a word is certainly English."""
    return rank_of(word) < COMMON


def is_singular(word: str) -> bool:
    """Return whether a plural of a word is listed among those of services and trades."""
    is_whole = len(word) >= LEAST_PLURAL and not word.endswith(("s", "u", "ie"))  # of "campus"
    return is_whole and rank_of(f"{word}s") == SERVICE_RANK


def is_verb_of_noun(word: str) -> bool:
    """Return whether a word is the verb of a common noun: "administrate" of "administration"."""
    stem = next((word.removesuffix(end) for end in _OF_VERBS if word.endswith(end)), "")
    return bool(stem) and is_english_word(f"{stem}ation")
