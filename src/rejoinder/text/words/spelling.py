"""Typos of messages, put right by the words of an index and of English.

Only a word that neither knows is changed: not a name, a number, a product of the index. It becomes
the likeliest word that is one or two slips away: by the kind of slip, and by how frequent a word is
in the index or in English. A text most of whose words are unknown even then is gibberish or another
language, and stays as it is.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rejoinder.patterns import search_pattern
from rejoinder.text.words.english import (
    CERTAINLY_ENGLISH,
    COMMON,
    LEAST_LETTERS,
    MIN_PART_RANK,
    date_words,
    english,
    english_words,
    first_names,
    has_odd_letters,
    is_english_word,
    misspellings,
    rank_of,
)
from rejoinder.text.words.foreign import MAX_UNKNOWN
from rejoinder.text.words.forms import halves, stems, undrawn
from rejoinder.text.words.own_words import OwnWords, count_words
from rejoinder.text.words.slips import (
    FIRST_COST,
    NEAR_COST,
    OTHER_COST,
    SWAP_COST,
    TWO_COST,
    slip_cost,
)
from rejoinder.text.words.written import WORD, is_code, is_name, plain

LEAST_PARTED = 2  # letters of each of two words without a blank between them
MOST_INITIALS = 5  # capitals of an acronym, and consonants of a short form: "cnn"
_VOWELS = frozenset("aeiouy")
LEAST_ENGLISH = 5  # of a word that is any English one
FREQUENT = 1_500
"""English words that a shorter word may be, with a likely slip: a letter swapped, doubled, missing
or of a neighbouring key."""
TITLES = frozenset(["dr", "miss", "mr", "mrs", "ms", "mx", "prof", "professor", "sir"])
"""Words behind which a name stands."""
TWO_OWN_SLIPS = 5  # letters of a word that may be one of the index with two slips
TWO_SLIPS = 7  # letters of a word that may hold two slips
UNLIKELY_COST = 0.3  # of an English word by an unlikely slip, more than of a word of the index
FREQUENCY_COST = 0.04  # for each e-fold rank of an English word; of the index, less by frequency
LEAST_SHORT = 4  # letters of an English word that is not among the most frequent
ODD_RANK = 1_000  # of an English word that a short one with odd letters is: "tzme"
LEAST_CAPITAL = 7  # letters of a word with a capital that is a slip of any English one, no name
LEAST_ODD_CAPITAL = 5  # of such a word with odd letters, as "Whhen": "Sven" is shorter
LEAST_TWO_CAPITAL = 9  # of such a word that holds two slips: "Peeters" is a name
MAX_CORRECTIONS = 8  # of a message: each takes milliseconds
MAX_KEPT = 10_000  # corrections of words that are kept
MAXWORDS = 100  # of a message that is corrected
_CHUNK = search_pattern(r"\S++")


@dataclass(frozen=True, slots=True)
class Correction:
    """A word that was read as another."""

    written: str
    read: str


class Speller:
    """Corrects messages to an index, by the words of its texts."""

    def __init__(self, texts: Iterable[str] = (), own: OwnWords | None = None) -> None:
        self.own = own or OwnWords(count_words(texts))
        self._known: dict[str, str | None] = {}

    def changed(self, more: Counter[str], fewer: Counter[str], learned: Collection[str]) -> Speller:
        """Return the speller of these texts and more words, without fewer, which they have.

        `learned` are the words of all messages that were learned.
        """
        return Speller(own=self.own.changed(more, fewer, learned))

    def correct(self, text: str) -> tuple[str, tuple[Correction, ...]]:
        """Return a text with its typos put right, and what was changed."""
        matches = list(WORD.finditer(text))
        if not matches or len(matches) > MAXWORDS:
            return text, ()
        unknown = [match for match in matches if not self.own.is_known(match[0])]
        if not unknown:
            return text, ()
        is_all_unknown = len(unknown) == len(matches) > 1
        corrections: dict[int, str] = {}
        for match in _suspects(text, matches, unknown[:MAX_CORRECTIONS]):
            near = self._read_as(match[0], match is matches[0], is_all_unknown)
            if near:
                corrections[match.start()] = near
        if len(unknown) - len(corrections) >= MAX_UNKNOWN * len(matches) or not corrections:
            return text, ()
        pieces = []
        changed = []
        end = 0
        for match in unknown:
            if match.start() in corrections:
                word = corrections[match.start()]
                pieces += [text[end : match.start()], word]
                changed.append(Correction(match[0], word))
                end = match.end()
        return "".join([*pieces, text[end:]]), tuple(changed)

    def _read_as(self, word: str, is_first: bool, is_all_unknown: bool) -> str | None:
        """Return the word that an unknown one is read as; None: it stays."""
        written = plain(word)
        if drawn_out := self._undrawn(written):
            return drawn_out
        near = self._correction(written)
        if near is None:
            return None
        cost = slip_cost(written, near)
        has_vowel = written == "n't" or not _VOWELS.isdisjoint(written)
        is_short_form = len(written) <= MOST_INITIALS and not has_vowel
        if (is_short_form and cost > NEAR_COST) or (is_all_unknown and cost >= OTHER_COST):
            return None  # rather initials or gibberish than unlikely slips
        return near if not is_name(word) or self._is_slip(word, near, is_first) else None

    def _undrawn(self, word: str) -> str | None:
        """Return the most frequent word that has its letters once or twice in place of thrice."""
        known = [form for form in undrawn(word) if form in self.own or is_english_word(form)]
        return min(known, key=rank_of) if known else None

    def _is_slip(self, word: str, near: str, is_first: bool) -> bool:
        """Return whether a word that is written as a name is surely a slip of another.

        A frequent first name is none. The other is a day or month or, at the beginning, a frequent
        word or one of the index. A word that is too long or too odd for a name may be any. Only a
        long word of the index may be an unlikely slip away. Two words may stand at the beginning
        alone.
        """
        is_own = near in self.own
        if plain(word).partition("'")[0] in first_names():
            return False
        if " " in near:
            return is_first
        is_long = is_own and len(word) >= LEAST_TWO_CAPITAL
        if not is_long and slip_cost(plain(word), near) > NEAR_COST:
            return False
        if near in date_words() and len(word) >= LEAST_ENGLISH:
            return True
        is_odd = len(word) >= LEAST_ODD_CAPITAL and has_odd_letters(plain(word))
        is_no_name = is_odd or len(word) >= LEAST_CAPITAL
        is_frequent = is_own or english()[near] < (COMMON if is_no_name else CERTAINLY_ENGLISH)
        return is_first and is_frequent

    def _correction(self, word: str) -> str | None:
        known = self._known  # which other threads may clear
        corrected = known.get(word, word)
        if corrected != word:
            return corrected
        corrected = self._nearest(word)
        if len(known) >= MAX_KEPT:
            known.clear()
        known[word] = corrected
        return corrected

    def _nearest(self, word: str) -> str | None:
        """Return the likeliest word that was meant; None: no word is near."""
        if word in misspellings():
            return misspellings()[word]
        if doubled := self.own.with_letter_twice(word):
            return doubled
        is_rare = word in english()
        is_word = (
            is_rare or self.own.is_composed(word) or not english().keys().isdisjoint(stems(word))
        )
        if is_word:
            most_rank = CERTAINLY_ENGLISH if is_rare else COMMON
            costs = _english_costs(word, most_rank, 1, lambda _: SWAP_COST)
        else:
            costs = _likely_english(word)
        candidates = [*self._own_costs(word, is_word), *costs]
        best = min(candidates)[1] if candidates else None
        if is_word or (best and slip_cost(word, best) <= NEAR_COST):
            return best
        if best in self.own.choices:
            return self._parted(word) or best
        return _swapped(word) or self._parted(word) or best

    def _parted(self, word: str) -> str | None:
        """Return two words that were written without a blank; None: the word is no such two.

        One of them is too frequent for a part of a compound, and the other is of the index or
        frequent, too.
        """
        parts = [
            (one, other)
            for one, other in halves(word, LEAST_PARTED)
            if min(map(rank_of, (one, other))) < MIN_PART_RANK
            and self._is_apart(one)
            and self._is_apart(other)
        ]
        return " ".join(min(parts, key=lambda pair: max(map(rank_of, pair)))) if parts else None

    def _own_costs(self, word: str, is_word: bool) -> Iterator[tuple[float, str]]:
        """Yield the words of the index that may have been meant, each behind its cost."""
        slips = 2 if len(word) >= TWO_OWN_SLIPS and not is_word else 1
        for near, distance in self.own.choice_list.within(word, slips):
            cost = slip_cost(word, near)
            is_alike = word[0] == near[0] and abs(len(word) - len(near)) <= 1
            if is_word and not (is_alike and cost <= NEAR_COST):
                continue
            if is_alike or distance == 1 or len(word) >= TWO_SLIPS:
                yield cost - FREQUENCY_COST * math.log(self.own.choices[near]), near

    def _is_apart(self, word: str) -> bool:
        """Return whether a word may stand beside another one without a blank."""
        most_rank = FREQUENT if len(word) >= LEAST_LETTERS else MIN_PART_RANK
        return word in self.own or rank_of(word) < most_rank


def _swapped(word: str) -> str | None:
    """Return the rarer English word of which a word has two letters swapped, or one once or twice.

    What no common word is near to may be a country: "portugla".
    """
    if len(word) < LEAST_ENGLISH:
        return None
    ranks = english()
    known = {near for near in _with_swaps(word) if near in ranks and near != word}
    others = (near for near in known if near not in first_names())  # "anette" may be one, too
    alike = (near for near in others if slip_cost(word, near) <= SWAP_COST)
    return min(alike, key=lambda near: (ranks[near], near), default=None)


def _with_swaps(word: str) -> Iterator[str]:
    """Yield a word with two letters swapped, and with one letter once or twice."""
    for place in range(len(word)):
        before = word[:place]
        letter = word[place]
        behind = word[place + 1 :]
        yield f"{before}{letter}{letter}{behind}"
        if behind:
            yield f"{before}{behind[0]}{letter}{behind[1:]}"
        if behind[:1] == letter:
            yield f"{before}{behind}"


def _likely_english(word: str) -> Iterator[tuple[float, str]]:
    """Yield the English words that may have been meant by what is no word, each behind its cost."""
    is_short = len(word) < LEAST_ENGLISH
    is_odd = has_odd_letters(word)

    def most_cost(near: str) -> float:
        if len(near) < LEAST_SHORT:
            return NEAR_COST if english()[near] < CERTAINLY_ENGLISH else 0.0
        if word[0] != near[0]:
            return SWAP_COST if len(word) < LEAST_SHORT else FIRST_COST + NEAR_COST
        if is_short:
            return OTHER_COST if is_odd and english()[near] < ODD_RANK else NEAR_COST
        return TWO_COST

    most_rank = FREQUENT if is_short else COMMON
    slips = 2 if len(word) >= TWO_SLIPS else 1
    return _english_costs(word, most_rank, slips, most_cost)


def _english_costs(
    word: str, most_rank: int, slips: int, most_cost: Callable[[str], float]
) -> Iterator[tuple[float, str]]:
    """Yield the near English words up to a rank that cost at most what they may."""
    for near, _ in english_words(most_rank).within(word, slips):
        cost = slip_cost(word, near)
        if cost <= most_cost(near):
            unlikely = UNLIKELY_COST if cost > NEAR_COST else 0.0
            yield cost + unlikely + FREQUENCY_COST * math.log(1 + english()[near]), near


def is_common(text: str) -> bool:
    """Return whether a text has common English words alone, so that there is nothing to correct."""
    ranks = english()
    return all(
        ranks.get(plain(word).partition("'")[0], COMMON) < COMMON
        for word in WORD.findall(text)
        if len(word) >= LEAST_LETTERS
    )


def _suspects(
    text: str, matches: Sequence[re.Match[str]], unknown: Sequence[re.Match[str]]
) -> Iterator[re.Match[str]]:
    """Yield the unknown words that are no part of a code, no name behind a title, no acronym."""
    codes = [match.span() for match in _CHUNK.finditer(text) if is_code(match[0])]
    called = {
        name.start() for title, name in itertools.pairwise(matches) if plain(title[0]) in TITLES
    }
    shouts = text.isupper()
    for match in unknown:
        is_acronym = match[0].isupper() and len(match[0]) <= MOST_INITIALS and not shouts
        in_code = any(start <= match.start() < end for start, end in codes)
        if not (in_code or is_acronym or match.start() in called):
            yield match
