"""Training pairs that copy something that is evaluated, exactly or nearly.

Compared are words alone. A pair of fewer than `fewest_words` words is never a leak: everybody says "thank you" and
"you're welcome". Longer ones are if the words of both messages are equal, or if the sets of shingles (five words in a
row) of the two pairs have a Jaccard index of `overlap` or more (Broder 1997). The index is computed, not estimated: a
list says for each shingle which evaluated pairs have it. A shingle that more than `formula` of them have is a formula
("is there anything else i can") and stands for none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.pretraining.recipe import Leaks
from rejoinder.corpora.pretraining.shingles import Hashes, Shingles, expand, shingles_of
from rejoinder.corpora.pretraining.turns import IntArray, Mask, TurnTable

_TABLE_BITS = 26
_CHUNK = 4_096


@dataclass(frozen=True)
class Watched:
    """Rows of a table that are evaluated, each with its set's number."""

    table: TurnTable
    rows: IntArray
    sets: IntArray


class LeakIndex:
    """All that is evaluated, to look pairs (or single messages) up in.

    Args:
        watched: what is evaluated.
        before: 1 for pairs, 0 for single messages.
        leaks: what counts as a leak.
    """

    def __init__(self, watched: Sequence[Watched], before: int, leaks: Leaks) -> None:
        self._before, self._leaks = before, leaks
        keys: list[Hashes] = []
        grams: list[Hashes] = []
        items: list[IntArray] = []
        sizes: list[IntArray] = []
        sets: list[IntArray] = []
        count = 0
        for each in watched:
            for block, rows, of_set in self._blocks(each):
                begin, number = block.spans(rows, before)
                owner, place = expand(begin, number)
                owner, found = distinct(owner, block.grams[place])
                keys.append(self._keys(block, rows))
                grams.append(found)
                items.append(owner + count)
                sizes.append(np.bincount(owner, minlength=len(rows)))
                sets.append(of_set)
                count += len(rows)
        self._sizes, self.sets = _joined(sizes), _joined(sets)
        every = _hashes(keys)
        self._keys_order = np.argsort(every, kind="stable")
        self._sorted_keys = every[self._keys_order]
        every, owners = _hashes(grams), _joined(items)
        order = np.argsort(every, kind="stable")
        self._grams, self._owners = every[order], owners[order].astype(np.int32)
        self._maybe = np.zeros(1 << _TABLE_BITS, dtype=bool)  # quick no for most shingles
        self._maybe[self._grams >> np.uint64(64 - _TABLE_BITS)] = True

    def find(self, block: Shingles, rows: IntArray) -> tuple[IntArray, Mask]:
        """Look rows of a block up, which have `fewest_words` words or more.

        Returns:
            The set of a copy of each, -1 where there is none: (n,); and whether that is equal, not nearly so: (n,).
        """
        found = np.full(len(rows), -1, np.int64)
        if not len(self.sets):
            return found, np.zeros(len(rows), dtype=bool)
        keys = self._keys(block, rows)
        place = np.minimum(np.searchsorted(self._sorted_keys, keys), len(self._sorted_keys) - 1)
        equal = self._sorted_keys[place] == keys
        found[equal] = self.sets[self._keys_order[place[equal]]]
        begin, number = block.spans(rows, self._before)
        hits = np.concatenate([[0], np.cumsum(self._known(block.grams))])
        # Necessary for the Jaccard index; halved, as a shingle may be in a text more than once.
        enough = (hits[begin + number] - hits[begin]) * 2 >= self._leaks.overlap * number
        near = np.flatnonzero(~equal & (number > 0) & enough)
        for low in range(0, len(near), _CHUNK):
            part = near[low : low + _CHUNK]
            found[part] = self._nearest(block, begin[part], number[part])
        return found, equal

    def _nearest(self, block: Shingles, begin: IntArray, number: IntArray) -> IntArray:
        """Set of the evaluated item that overlaps most with each of these spans; -1 if none overlaps enough."""
        owner, place = expand(begin, number)
        owner, grams = distinct(owner, block.grams[place])
        sizes = np.bincount(owner, minlength=len(number))
        low = np.searchsorted(self._grams, grams, side="left")
        high = np.searchsorted(self._grams, grams, side="right")
        among = np.where(high - low <= self._leaks.formula, high - low, 0)
        gram, place = expand(low, among)
        pairs, common = np.unique(owner[gram] * len(self._sizes) + self._owners[place], return_counts=True)
        mine, item = np.divmod(pairs, len(self._sizes))
        overlap = common / (sizes[mine] + self._sizes[item] - common)
        good = overlap >= self._leaks.overlap
        mine, item, overlap = mine[good], item[good], overlap[good]
        order = np.lexsort((-item, overlap))  # the best comes last, of equal ones the first item
        found = np.full(len(number), -1, np.int64)
        found[mine[order]] = self.sets[item[order]]
        return found

    def _known(self, grams: Hashes) -> Mask:
        known = self._maybe[grams >> np.uint64(64 - _TABLE_BITS)]
        places = np.flatnonzero(known)
        at = np.minimum(np.searchsorted(self._grams, grams[places]), len(self._grams) - 1)
        if len(self._grams):
            known[places] = self._grams[at] == grams[places]
        return known

    def _keys(self, block: Shingles, rows: IntArray) -> Hashes:
        return block.pair_keys(rows) if self._before else block.texts[rows - block.low]

    def _blocks(self, watched: Watched) -> Iterator[tuple[Shingles, IntArray, IntArray]]:
        """Blocks of the table with those watched rows that are long enough."""
        table = watched.table
        words = table.pair_words if self._before else table.counts
        long = words[watched.rows] >= self._leaks.fewest_words
        rows, sets = watched.rows[long], watched.sets[long]
        for low, high in table.blocks():
            first, last = np.searchsorted(rows, [low, high])
            if first < last:
                yield shingles_of(table, low, high, self._leaks.gram), rows[first:last], sets[first:last]


def distinct(owner: IntArray, hashes: Hashes) -> tuple[IntArray, Hashes]:
    """Each hash of an owner once; sorted by owner, then hash."""
    order = np.lexsort((hashes, owner))
    owner, hashes = owner[order], hashes[order]
    new = np.ones(len(owner), dtype=bool)
    new[1:] = (owner[1:] != owner[:-1]) | (hashes[1:] != hashes[:-1])
    return owner[new], hashes[new]


def _joined(parts: Sequence[IntArray]) -> IntArray:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _hashes(parts: Sequence[Hashes]) -> npt.NDArray[np.uint64]:
    return np.concatenate([np.zeros(0, np.uint64), *parts])
