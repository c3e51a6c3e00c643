"""Building a vocabulary of subwords: tensor2tensor's algorithm, as ConveRT uses it (section 3.1).

Start from all characters. In each iteration segment every word with the present vocabulary; from
the start of each segment count every substring up to the word's end; then, from the longest to the
shortest, take a substring that is frequent enough, and subtract its count from those of its proper
prefixes. The tree of substrings is grown once.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError
from rejoinder.text.subwords import MARK, Subwords
from rejoinder.text.tokens import lower, tokens

_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]
_Numbers = npt.NDArray[np.int32]
_Flags = npt.NDArray[np.bool_]

_PIECE = 256
"""Words longer than that are counted in pieces: nobody's vocabulary needs a substring out of a
megabyte of base64."""

_TOLERANCE = 0.01


def build_subwords(
    texts: Iterable[str],
    *,
    minimum_count: int = 250,
    target_size: int | None = None,
    iterations: int = 4,
    max_bytes: int = 20,
    max_digits: int = 4,
    buckets: int = 1000,
) -> Subwords:
    """Build the vocabulary of a corpus, read once, in any order: the most frequent subwords first.

    Subwords are seen `minimum_count` times (characters stay, however rare), or as often as gives
    `target_size` within 1 %; where no count does, the closest is taken, with a warning. A subword
    has at most `max_bytes` of UTF-8, its start mark (3) included, and `max_digits` decimal digits
    in a row.

    Raises:
        InputError: there is no text, a setting is below 1, or `target_size` is below the number of
            characters.
    """
    settings = {
        "minimum_count": minimum_count,
        "iterations": iterations,
        "max_bytes": max_bytes,
        "max_digits": max_digits,
        "target_size": 1 if target_size is None else target_size,
    }
    for name, value in settings.items():
        if value < 1:
            raise InputError(f"{name} is {value}; at least 1 is needed")
    builder = _Builder(_Corpus(_count_tokens(texts), max_bytes, max_digits), iterations)
    if target_size is not None:
        minimum_count = _search(builder, target_size)
    return Subwords(builder.subwords(minimum_count), buckets)


def _count_tokens(texts: Iterable[str]) -> Counter[str]:
    if isinstance(texts, str):
        raise InputError("texts is one string; give a list of texts")
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(tokens(lower(text)))
    if not counts:
        raise InputError("there is no text to build a vocabulary from")
    return counts


class _Corpus:
    """All distinct words with their start marks, one after the other (N characters)."""

    def __init__(self, counts: Counter[str], max_bytes: int, max_digits: int) -> None:
        words = ((MARK + token, count) for token, count in counts.items())
        pieces = [
            (word[i : i + _PIECE], count)
            for word, count in words
            for i in range(0, len(word), _PIECE)
        ]
        lengths = np.fromiter((len(piece) for piece, _ in pieces), np.int64, len(pieces))
        stops = np.cumsum(lengths)
        self.text = "".join(piece for piece, _ in pieces)
        codes = np.frombuffer(self.text.encode("utf-32-le", "surrogatepass"), "<u4")
        # code points (A,), ascending
        self.alphabet, characters = np.unique(codes, return_inverse=True)
        self.characters = characters.astype(np.int32)  # which of the alphabet stands there (N,)
        counted = np.fromiter((count for _, count in pieces), np.float64, len(pieces))
        self.weights = np.repeat(counted, lengths)  # how often the word there occurs (N,)
        self.words = stops - lengths  # where words begin (W,)
        self.ends = np.repeat(stops, lengths)  # where the word there ends (N,)
        # longest substring from there, in characters (N,)
        self.reach = self._reach(codes, max_bytes, max_digits)

    def _reach(self, codes: npt.NDArray[np.uint32], max_bytes: int, max_digits: int) -> _Ints:
        positions = np.arange(len(codes))
        sizes = np.concatenate(
            [[0], np.cumsum(1 + (codes > 0x7F) + (codes > 0x7FF) + (codes > 0xFFFF))]
        )
        by_bytes = np.searchsorted(sizes, sizes[:-1] + max_bytes, side="right") - 1
        decimal = np.array([chr(code).isdecimal() for code in self.alphabet])[self.characters]
        digits = np.concatenate([[0], np.cumsum(decimal)])
        # Where a run of one digit too many begins; a substring ends before the last digit of the
        # next such run.
        too_many = np.full(len(codes), len(codes))
        runs = np.flatnonzero(
            digits[max_digits + 1 :] - digits[: -max_digits - 1] == max_digits + 1
        )
        too_many[runs] = runs
        by_digits = np.minimum.accumulate(too_many[::-1])[::-1] + max_digits
        return np.maximum(np.minimum(np.minimum(by_bytes, by_digits), self.ends) - positions, 1)


@dataclass(frozen=True, slots=True)
class _Level:
    """The distinct substrings of one length, and where they stand."""

    length: int
    positions: _Numbers  # (n,) start of each occurrence, ascending
    groups: _Numbers  # (n,) which of the G substrings that occurrence is
    parents: _Numbers
    """(G,) which substring of the level before is this one without its last character."""
    examples: _Numbers  # (G,) one position at which the substring stands

    def sums(self, values: _Floats) -> _Floats:
        return _sums(self.groups, values[self.positions], len(self.parents))


def _sums(groups: _Numbers, values: _Floats, size: int) -> _Floats:
    """Sum the values of each of `size` groups; exact, since counts are whole and below 2**53."""
    sums = np.bincount(groups, weights=values, minlength=size)
    return sums.astype(np.float64, copy=False)


def _grow(corpus: _Corpus, floor: int) -> list[_Level]:
    """Return all characters, and all longer substrings seen `floor` times or more.

    They are by length. No substring is more frequent than its prefixes, so that whatever extends a
    rare one can be left out.
    """
    everywhere = np.arange(len(corpus.text), dtype=np.int32)
    _, first = np.unique(corpus.characters, return_index=True)
    level = _Level(
        1, everywhere, corpus.characters, np.zeros(len(first), np.int32), first.astype(np.int32)
    )
    levels = []
    while len(level.positions):
        levels.append(level)
        frequent = level.sums(corpus.weights) >= floor
        kept = frequent[level.groups] & (corpus.reach[level.positions] > level.length)
        positions = level.positions[kept]
        keys = level.groups[kept].astype(np.int64) * len(corpus.alphabet)
        keys += corpus.characters[positions + level.length]
        distinct, first, groups = np.unique(keys, return_index=True, return_inverse=True)
        parents = (distinct // len(corpus.alphabet)).astype(np.int32)
        level = _Level(
            level.length + 1, positions, groups.astype(np.int32), parents, positions[first]
        )
    return levels


class _Builder:
    """Builds vocabularies of one corpus with different minimum counts."""

    def __init__(self, corpus: _Corpus, iterations: int) -> None:
        self.corpus = corpus
        self._iterations = iterations
        self._floor = 0
        self._levels: list[_Level] = []

    def size(self, minimum_count: int) -> int:
        return sum(int(np.count_nonzero(taken)) for taken, _ in self._select(minimum_count))

    def subwords(self, minimum_count: int) -> list[str]:
        """Return the subwords, by descending count.

        Equal counts are in the order of the code points.
        """
        subwords: list[tuple[float, str]] = []
        selection = self._select(minimum_count)
        for level, (taken, counts) in zip(self._levels, selection, strict=True):
            starts = level.examples[taken].tolist()
            texts = (self.corpus.text[start : start + level.length] for start in starts)
            subwords += zip((-counts[taken]).tolist(), texts, strict=True)
        # A lone surrogate is not a character and cannot be written to a file: it gets a bucket
        # like an unknown one.
        return [
            subword
            for _, subword in sorted(subwords)
            if not any("\ud800" <= char <= "\udfff" for char in subword)
        ]

    def _select(self, minimum_count: int) -> list[tuple[_Flags, _Floats]]:
        """Return the substrings of each level in the vocabulary, and their counts.

        Occurrences in longer ones are not counted.
        """
        if not self._levels or minimum_count < self._floor:
            self._floor = minimum_count
            self._levels = _grow(self.corpus, minimum_count)
        all_characters = np.ones(len(self.corpus.text), np.bool_)
        selection = self._count_and_take(all_characters, minimum_count)
        for _ in range(self._iterations - 1):
            starts = self._segment([taken for taken, _ in selection])
            selection = self._count_and_take(starts, minimum_count)
        return selection

    def _count_and_take(self, starts: _Flags, minimum_count: int) -> list[tuple[_Flags, _Floats]]:
        weights = np.where(starts, self.corpus.weights, 0.0)
        selection = []
        # counts of those taken that begin with a substring
        longer = np.zeros(len(self._levels[-1].parents))
        for level in reversed(self._levels):
            counts = level.sums(weights) - longer
            taken = counts >= minimum_count if level.length > 1 else np.ones(len(counts), np.bool_)
            selection.append((taken, counts))
            if level.length > 1:
                parents = len(self._levels[level.length - 2].parents)
                longer = _sums(level.parents, longer + np.where(taken, counts, 0.0), parents)
        return selection[::-1]

    def _segment(self, taken: list[_Flags]) -> _Flags:
        longest = np.ones(len(self.corpus.text), np.int64)
        for level, flags in zip(self._levels, taken, strict=True):
            longest[level.positions[flags[level.groups]]] = level.length
        starts = np.zeros(len(longest), np.bool_)
        at = self.corpus.words
        while len(at):
            starts[at] = True
            following = at + longest[at]
            at = following[following < self.corpus.ends[at]]
        return starts


def _search(builder: _Builder, target: int) -> int:
    """Return the minimum count whose vocabulary has `target` subwords within 1 %.

    Or else the one that comes closest.
    """
    characters = len(builder.corpus.alphabet)
    if characters > target * (1 + _TOLERANCE):
        raise InputError(
            f"target_size is {target}, but the corpus has {characters} characters and all must stay"
        )
    sizes: dict[int, int] = {}

    def size(count: int) -> int:
        sizes[count] = sizes[count] if count in sizes else builder.size(count)
        return sizes[count]

    def distance(count: int) -> int:
        return abs(sizes[count] - target)

    low = high = max(1, int(builder.corpus.weights[builder.corpus.words].sum()) // (4 * target))
    while size(low) < target and low > 1:
        low = max(1, low // 4)
    while size(high) > target * (1 + _TOLERANCE):  # ends, since the characters alone are not more
        high *= 4
    while high - low > 1 and distance(min(sizes, key=distance)) > target * _TOLERANCE:
        middle = min(max(math.isqrt(low * high), low + 1), high - 1)
        if size(middle) > target:
            low = middle
        else:
            high = middle
    best = min(sizes, key=distance)
    if distance(best) > target * _TOLERANCE:
        warnings.warn(
            (
                f"no minimum count gives {target} subwords within 1 %;"
                f" the closest, {best}, gives {sizes[best]}"
            ),
            stacklevel=3,
        )
    return best
