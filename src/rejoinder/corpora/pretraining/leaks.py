"""All messages of a corpus as hashes in memory, and the search for copies of what is evaluated among them.

Compared are words alone (`splits.words_of`). A pair of fewer than `fewest_words` words is never a leak: everybody says
"thank you" and "you're welcome". Longer ones are if the words of both messages are equal, or if the sets of shingles
(five words in a row) of the two pairs have a Jaccard index of `overlap` or more (Broder 1997). The index is computed,
not estimated: a list says for each shingle which evaluated pairs have it. A shingle that more than `formula` of them
have is a formula ("is there anything else i can") and stands for none.

The polynomial hash of bytes b_0 ... b_n is the sum of b_i · p^i modulo 2^64 for an odd p, so that prefix sums give the
hash of any stretch of words, shifted back by the inverse of p (Karp and Rabin 1987); a bijection then mixes its bits
(the finaliser of splitmix64). Two texts that nobody chose to collide share a hash with a probability of about 2^-64.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.pretraining.messages import fault_of
from rejoinder.corpora.pretraining.plan import Filters, Leaks
from rejoinder.corpora.splits import words_of

IntArray: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Hashes: TypeAlias = npt.NDArray[np.uint64]

BLOCK_BYTES = 1 << 22
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_TABLE_BITS = 26
_CHUNK = 4_096


class TurnTable:
    """Messages, filled dialogue by dialogue; the arrays are there after `close`.

    A row is a message. The pair of a row is the message before it in its dialogue, and the message itself as response.

    Attributes:
        words: all words as UTF-8, a space after each: (b,) uint8.
        start: (r + 1,): where in `words` a row begins; it ends where the next begins.
        counts: (r,): words of a row.
        dialogue: (r,): number of the row's dialogue.
        fault: (r,): what `messages.fault_of` says of it.
        pair: (r,): whether the row is a new response to the row before it.
        rows: (d + 1,): first row of a dialogue; it ends where the next begins.
        source: (d,): number of the dialogue's source.
    """

    words: npt.NDArray[np.uint8]
    start: IntArray
    counts: npt.NDArray[np.int32]
    dialogue: npt.NDArray[np.int32]
    fault: npt.NDArray[np.uint8]
    pair: Mask
    rows: IntArray
    source: npt.NDArray[np.int32]

    def __init__(self) -> None:
        codes = {"start": "q", "counts": "i", "dialogue": "i", "fault": "B", "pair": "B", "rows": "q", "source": "i"}
        self._bytes = bytearray()
        self._columns: dict[str, array[int]] = {name: array(code) for name, code in codes.items()}

    def add(self, turns: Sequence[str], first: int, source: int, filters: Filters | None = None) -> None:
        """Add a dialogue whose turns are new responses from `first` on."""
        columns = self._columns
        number = len(columns["source"])
        columns["source"].append(source)
        columns["rows"].append(len(columns["start"]))
        for place, turn in enumerate(turns):
            words = words_of(turn)
            columns["start"].append(len(self._bytes))
            columns["counts"].append(len(words))
            columns["dialogue"].append(number)
            columns["fault"].append(fault_of(turn, words, filters) if filters else 0)
            columns["pair"].append(place >= max(1, first))
            if words:
                self._bytes += " ".join(words).encode("utf-8") + b" "

    def close(self) -> TurnTable:
        """Make the arrays; nothing can be added any more."""
        columns: dict[str, Any] = self._columns
        columns["start"].append(len(self._bytes))
        columns["rows"].append(len(columns["counts"]))
        for name, column in columns.items():
            setattr(self, name, np.array(column) if name != "pair" else np.array(column).astype(bool))
        self.words = np.frombuffer(self._bytes, np.uint8)
        self._columns = {}
        return self

    @property
    def sources(self) -> npt.NDArray[np.int32]:
        """(r,): number of each row's source."""
        return self.source[self.dialogue]

    @property
    def pair_words(self) -> IntArray:
        """(r,): words of a row and the row before it; of a row without a pair 0."""
        counts = self.counts.astype(np.int64)
        return np.where(self.pair, counts + np.concatenate([[0], counts])[: len(counts)], 0)

    def blocks(self, n: int, size: int = BLOCK_BYTES) -> Iterator[Block]:
        """Hash whole dialogues of about `size` bytes at a time, with shingles of n words."""
        ends = self.start[self.rows[1:]]
        low = 0
        while low < len(ends):
            high = max(low + 1, int(np.searchsorted(ends, self.start[self.rows[low]] + size, side="right")))
            yield self._block(int(self.rows[low]), int(self.rows[high]), n)
            low = high

    def _block(self, low: int, high: int, n: int) -> Block:
        offset = int(self.start[low])
        data = self.words[offset : int(self.start[high])]
        prefix = np.zeros(len(data) + 1, np.uint64)
        np.cumsum((data.astype(np.uint64) + np.uint64(1)) * _powers(_BASE, len(data)), out=prefix[1:])

        def stretches(begins: IntArray, ends: IntArray) -> Hashes:
            return mixed((prefix[ends] - prefix[begins]) * _powers(_INVERSE, len(prefix))[begins])

        starts = self.start[low : high + 1] - offset
        ends = np.flatnonzero(data == ord(" ")).astype(np.int64) + 1  # one past the space after each word
        begins = np.concatenate([[0], ends])[: len(ends)]
        last = np.minimum(np.arange(len(ends)) + n - 1, len(ends) - 1)
        first = np.concatenate([[0], np.cumsum(self.counts[low:high], dtype=np.int64)])
        return Block(low, high, stretches(starts[:-1], starts[1:]), stretches(begins, ends[last]), first, n)


@dataclass(frozen=True)
class Block:
    """The hashes of rows [low, high) of a table.

    Attributes:
        low: the first row.
        high: one past the last row.
        texts: (high - low,): hash of each row's words.
        grams: (w,): hash of the n words that begin at each word of the block; near its end there are fewer than n, and
            the value means nothing.
        first: (high - low + 1,): number of the first word of each row, within the block.
        n: words of a shingle.
    """

    low: int
    high: int
    texts: Hashes
    grams: Hashes
    first: IntArray
    n: int

    def keys(self, rows: IntArray, before: int) -> Hashes:
        """One hash of each of these rows of the table: of its pair if `before` is 1, of its own words if it is 0."""
        own = self.texts[rows - self.low]
        return joined(self.texts[rows - self.low - 1], own) if before else own

    def spans(self, rows: IntArray, before: int) -> tuple[IntArray, IntArray]:
        """First shingle and the number of them of each row, or of its pair."""
        begin, end = self.first[rows - self.low - before], self.first[rows - self.low + 1]
        return begin, np.maximum(0, end - begin - self.n + 1)

    def shingles(self, begin: IntArray, number: IntArray) -> tuple[IntArray, Hashes]:
        """Each shingle of each span once, with the span's number; sorted by span, then hash."""
        owner, place = expand(begin, number)
        hashes = self.grams[place]
        order = np.lexsort((hashes, owner))
        owner, hashes = owner[order], hashes[order]
        new = np.ones(len(owner), dtype=bool)
        new[1:] = (owner[1:] != owner[:-1]) | (hashes[1:] != hashes[:-1])
        return owner[new], hashes[new]


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
        keys, grams = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
        items, sizes, sets = ([np.zeros(0, np.int64)] for _ in range(3))
        count = 0
        for each in watched:
            words = each.table.pair_words if before else each.table.counts
            long = words[each.rows] >= leaks.fewest_words
            watched_rows, watched_sets = each.rows[long], each.sets[long]
            for block in each.table.blocks(leaks.gram):
                here = slice(*np.searchsorted(watched_rows, [block.low, block.high]))
                rows = watched_rows[here]
                owner, found = block.shingles(*block.spans(rows, before))
                keys.append(block.keys(rows, before))
                grams.append(found)
                items.append(owner + count)
                sizes.append(np.bincount(owner, minlength=len(rows)))
                sets.append(watched_sets[here])
                count += len(rows)
        self._sizes, self._sets = np.concatenate(sizes), np.concatenate(sets)
        every = np.concatenate(keys)
        self._keys_order = np.argsort(every, kind="stable")
        self._sorted_keys = every[self._keys_order]
        every, owners = np.concatenate(grams), np.concatenate(items)
        order = np.argsort(every, kind="stable")
        self._grams, self._owners = every[order], owners[order].astype(np.int32)
        self._maybe = np.zeros(1 << _TABLE_BITS, dtype=bool)  # quick no for most shingles
        self._maybe[self._grams >> np.uint64(64 - _TABLE_BITS)] = True

    def find(self, block: Block, rows: IntArray) -> tuple[IntArray, Mask]:
        """Look rows of a block up, which have `fewest_words` words or more.

        Returns:
            The set of a copy of each, -1 where there is none: (n,); and whether that is equal, not nearly so: (n,).
        """
        found = np.full(len(rows), -1, np.int64)
        if not len(self._sets):
            return found, np.zeros(len(rows), dtype=bool)
        keys = block.keys(rows, self._before)
        place = np.minimum(np.searchsorted(self._sorted_keys, keys), len(self._sorted_keys) - 1)
        equal = self._sorted_keys[place] == keys
        found[equal] = self._sets[self._keys_order[place[equal]]]
        begin, number = block.spans(rows, self._before)
        hits = np.concatenate([[0], np.cumsum(self._known(block.grams))])
        # Necessary for the Jaccard index; halved, as a shingle may be in a text more than once.
        enough = (hits[begin + number] - hits[begin]) * 2 >= self._leaks.overlap * number
        near = np.flatnonzero(~equal & (number > 0) & enough)
        for low in range(0, len(near), _CHUNK):
            part = near[low : low + _CHUNK]
            found[part] = self._nearest(block, begin[part], number[part])
        return found, equal

    def _nearest(self, block: Block, begin: IntArray, number: IntArray) -> IntArray:
        """Set of the evaluated item that overlaps most with each of these spans; -1 if none overlaps enough."""
        owner, grams = block.shingles(begin, number)
        sizes = np.bincount(owner, minlength=len(number))
        low = np.searchsorted(self._grams, grams, side="left")
        among = np.searchsorted(self._grams, grams, side="right") - low
        gram, place = expand(low, np.where(among <= self._leaks.formula, among, 0))
        pairs, common = np.unique(owner[gram] * len(self._sizes) + self._owners[place], return_counts=True)
        mine, item = np.divmod(pairs, len(self._sizes))
        overlap = common / (sizes[mine] + self._sizes[item] - common)
        good = overlap >= self._leaks.overlap
        mine, item, overlap = mine[good], item[good], overlap[good]
        order = np.lexsort((-item, overlap))  # the best comes last, of equal ones the first item
        found = np.full(len(number), -1, np.int64)
        found[mine[order]] = self._sets[item[order]]
        return found

    def _known(self, grams: Hashes) -> Mask:
        known = self._maybe[grams >> np.uint64(64 - _TABLE_BITS)]
        places = np.flatnonzero(known)
        at = np.minimum(np.searchsorted(self._grams, grams[places]), len(self._grams) - 1)
        if len(self._grams):
            known[places] = self._grams[at] == grams[places]
        return known


def mixed(values: Hashes) -> Hashes:
    """Put the values through a bijection that spreads every bit over all of them."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def joined(first: Hashes, second: Hashes) -> Hashes:
    """Make one hash of two, which says their order too."""
    return mixed(mixed(first) * np.uint64(3) + second)


def expand(begin: IntArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Write ranges out: for each number of each range, which range it is of, and the number."""
    owner = np.repeat(np.arange(len(count)), count)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    return owner, begin[owner] + within


def _powers(base: int, count: int) -> Hashes:
    """base^0 ... base^(count - 1) modulo 2^64."""
    return _all_powers(base, 1 << max(16, count.bit_length()))[:count]


@functools.lru_cache(maxsize=8)
def _all_powers(base: int, count: int) -> Hashes:
    factors = np.full(count, base, np.uint64)
    factors[0] = 1
    return np.multiply.accumulate(factors)
