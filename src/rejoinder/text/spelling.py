"""Typos of messages, put right by the words of an index and of English.

Only a word that neither knows is changed: not a name, a number, a product of the index. It becomes
the likeliest word that is one or two slips away: by the kind of slip, and by how frequent a word is
in the index or in English. A text most of whose words are unknown even then is gibberish or another
language, and stays as it is.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from rejoinder.patterns import search_pattern
from rejoinder.text.slips import (
    FIRST_COST,
    NEAR_COST,
    OTHER_COST,
    SWAP_COST,
    TWO_COST,
    slip_cost,
)
from rejoinder.text.word_forms import (
    LEAST_STEM,
    halves,
    inflections,
    stems,
    triples_of_letters,
    without_prefix,
)
from rejoinder.text.word_list import WordList

LEAST_PARTED = 2  # letters of each of two words without a blank between them
LEAST_LETTERS = 3  # of a word that is one of the index, with a slip
MOST_INITIALS = 5  # capitals of an acronym
MOST_LETTERS = 24  # of a word that is corrected
LEAST_ENGLISH = 5  # of a word that is any English one
FREQUENT = 1_500
"""English words that a shorter word may be, with a likely slip: a letter swapped, doubled, missing
or of a neighbouring key."""
COMMON = 15_000
"""English words that are certainly words; a rarer one is changed to one of the index that differs
by one likely slip behind the first letter, and proposed only as a form of a word of the index."""
SERVICE_RANK = 10_000  # of words of services and chats, whose frequency is not known
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
MIN_PART_RANK = 100
MAX_PART_RANK = 6_000
"""Words between the ranks make compounds: "deadlift", "headrest". More frequent ones do not, nor
behind a prefix: "withput", "ehere". Of 4,900 slips, 18 look as compounds do."""
MAX_UNKNOWN = 0.5  # of the words of a text that is corrected
MAX_CORRECTIONS = 8  # of a message: each takes milliseconds
MAX_LETTERS = 1_000  # of a message whose language is looked at
FUNCTIONAL = 100  # English words that nearly every sentence has: "the", "is", "my"
LEAST_FUNCTIONAL = 2  # of these in a sentence that is English beside others that are not
CERTAINLY_ENGLISH = 400
"""English words so frequent that they do not count as of another language: "do", "me", "we".

A rare word becomes one of these alone, and only if letters are swapped or doubled: "taht". Words of
three letters become one by a likely slip, and short words with a capital that begin a text."""
LEAST_OTHER = 1  # frequent words of another language, and
OTHER_SHARE = 0.25  # of the words of a text, from which it has no typos
_PURELY_ENGLISH_WORDS = "the my your you and this that it i i'm have what with from"
_PURELY_ENGLISH = frozenset(_PURELY_ENGLISH_WORDS.split())
LAST_LATIN = "\u024f"
MAX_KEPT = 10_000  # corrections of words that are kept
MAX_FORMS = 65_536  # words of indexes whose other forms are kept, since each change asks for all
MAX_WORDS = 100  # of a message that is corrected
_WORD = search_pattern(r"[^\W\d_]+(?:['\u2019][^\W\d_]{1,3}+)?+")
_CHUNK = search_pattern(r"\S++")
_CODE = frozenset("0123456789@/#_\\")


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
def _misspellings() -> Mapping[str, str]:
    """Return words as many people write them, with those that they mean."""
    return dict(pair.split(":") for pair in _read_words("misspellings.txt"))


@functools.cache
def _date_words() -> frozenset[str]:
    """Return the days and months, which have a capital in their file as in a text."""
    words = _read_words("service_words.txt")
    return frozenset(word.lower() for word in words if word[0].isupper())


def _read_words(name: str) -> Iterator[str]:
    """Yield the words of a file of this package, without lines of comments."""
    text = files("rejoinder.text").joinpath(name).read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            yield from line.split()


@dataclass(frozen=True, slots=True)
class Correction:
    """A word that was read as another."""

    written: str
    read: str


class Speller:
    """Corrects messages to an index, by the words of its texts."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._own = count_words(texts)
        self._english = _count_english(self._own)
        self._known: dict[str, str | None] = {}

    def changed(self, more: Counter[str], fewer: Counter[str]) -> Speller:
        """Return the speller of these texts and more words, without fewer, which they have."""
        own = self._own.copy()
        own.update(more)
        own.subtract(fewer)
        for word in fewer:
            if not own[word]:
                del own[word]
        speller = Speller()
        speller._own = own
        speller._english = self._english + _count_english(more) - _count_english(fewer)
        return speller

    def correct(self, text: str) -> tuple[str, tuple[Correction, ...]]:
        """Return a text with its typos put right, and what was changed."""
        matches = list(_WORD.finditer(text))
        if not matches or len(matches) > MAX_WORDS:
            return text, ()
        unknown = [match for match in matches if not self._is_known(match[0])]
        if not unknown:
            return text, ()
        is_all_unknown = len(unknown) == len(matches) > 1
        corrections: dict[int, str] = {}
        for match in _suspects(text, matches, unknown[:MAX_CORRECTIONS]):
            near = self._correction(_plain(match[0]))
            if is_all_unknown and near and slip_cost(_plain(match[0]), near) >= OTHER_COST:
                continue  # rather gibberish than unlikely slips alone
            is_first = match is matches[0]
            if near and (not _is_name(match[0]) or self._is_slip(match[0], near, is_first)):
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

    def is_foreign(self, text: str) -> bool:
        """Return whether most words of a text are neither English nor of the index.

        Frequent words of other languages count as such, unless the index has them; names do not.
        """
        if self.is_of_other_language:
            return False
        matches = list(_WORD.finditer(_without_codes(text[:MAX_LETTERS])))
        named = [number > 0 and _is_name(match[0]) for number, match in enumerate(matches)]
        plain_words = [
            _plain(match[0]) for match, is_name in zip(matches, named, strict=True) if not is_name
        ]
        if all(map(self._is_strange, plain_words)):  # beside strange words, names are strange too
            plain_words = [_plain(match[0]) for match in matches]
        unknown = [word for word in plain_words if self._is_strange(word)]
        is_one_word = (
            len(plain_words) == 1 and plain_words[0].isascii() and len(set(plain_words[0])) > 1
        )
        return not is_one_word and len(unknown) > MAX_UNKNOWN * len(plain_words)

    def is_other_language(self, text: str) -> bool:
        """Return whether a text is foreign by frequent words of another language, or by its script.

        Such a text has no typos.
        """
        if self.is_of_other_language:
            return False
        plain_words = [_plain(word) for word in _WORD.findall(_without_codes(text[:MAX_LETTERS]))]
        others = other_languages()
        own = [word for word in plain_words if word in others and word not in self._own]
        letters = [letter for letter in text[:MAX_LETTERS] if letter.isalpha()]
        is_other_script = 2 * sum(letter > LAST_LATIN for letter in letters) > len(letters)
        is_enough = len(own) >= LEAST_OTHER and len(own) >= OTHER_SHARE * len(plain_words)
        return is_other_script or (is_enough and self.is_foreign(text))

    def is_sentence_of_other(self, text: str) -> bool:
        """Return whether a text is of another language, and not English with names of it."""
        words = map(_plain, _WORD.findall(text))
        return _PURELY_ENGLISH.isdisjoint(words) and self.is_other_language(text)

    def is_clearly_english(self, text: str) -> bool:
        """Return whether a text has English words of which every sentence has some, and is read."""
        ranks = english()
        plain_words = {_plain(word) for word in _WORD.findall(text[:MAX_LETTERS]) if len(word) > 1}
        functional = [word for word in plain_words if ranks.get(word, COMMON) < FUNCTIONAL]
        is_enough = len(functional) >= LEAST_FUNCTIONAL
        return is_enough and not (self.is_foreign(text) or self.is_other_language(text))

    @functools.cached_property
    def is_of_other_language(self) -> bool:
        """Return whether most words of the index are not English: no message is foreign then."""
        return 2 * self._english < self._own.total()

    @functools.cached_property
    def _choices(self) -> dict[str, int]:
        """Return how often the index has each word that may be meant; other forms of one: once."""
        own = {word: count for word, count in self._own.items() if len(word) >= LEAST_LETTERS}
        forms = itertools.chain.from_iterable(map(_english_forms, own))
        return dict.fromkeys(forms, 1) | own

    @functools.cached_property
    def _choice_list(self) -> WordList:
        return WordList(self._choices)

    def _is_strange(self, word: str) -> bool:
        if word in self._own:
            return False
        stem = word.partition("'")[0]
        is_word = stem in self._own or _is_english(stem) or self._is_composed(stem)
        return not is_word or word in other_languages()

    def _is_slip(self, word: str, near: str, is_first: bool) -> bool:
        """Return whether a word that is written as a name is surely a slip of another.

        The other is a day or month or, at the beginning, a frequent word or one of the index. A
        word that is too long or too odd for a name may be any. Only a long word of the index may be
        an unlikely slip away. Two words may stand at the beginning alone.
        """
        is_own = near in self._own
        if " " in near:
            return is_first
        is_long = is_own and len(word) >= LEAST_TWO_CAPITAL
        if not is_long and slip_cost(_plain(word), near) > NEAR_COST:
            return False
        if near in _date_words() and len(word) >= LEAST_ENGLISH:
            return True
        is_odd = len(word) >= LEAST_ODD_CAPITAL and has_odd_letters(_plain(word))
        is_no_name = is_odd or len(word) >= LEAST_CAPITAL
        is_frequent = is_own or english()[near] < (COMMON if is_no_name else CERTAINLY_ENGLISH)
        return is_first and is_frequent

    def _is_known(self, word: str) -> bool:
        plain = _plain(word)
        if not LEAST_LETTERS <= len(plain) <= MOST_LETTERS or not plain.isascii():
            return True
        stem = plain.partition("'")[0]
        own = self._own
        is_own = plain in own or stem in own or stem.removesuffix("s") in own or f"{stem}s" in own
        if is_own or stem in _misspellings():
            return is_own
        return _is_english(stem) or _is_singular(stem) or self._is_inflected(stem)

    def _is_inflected(self, word: str) -> bool:
        """Return whether a word is a regular inflection of one of the index or of English."""
        return any(base in self._own or _is_english(base) for base in stems(word))

    def _is_composed(self, word: str) -> bool:
        """Return whether a word consists of a prefix and a word, or of two words."""
        return any(map(self._is_rest, without_prefix(word))) or _is_compound(word)

    def _is_rest(self, word: str) -> bool:
        """Return whether what stands behind a prefix is a word that may have one."""
        is_word = word in self._own or _is_english(word) or self._is_inflected(word)
        return is_word and _rank(word) >= MIN_PART_RANK

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
        if word in _misspellings():
            return _misspellings()[word]
        is_rare = word in english()
        is_word = is_rare or self._is_composed(word) or not english().keys().isdisjoint(stems(word))
        if is_word:
            most_rank = CERTAINLY_ENGLISH if is_rare else COMMON
            costs = _english_costs(word, most_rank, 1, lambda _: SWAP_COST)
        else:
            costs = _likely_english(word)
        candidates = [*self._own_costs(word, is_word), *costs]
        best = min(candidates)[1] if candidates else None
        if is_word or (best and slip_cost(word, best) <= NEAR_COST):
            return best
        return self._parted(word) or best

    def _parted(self, word: str) -> str | None:
        """Return two words that were written without a blank; None: the word is no such two.

        One of them is too frequent for a part of a compound, and the other is of the index or
        frequent, too.
        """
        parts = [
            (one, other)
            for one, other in halves(word, LEAST_PARTED)
            if min(map(_rank, (one, other))) < MIN_PART_RANK
            and self._is_apart(one)
            and self._is_apart(other)
        ]
        return " ".join(min(parts, key=lambda pair: max(map(_rank, pair)))) if parts else None

    def _own_costs(self, word: str, is_word: bool) -> Iterator[tuple[float, str]]:
        """Yield the words of the index that may have been meant, each behind its cost."""
        slips = 2 if len(word) >= TWO_OWN_SLIPS and not is_word else 1
        for near, distance in self._choice_list.within(word, slips):
            cost = slip_cost(word, near)
            is_alike = word[0] == near[0] and abs(len(word) - len(near)) <= 1
            if is_word and not (is_alike and cost <= NEAR_COST):
                continue
            if is_alike or distance == 1 or len(word) >= TWO_SLIPS:
                yield cost - FREQUENCY_COST * math.log(self._choices[near]), near

    def _is_apart(self, word: str) -> bool:
        """Return whether a word may stand beside another one without a blank."""
        most_rank = FREQUENT if len(word) >= LEAST_LETTERS else MIN_PART_RANK
        return word in self._own or _rank(word) < most_rank


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
    for near, _ in _english_words(most_rank).within(word, slips):
        cost = slip_cost(word, near)
        if cost <= most_cost(near):
            unlikely = UNLIKELY_COST if cost > NEAR_COST else 0.0
            yield cost + unlikely + FREQUENCY_COST * math.log(1 + english()[near]), near


@functools.cache
def _triples() -> frozenset[str]:
    """Return the letters that follow each other, or begin or end a word, in common words."""
    return frozenset(
        triple for word in _english_words(COMMON).words for triple in triples_of_letters(word)
    )


def has_odd_letters(word: str) -> bool:
    """Return whether three letters of a word follow each other in no common English word."""
    return not _triples().issuperset(triples_of_letters(word))


def _is_compound(word: str) -> bool:
    """Return whether a word consists of two frequent ones."""
    return any(_is_part(one) and _is_part(other) for one, other in halves(word))


def _is_part(word: str) -> bool:
    """Return whether a word may be a part of a compound."""
    return MIN_PART_RANK <= _rank(word) < MAX_PART_RANK


@functools.lru_cache(maxsize=MAX_FORMS)
def _english_forms(word: str) -> tuple[str, ...]:
    """Return the English words that are inflections of a word, or that it may be one of."""
    if len(word) < LEAST_STEM:
        return ()
    return tuple(form for form in (*inflections(word), *stems(word)) if form in english())


def _rank(word: str) -> int:
    return english().get(word, COMMON)


def _is_english(word: str) -> bool:
    return _rank(word) < COMMON


def _is_singular(word: str) -> bool:
    """Return whether a plural of a word is listed among those of services and trades."""
    is_whole = len(word) >= LEAST_ENGLISH and not word.endswith(("s", "u", "ie"))  # of "campus"
    return is_whole and _rank(f"{word}s") == SERVICE_RANK


def _is_name(word: str) -> bool:
    """Return whether a word is written as a name is."""
    return word[0].isupper() and not word.isupper()


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Return how often texts have each word."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_WORD.findall(_plain(unicodedata.normalize("NFC", text))))
    return counts


def _count_english(counts: Counter[str]) -> int:
    """Return how many of some words are English."""
    ranks = english()
    return sum(
        count
        for word, count in counts.items()
        if ranks.get(word.partition("'")[0], COMMON) < COMMON and word not in other_languages()
    )


def is_common(text: str) -> bool:
    """Return whether a text has common English words alone, so that there is nothing to correct."""
    ranks = english()
    return all(
        ranks.get(_plain(word).partition("'")[0], COMMON) < COMMON
        for word in _WORD.findall(text)
        if len(word) >= LEAST_LETTERS
    )


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
def _english_words(most_rank: int) -> WordList:
    """Return the English words up to a rank that may have been meant."""
    return WordList(
        word for word, rank in english().items() if rank < most_rank and len(word) >= LEAST_LETTERS
    )


def _suspects(
    text: str, matches: Sequence[re.Match[str]], unknown: Sequence[re.Match[str]]
) -> Iterator[re.Match[str]]:
    """Yield the unknown words that are no part of a code, no name behind a title, no acronym."""
    codes = [match.span() for match in _CHUNK.finditer(text) if _is_code(match[0])]
    called = {
        name.start() for title, name in itertools.pairwise(matches) if _plain(title[0]) in TITLES
    }
    shouts = text.isupper()
    for match in unknown:
        is_acronym = match[0].isupper() and len(match[0]) <= MOST_INITIALS and not shouts
        in_code = any(start <= match.start() < end for start, end in codes)
        if not (in_code or is_acronym or match.start() in called):
            yield match


def _without_codes(text: str) -> str:
    """Return a text without its numbers, addresses and the like, whose letters are no words."""
    return " ".join(chunk for chunk in text.split() if not _is_code(chunk))


def _is_code(chunk: str) -> bool:
    """Return whether what stands between blanks is a number, an address or the like."""
    return not _CODE.isdisjoint(chunk) or "." in chunk.strip(".,;:!?)'\"")


def _plain(text: str) -> str:
    return text.lower().replace("\u2019", "'")
