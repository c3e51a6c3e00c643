"""Words and pairs of words as ids for the n-gram dual encoder.

See Henderson et al. 2019b, section 3. Unigrams and bigrams of a text, the marks of its beginning
and end among its words, stand in one row, in turn: w1, w1 w2, w2, w2 w3, w3, ... Even places are
unigrams, odd ones bigrams, wherever the row is cut.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError
from rejoinder.patterns import search_pattern
from rejoinder.text.characters import visible_classes
from rejoinder.text.tokenizer import Ids, check_texts
from rejoinder.text.vocabulary import IdCache, Vocabulary

START = "<S>"
END = "</S>"
LONG = "LONGWORD"
"""Stand before and after each text, and for every long word. No lower-cased word is like one of
them."""

LONGEST = 16  # longest word, in characters, that is a word of its own
KNOWN_PIECES = 2**17  # pieces between blanks whose ids are kept
_Keys = npt.NDArray[np.int64]
_LONG_NUMBER = search_pattern(r"[0-9]{5,}")


def _pattern(end: int) -> re.Pattern[str]:
    word, mark = visible_classes(end)
    apostrophe = "'" if end <= 0x80 else "['\\u2019]"
    return search_pattern(f"{word}+(?:{apostrophe}{word}+)*|{mark}+")


# As in `tokens`: the class for plain ASCII is matched several times as fast.
_ASCII = _pattern(0x80)
_ALL = _pattern(0x110000)


def words_of(text: str) -> list[str]:
    """Return a lower-cased text's runs of word characters and runs of punctuation.

    They are as the vocabulary has them.

    >>> words_of("well, i don't know... :)")
    ['well', ',', 'i', "don't", 'know', '...', ':)']
    """
    return [normalised(word) for word in (_ASCII if text.isascii() else _ALL).findall(text)]


def normalised(word: str) -> str:
    """Return `#` for each digit of long numbers, and LONGWORD for long words.

    Long words have more than 16 characters.

    >>> normalised("1234"), normalised("12345"), normalised("donaudampfschiffahrt")
    ('1234', '#####', 'LONGWORD')
    """
    word = _LONG_NUMBER.sub(lambda number: "#" * len(number.group()), word)
    return LONG if len(word) > LONGEST else word


class NGrams(Vocabulary):
    """A vocabulary of unigrams and bigrams.

    Unigrams are as `normalised` gives them; bigrams are pairs of their numbers. Ids are, in this
    order: the unigrams; the bigrams; `buckets` ids that unknown words and pairs share;
    `padding_id`.
    """

    FORMAT = "rejoinder n-grams 1"

    def __init__(
        self, unigrams: Sequence[str], bigrams: Sequence[Sequence[int]] | _Keys, buckets: int
    ) -> None:
        self.unigrams = tuple(unigrams)
        self.buckets = buckets
        self.bigrams = np.asarray(bigrams, np.int64).reshape(-1, 2)
        self._numbers = {word: number for number, word in enumerate(self.unigrams)}
        self._first_bigram = len(self.unigrams)
        self._first_bucket = self._first_bigram + len(self.bigrams)
        self.padding_id = self._first_bucket + buckets
        self.rows = self.padding_id + 1
        keys = self._checked_keys()
        self._table = _PairTable(keys, self._first_bigram)
        self._known = IdCache(self._piece_bytes, KNOWN_PIECES)
        self._start = np.int32(self._numbers[START]).tobytes()
        self._end = np.int32(self._numbers[END]).tobytes()

    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """Return all ids (T,), and the number of ids of each text (n,), both int32.

        Of k words there are 2k - 1. At most `max_length` words of each text are kept, the mark of
        its beginning counted; the mark of its end is there only where the text was not cut.
        """
        check_texts(texts, max_length)
        rows = [self._word_bytes(text, max_length) for text in texts]
        counts = np.fromiter(map(len, rows), np.int64, len(rows)) // 4
        words = np.frombuffer(bytearray().join(rows), np.int32).astype(np.int64)
        if not len(words):
            return np.empty(0, np.int32), np.zeros(len(rows), np.int32)
        lengths = counts[counts > 0]
        slots = 2 * np.arange(len(words)) - np.repeat(np.arange(len(lengths)), lengths)
        ids = np.empty(2 * len(words) - len(lengths), np.int32)
        ids[slots] = words
        inside = np.ones(len(words), bool)  # words that another one follows
        inside[np.cumsum(lengths) - 1] = False
        pairs = np.flatnonzero(inside)
        ids[slots[pairs] + 1] = self._pair_ids(words[pairs] * self.rows + words[pairs + 1])
        return ids, np.maximum(2 * counts - 1, 0).astype(np.int32)

    def to_json(self) -> dict[str, Any]:
        """See `Vocabulary.to_json`."""
        content = {"format": self.FORMAT, "buckets": self.buckets, "unigrams": list(self.unigrams)}
        return content | {"bigrams": self.bigrams.reshape(-1).tolist()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NGrams:
        """See `Vocabulary.from_json`."""
        buckets = data.get("buckets")
        unigrams = data.get("unigrams")
        bigrams = data.get("bigrams")
        if type(buckets) is not int:
            raise InputError(f"'buckets' must be a whole number, not {buckets!r}")
        if not isinstance(unigrams, list) or not all(type(word) is str for word in unigrams):
            raise InputError("'unigrams' must be a list of strings")
        if (
            not isinstance(bigrams, list)
            or not all(type(n) is int for n in bigrams)
            or len(bigrams) % 2
        ):
            raise InputError("'bigrams' must be a list of whole numbers, two for each pair")
        if not all(0 <= number < len(unigrams) for number in bigrams):
            raise InputError(
                f"'bigrams' must be made of numbers of unigrams, 0 to {len(unigrams) - 1}"
            )
        return cls(unigrams, np.array(bigrams, np.int64).reshape(-1, 2), buckets)

    def __reduce__(self) -> tuple[Callable[..., NGrams], tuple[Any, ...]]:
        return NGrams, (self.unigrams, self.bigrams, self.buckets)  # without the cache

    def _word_bytes(self, text: str, limit: int | None) -> bytes:
        """Return at most `limit` ids of a text's words and marks as int32 in memory.

        There are none where it has no word.
        """
        # No word holds a blank, so the text may be cut at blanks first; a piece is then mostly a
        # word seen before.
        words = b""
        rest = text.lower()
        most = -1 if limit is None else limit
        while rest:
            pieces = rest.split(None, most)
            rest = pieces.pop() if 0 < most < len(pieces) else ""
            words += b"".join(map(self._known.__getitem__, pieces))
            if len(words) >= 4 * most:  # else some pieces had no word in them
                break
        if not words:
            return b""
        framed = self._start + words + self._end
        return framed if limit is None else framed[: 4 * limit]

    def _piece_bytes(self, piece: str) -> bytes:
        return np.array([self._word_id(word) for word in words_of(piece)], np.int32).tobytes()

    def _word_id(self, word: str) -> int:
        number = self._numbers.get(word)
        if number is not None:
            return number
        # CRC-32 is the same in every process and on every platform; Python's hash() is not.
        return self._first_bucket + zlib.crc32(word.encode("utf-8", "surrogatepass")) % self.buckets

    def _pair_ids(self, keys: _Keys) -> _Keys:
        """Return the ids of pairs, each given as first word · rows + second word.

        Unknown ones get buckets.
        """
        hashes = mix(keys.view(np.uint64))
        numbers = self._table.find(keys, hashes)
        unknown = self._first_bucket + (hashes % np.uint64(self.buckets)).view(np.int64)
        return np.where(numbers >= 0, numbers, unknown)

    def _checked_keys(self) -> _Keys:
        if self.buckets < 1:
            raise InputError(
                f"buckets is {self.buckets}; at least 1 is needed for what is not in the vocabulary"
            )
        if len(self._numbers) < len(self.unigrams):
            twice = next(
                word for number, word in enumerate(self.unigrams) if self._numbers[word] != number
            )
            raise InputError(f"the unigram {twice!r} is there twice; each needs one id")
        for mark in (START, END):
            if mark not in self._numbers:
                raise InputError(
                    f"the mark {mark} is not among the unigrams; it must be one of them"
                )
        keys = self.bigrams[:, 0] * self.rows + self.bigrams[:, 1]
        if len(np.unique(keys)) < len(keys):
            raise InputError("a bigram is there twice; each needs one id")
        return keys


class _PairTable:
    """Pairs by their keys, numbered from `first`.

    It is a hash table with linear probing, for many keys at once. Two to three times as fast as a
    binary search over 200,000 keys. A quarter of the places at most is taken.
    """

    def __init__(self, keys: _Keys, first: int) -> None:
        size = 1 << max(4, (4 * len(keys)).bit_length())
        self._mask = np.uint64(size - 1)
        self._keys = np.full(size, -1, np.int64)
        self._numbers = np.full(size, -1, np.int32)
        waiting = np.arange(len(keys))
        slots = self._places(mix(keys.view(np.uint64)))
        while len(waiting):
            free = np.flatnonzero(self._keys[slots] < 0)
            taken = free[np.unique(slots[free], return_index=True)[1]]  # one key for each slot
            self._keys[slots[taken]] = keys[waiting[taken]]
            self._numbers[slots[taken]] = first + waiting[taken]
            left = np.ones(len(waiting), bool)
            left[taken] = False
            waiting = waiting[left]
            slots = (slots[left] + 1) & (size - 1)

    def find(self, keys: _Keys, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        """Return the numbers of keys whose `mix` is `hashes`; -1 for absent ones."""
        slots = self._places(hashes)
        stored = self._keys[slots]
        numbers = np.where(stored == keys, self._numbers[slots], -1)
        pending = np.flatnonzero((stored != keys) & (stored >= 0))
        slots = slots[pending]
        while len(pending):
            slots = (slots + 1) & (len(self._keys) - 1)
            stored = self._keys[slots]
            equal = stored == keys[pending]
            numbers[pending[equal]] = self._numbers[slots[equal]]
            goes_on = ~equal & (stored >= 0)
            pending = pending[goes_on]
            slots = slots[goes_on]
        return numbers

    def _places(self, hashes: npt.NDArray[np.uint64]) -> _Keys:
        return (hashes & self._mask).view(np.int64)


def mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Turn counters into pseudo-random numbers: SplitMix64's finaliser (Steele et al. 2014)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def build_ngrams(
    texts: Iterable[str], *, minimum_count: int = 10, bigrams: int = 200_000, buckets: int = 50_000
) -> NGrams:
    """Build the vocabulary of a corpus, read once, in any order.

    Words are in it that are seen `minimum_count` times or more. Of pairs of known words the most
    frequent ones are kept, of equally frequent ones the first by their words.
    """
    names, stream = _numbered(texts)
    if len(stream) == 0:
        raise InputError("there is no word in the texts to build a vocabulary of")
    counts = np.bincount(stream, minlength=len(names))
    kept = [
        number
        for number, count in enumerate(counts.tolist())
        if count >= minimum_count or number < 2
    ]
    # The marks first, then by frequency, then by the word: ids do not depend on the order of the
    # texts.
    kept[2:] = sorted(kept[2:], key=lambda number: (-counts[number], names[number]))
    new_numbers = np.full(len(names), -1)
    new_numbers[kept] = np.arange(len(kept))
    return NGrams(
        [names[number] for number in kept], _frequent_pairs(new_numbers[stream], bigrams), buckets
    )


def _numbered(texts: Iterable[str]) -> tuple[list[str], _Keys]:
    """Return all different words, START and END first, and the texts as one row of numbers."""
    numbers = {START: 0, END: 1}
    stream = array("i")
    for text in texts:
        words = [numbers.setdefault(word, len(numbers)) for word in words_of(text.lower())]
        if words:
            stream.extend([0, *words, 1])
    return list(numbers), np.frombuffer(stream, np.int32).astype(np.int64)


def _frequent_pairs(words: _Keys, limit: int) -> _Keys:
    """Return the most frequent pairs of neighbours, (at most limit, 2).

    -1 stands for an unknown word.
    """
    first = words[:-1]
    second = words[1:]
    # END and START of the next text are not neighbours
    inside = (first >= 0) & (second >= 0) & (first != 1)
    keys, counts = np.unique(first[inside] << 32 | second[inside], return_counts=True)
    chosen = keys[np.argsort(-counts, kind="stable")[:limit]]  # equal counts: by their words' ranks
    return np.stack([chosen >> 32, chosen & (2**32 - 1)], axis=1)
