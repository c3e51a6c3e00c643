"""Hashes of stretches of words, for whole blocks of a table at once.

The polynomial hash of bytes b_0 ... b_n is the sum of b_i · p^i modulo 2^64 for an odd p, so that prefix sums give
the hash of any stretch, shifted back by the inverse of p (Karp and Rabin 1987); a bijection then mixes its bits
(the finaliser of splitmix64). Two different texts share a hash with a probability of about 2^-64 for texts that nobody
chose to collide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.pretraining.turns import IntArray, TurnTable

Hashes: TypeAlias = npt.NDArray[np.uint64]

_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_SPACE = ord(" ")


def mixed(values: Hashes) -> Hashes:
    """The values through a bijection that spreads every bit over all of them."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def joined(first: Hashes, second: Hashes) -> Hashes:
    """One hash of two, which says their order too."""
    return mixed(mixed(first) * np.uint64(3) + second)


@dataclass(frozen=True)
class Shingles:
    """The hashes of a block of rows [low, high) of a table.

    Attributes:
        low: the first row.
        texts: (high - low,): hash of each row's words.
        grams: (w,): hash of the n words that begin at each word of the block; near its end there are fewer than n, and
            the value means nothing.
        first: (high - low + 1,): number of the first word of each row, within the block.
        n: words of a shingle.
    """

    low: int
    texts: Hashes
    grams: Hashes
    first: IntArray
    n: int

    def pair_keys(self, rows: IntArray) -> Hashes:
        """One hash of input and response of each of these rows of the table, which are responses."""
        return joined(self.texts[rows - self.low - 1], self.texts[rows - self.low])

    def spans(self, rows: IntArray, before: int) -> tuple[IntArray, IntArray]:
        """First shingle and the number of them of each row with so many rows `before` it: 1 for its pair."""
        begin, end = self.first[rows - self.low - before], self.first[rows - self.low + 1]
        return begin, np.maximum(0, end - begin - self.n + 1)


def shingles_of(table: TurnTable, low: int, high: int, n: int) -> Shingles:
    """Hash a block of rows, as `TurnTable.blocks` cuts them."""
    offset = int(table.start[low])
    data = table.words[offset : int(table.start[high])]
    prefix = _prefix_sums(data)
    starts = table.start[low : high + 1] - offset
    ends = np.flatnonzero(data == _SPACE).astype(np.int64) + 1  # one past the space after each word
    begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    last = np.minimum(np.arange(len(ends)) + n - 1, len(ends) - 1)
    first = np.concatenate([[0], np.cumsum(table.counts[low:high], dtype=np.int64)])
    return Shingles(
        low, _stretches(prefix, starts[:-1], starts[1:]), _stretches(prefix, begins, ends[last]), first, n
    )


def expand(begin: IntArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Write ranges out: for each number of each range, which range it is of, and the number."""
    owner = np.repeat(np.arange(len(count)), count)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    return owner, begin[owner] + within


def _prefix_sums(data: npt.NDArray[np.uint8]) -> Hashes:
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * _powers(_BASE, len(data)), out=sums[1:])
    return sums


def _stretches(prefix: Hashes, begins: IntArray, ends: IntArray) -> Hashes:
    back = _powers(_INVERSE, len(prefix))
    return mixed((prefix[ends] - prefix[begins]) * back[begins])


_KNOWN: dict[int, Hashes] = {}


def _powers(base: int, count: int) -> Hashes:
    """base^0 ... base^(count - 1) modulo 2^64."""
    known = _KNOWN.get(base)
    if known is None or len(known) < count:
        factors = np.full(max(count, 1 << 16), base, np.uint64)
        factors[0] = 1
        known = _KNOWN[base] = np.multiply.accumulate(factors)
    return known[:count]
