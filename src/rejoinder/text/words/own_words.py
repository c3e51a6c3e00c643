"""The words of the texts of an index, beside which English ones are known."""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable

from rejoinder.text.words.english import (
    COMMON,
    LEAST_LETTERS,
    MIN_PART_RANK,
    english,
    english_forms,
    is_compound,
    is_english_word,
    is_singular,
    is_verb_of_noun,
    misspellings,
    other_languages,
    rank_of,
)
from rejoinder.text.words.forms import LEAST_STEM, stems, without_prefix
from rejoinder.text.words.word_list import WordList
from rejoinder.text.words.written import WORD, plain

MOST_LETTERS = 24  # of a word that is corrected


class OwnWords:
    """How often the texts of an index have each word.

    Those that customers' messages alone have, which were learned, are known, but nobody is told
    them: none is what a typo means.
    """

    def __init__(
        self,
        counts: Counter[str],
        learned: Collection[str] = frozenset(),
        english_count: int | None = None,
    ) -> None:
        self.counts = counts
        self.learned = learned
        self._english = count_english(counts) if english_count is None else english_count

    def __contains__(self, word: str) -> bool:
        return word in self.counts or word in self.learned

    def changed(
        self, more: Counter[str], fewer: Counter[str], learned: Collection[str]
    ) -> OwnWords:
        """Return the words of these texts and more, without fewer, which they have.

        `learned` are the words of all messages that were learned.
        """
        own = self.counts.copy()
        own.update(more)
        own.subtract(fewer)
        for word in fewer:
            if not own[word]:
                del own[word]
        english_count = self._english + count_english(more) - count_english(fewer)
        return OwnWords(own, learned, english_count)

    @functools.cached_property
    def is_of_other_language(self) -> bool:
        """Return whether most words of the index are not English: no message is foreign then."""
        return 2 * self._english < self.counts.total()

    @functools.cached_property
    def choices(self) -> dict[str, int]:
        """Return how often the index has each word that may be meant; other forms of one: once."""
        own = {word: count for word, count in self.counts.items() if len(word) >= LEAST_LETTERS}
        forms = itertools.chain.from_iterable(map(english_forms, own))
        return dict.fromkeys(forms, 1) | own

    @functools.cached_property
    def choice_list(self) -> WordList:
        """Return the words that may be meant, to look for near ones."""
        return WordList(self.choices)

    def is_known(self, word: str) -> bool:
        """Return whether a word is one of the index or of English, or too short or long to tell."""
        read = plain(word)
        if not LEAST_LETTERS <= len(read) <= MOST_LETTERS or not read.isascii():
            return True
        stem = read.partition("'")[0]
        forms = (read, stem, stem.removesuffix("s"))
        is_singular_of_own = not stem.endswith("s") and f"{stem}s" in self  # "clas" is no such
        is_own = is_singular_of_own or any(form in self for form in forms)
        if is_own or stem in misspellings():
            return is_own
        is_word = is_english_word(stem) or is_singular(stem) or is_verb_of_noun(stem)
        return is_word or (self._is_inflected(stem) and not self.with_letter_twice(stem))

    def is_strange(self, word: str) -> bool:
        """Return whether a word is neither English nor of the index, or of another language."""
        if word in self:
            return False
        stem = word.partition("'")[0]
        is_word = stem in self or is_english_word(stem) or self.is_composed(stem)
        return not is_word or word in other_languages()

    def is_composed(self, word: str) -> bool:
        """Return whether a word consists of a prefix and a word, or of two words."""
        return any(map(self._is_rest, without_prefix(word))) or is_compound(word)

    def with_letter_twice(self, word: str) -> str | None:
        """Return the word that an unlisted inflection is with a letter twice: "runing".

        It is common or of the index. "Snorkeling" is American.
        """
        if word in english() or not self._is_inflected(word):
            return None
        doubled = [
            word[:at] + word[at - 1 :]
            for at in range(1, len(word))
            if not (word[at - 2 : at] == "el" and at > len(word) - LEAST_STEM)
        ]
        known = [near for near in doubled if near in self or is_english_word(near)]
        return min(known, key=rank_of) if known else None

    def _is_inflected(self, word: str) -> bool:
        """Return whether a word is a regular inflection of one of the index or of English."""
        return any(base in self or is_english_word(base) for base in stems(word))

    def _is_rest(self, word: str) -> bool:
        """Return whether what stands behind a prefix is a word that may have one."""
        is_word = word in self or is_english_word(word) or self._is_inflected(word)
        return is_word and rank_of(word) >= MIN_PART_RANK


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Return how often texts have each word."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(WORD.findall(plain(unicodedata.normalize("NFC", text))))
    return counts


def count_english(counts: Counter[str]) -> int:
    """Return how many of some words are English."""
    ranks = english()
    return sum(
        count
        for word, count in counts.items()
        if ranks.get(word.partition("'")[0], COMMON) < COMMON and word not in other_languages()
    )
