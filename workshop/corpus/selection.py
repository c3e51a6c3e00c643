"""Which pairs go where: one reason for each that stays out, a split for each that stays.

The search for leaks. All messages are hashes of their words. Pairs of `fewest_words` words or more
leak if both messages are equal, or the Jaccard index of their sets of shingles (words in a row) is
`overlap` or more (Broder 1997), computed, not estimated.
"""

from __future__ import annotations

import functools
import itertools
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.keys import words_of
from rejoinder.corpora.splits import SPLITS, split_of
from workshop.corpus.messages import RULES, fault_of
from workshop.corpus.plan import CorpusPlan, Filters, Leaks

IntArray: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[np.int32]
Mask: TypeAlias = npt.NDArray[np.bool_]
Hashes: TypeAlias = npt.NDArray[np.uint64]

BLOCK_BYTES = 1 << 22  # text that is hashed at once
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_TABLE_BITS = 26
_CHUNK = 4_096
TRAIN = SPLITS.index("train")
TEST = SPLITS.index("test")
LEAKS = ("equal to evaluated", "near to evaluated")
# What the numbers in `Selection.reason` say; 0: it stays.
REASONS = ("", *RULES, "held out elsewhere", "duplicate", *LEAKS, "equal responses", "over the cap")


@dataclass
class Selection:
    """What becomes of each of r rows of d dialogues."""

    threads: list[str]  # of each dialogue's group, d names
    split: npt.NDArray[np.int8]  # (r,): place in `SPLITS`
    reason: npt.NDArray[np.uint8]
    """(r,): place in `REASONS`; of a row that is not a response it means nothing."""
    leaks: IntArray
    """(s, 2): equal and near pairs left out for each source's test and then each evaluation set."""

    def stays(self, table: TurnTable) -> Mask:
        """Return whether each row is a response that stays."""
        return table.pair & (self.reason == 0)


def select(table: TurnTable, plan: CorpusPlan, evaluated: Sequence[TurnTable]) -> Selection:
    """Decide about every row of all dialogues.

    Evaluation sets, if there are any, give pairs and single texts.
    """
    threads, splits, elsewhere = _split(table, plan)
    # What is wrong with the response, or else with the message before it.
    reason = np.where(table.fault > 0, table.fault, np.roll(table.fault, 1))
    leaks = np.zeros((len(plan.source) + len(plan.evaluation), 2), np.int64)
    chosen = Selection(threads, splits[table.dialogue], reason, leaks)
    chosen.reason[elsewhere[table.dialogue] & chosen.stays(table)] = REASONS.index(
        "held out elsewhere"
    )
    rows = np.flatnonzero(chosen.stays(table))
    repeated = _beyond(
        rows, 1, joined(table.keys[rows], chosen.split[rows].astype(np.uint64)), rows
    )
    chosen.reason[repeated] = REASONS.index("duplicate")
    _drop_leaks(chosen, table, plan, evaluated)
    equal = np.full(len(plan.source), plan.filters.most_equal_responses)
    caps = np.array([source.cap or np.iinfo(np.int64).max for source in plan.source])
    by_source = table.sources.astype(np.uint64)
    by_text = joined(table.texts, by_source)
    # names are MD5s
    dialogues = np.array([int(name[:16], 16) for name in table.threads], np.uint64)
    for group, most, drawn, why in (
        (by_text, equal, table.keys, "equal responses"),
        (by_source, caps, dialogues[table.dialogue], "over the cap"),
    ):
        rows = np.flatnonzero(chosen.stays(table) & (chosen.split == TRAIN))
        # by text and seed alone
        order = joined(drawn[rows], mixed(np.array([plan.seed + 1], np.uint64)))
        chosen.reason[_beyond(rows, most[table.sources[rows]], group[rows], order)] = REASONS.index(
            why
        )
    return chosen


def _split(table: TurnTable, plan: CorpusPlan) -> tuple[list[str], npt.NDArray[np.int8], Mask]:
    """Return each dialogue's thread and split of its group, and whether it is held out elsewhere.

    Groups share a text, tree, or long pair; a group's thread is its least name. One with a transfer
    source is a test.
    """
    above = list(range(len(table.threads)))

    def root(number: int) -> int:
        while above[number] != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    long = table.pair_words >= plan.same_words
    every = np.arange(len(above))
    names = (
        (np.array(table.threads), every),
        (np.array(table.trees), every),
        (table.keys[long], table.dialogue[long]),
    )
    for one, other in itertools.chain.from_iterable(itertools.starmap(_links, names)):
        least, greater = sorted((root(one), root(other)), key=table.threads.__getitem__)
        above[greater] = least
    threads = [table.threads[root(number)] for number in range(len(above))]
    splits, own = (
        np.array([SPLITS.index(split_of(name)) for name in names], np.int8)
        for names in (threads, table.threads)
    )
    aside = np.isin(
        table.source, [number for number, source in enumerate(plan.source) if source.transfer]
    )
    splits[np.isin(threads, np.array(threads)[aside])] = TEST
    # A package of the same conversations holds out by their own text (the corpus chitchat does).
    whole = table.pair[np.minimum(table.rows[:-1] + 1, len(table.pair) - 1)]
    return threads, splits, whole & (own == TEST) & (splits != TEST)


def _links(
    names: npt.NDArray[np.generic], owners: npt.NDArray[np.signedinteger]
) -> Iterator[tuple[int, int]]:
    """Link the owner of each name to the first owner of the same name."""
    _, index, inverse = np.unique(names, return_index=True, return_inverse=True)
    first = owners[index[inverse]]
    apart = first != owners
    return zip(first[apart].tolist(), owners[apart].tolist(), strict=True)


def _beyond(
    rows: IntArray, most: IntArray | int, group: Hashes, key: Hashes | IntArray
) -> IntArray:
    """Return the rows after the first `most` of their group, in the order of `key`."""
    order = np.lexsort((key, group))
    new = np.ones(len(order), dtype=bool)
    new[1:] = group[order[1:]] != group[order[:-1]]
    place = np.arange(len(order))
    rank = place - np.maximum.accumulate(np.where(new, place, 0))
    return rows[order[rank >= np.broadcast_to(most, len(order))[order]]]


def _drop_leaks(
    chosen: Selection, table: TurnTable, plan: CorpusPlan, evaluated: Sequence[TurnTable]
) -> None:
    """Leave out of training and validation what copies a test pair or an evaluation set."""
    test = np.flatnonzero(chosen.stays(table) & (chosen.split == TEST))
    pairs = [(table, test, table.sources[test])]
    texts: list[tuple[TurnTable, IntArray, Numbers]] = []
    if evaluated:  # sets are numbered after the sources
        chosen_rows = np.flatnonzero(evaluated[0].pair), np.arange(len(evaluated[1].texts))
        for watched, other, rows in zip((pairs, texts), evaluated, chosen_rows, strict=True):
            watched.append((other, rows, other.sources[rows] + len(plan.source)))
    found, equal = by_text, same_text = LeakIndex(texts, 0, plan.leaks).find(table)
    # A single text is in both pairs of a message: as the response of one, and as the input of the
    # next.
    by_input = np.roll(by_text, 1), np.roll(same_text, 1)
    for better, same in (by_input, LeakIndex(pairs, 1, plan.leaks).find(table)):
        found = np.where(better >= 0, better, found)
        equal = np.where(better >= 0, same, equal)
    leaks = (found >= 0) & chosen.stays(table) & (chosen.split != TEST)
    for kind, copies in enumerate((leaks & equal, leaks & ~equal)):
        chosen.reason[copies] = REASONS.index(LEAKS[kind])
        chosen.leaks[:, kind] = np.bincount(found[copies], minlength=len(chosen.leaks))


class TurnTable:
    """The hashes of the messages of d dialogues, filled dialogue by dialogue.

    The arrays are there after `close`. A row, of r, is a message; its pair is the message before it
    in its dialogue and itself as response. Dialogues have their first row, `rows` (d + 1,),
    `source`, `threads` and reply `trees`; rows have `counts`, of words, and `fault`.
    """

    texts: Hashes  # (r,): of a row's words
    grams: Hashes
    """(w,): of the `gram` words from each word on; it means nothing where a pair ends before."""
    first: IntArray  # (r + 1,): number of a row's first word
    dialogue: Numbers  # (r,): number of the row's dialogue
    pair: Mask  # (r,): whether the row is a new response to the row before it
    keys: Hashes  # (r,): of its pair; 0 if it has none
    pair_words: IntArray  # (r,): words of its pair; 0 if it has none
    sources: Numbers  # (r,): number of the row's source

    def __init__(self, gram: int, filters: Filters | None = None) -> None:
        self._gram = gram
        self._filters = filters
        self._text = bytearray()
        self._flushed = 0
        self._texts = array("Q")
        self._grams = array("Q")
        self._counts = array("q")
        self._pair = array("B")
        self._fault = array("B")
        self._rows = array("q", [0])
        self._source = array("i")
        self.threads: list[str] = []
        self.trees: list[str] = []

    def add(
        self, turns: Sequence[str], first: int, source: int, thread: str = "", tree: str = ""
    ) -> None:
        """Add a dialogue whose turns are new responses from `first` on.

        Without filters no message has a fault.
        """
        for place, turn in enumerate(turns):
            words = words_of(turn)
            self._counts.append(len(words))
            self._fault.append(fault_of(turn, words, self._filters) if self._filters else 0)
            self._pair.append(place >= max(1, first))
            if words:
                self._text += " ".join(words).encode("utf-8") + b" "
        self._rows.append(len(self._counts))
        self._source.append(source)
        self.threads.append(thread)
        self.trees.append(tree)
        if len(self._text) >= BLOCK_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Hash the text since the last flush.

        The hash of bytes b_0 ... b_n is the sum of b_i · p^i modulo 2^64 for an odd p, so that
        prefix sums give that of any stretch, shifted back by the inverse of p (Karp and Rabin
        1987). Mixed, two collide with about 2^-64.
        """
        data = np.frombuffer(self._text, np.uint8)
        powers, inverse = (
            _powers(base, max(16, len(data).bit_length())) for base in (_BASE, _INVERSE)
        )
        prefix = np.zeros(len(data) + 1, np.uint64)
        np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers[: len(data)], out=prefix[1:])

        def stretches(begins: IntArray, ends: IntArray) -> Hashes:
            return mixed((prefix[ends] - prefix[begins]) * inverse[begins])

        # beginnings of words; the end
        edges = np.concatenate([[0], np.flatnonzero(data == ord(" ")) + 1])
        starts = edges[_starts(np.array(self._counts[self._flushed :], np.int64))]
        ends = edges[np.minimum(np.arange(len(edges) - 1) + self._gram, len(edges) - 1)]
        self._texts.frombytes(stretches(starts[:-1], starts[1:]).tobytes())
        self._grams.frombytes(stretches(edges[:-1], ends).tobytes())
        self._text = bytearray()
        self._flushed = len(self._counts)

    def close(self) -> TurnTable:
        """Make the arrays; nothing can be added any more."""
        self._flush()
        self.texts, self.grams = (
            np.frombuffer(each, np.uint64) for each in (self._texts, self._grams)
        )
        self.counts, self.rows, self.source = map(
            np.array, (self._counts, self._rows, self._source)
        )
        self.fault = np.array(self._fault)
        self.pair = np.array(self._pair).astype(bool)
        self.first = _starts(self.counts)
        self.dialogue = np.repeat(np.arange(len(self.source), dtype=np.int32), np.diff(self.rows))
        self.sources = self.source[self.dialogue]
        # A dialogue's first row, which has no pair, may be joined with anything.
        self.keys = np.where(self.pair, joined(np.roll(self.texts, 1), self.texts), np.uint64(0))
        self.pair_words = np.where(self.pair, self.counts + np.roll(self.counts, 1), 0)
        return self

    def spans(self, rows: IntArray, before: int) -> tuple[IntArray, IntArray]:
        """Return the first shingle of each row, and the number of them.

        If `before` is 1, it is that of its pair.
        """
        begin = self.first[rows - before]
        end = self.first[rows + 1]
        return begin, np.maximum(0, end - begin - self._gram + 1)

    def shingles(self, begin: IntArray, number: IntArray) -> tuple[IntArray, Hashes]:
        """Return each shingle of each span once, with the span's number.

        They are sorted by span, then hash.
        """
        owner, place = expand(begin, number)
        hashes = self.grams[place]
        order = np.lexsort((hashes, owner))
        owner = owner[order]
        hashes = hashes[order]
        new = np.ones(len(owner), dtype=bool)
        new[1:] = (owner[1:] != owner[:-1]) | (hashes[1:] != hashes[:-1])
        return owner[new], hashes[new]


class LeakIndex:
    """All evaluated pairs or (`before` is 0) messages, to look copies up in.

    It has tables, their rows, and each row's set.
    """

    def __init__(
        self, watched: Iterable[tuple[TurnTable, IntArray, Numbers]], before: int, leaks: Leaks
    ) -> None:
        self._before = before
        self._leaks = leaks
        keys = [np.zeros(0, np.uint64)]
        grams = [np.zeros(0, np.uint64)]
        owners = [np.zeros(0, np.int64)]
        sizes = [np.zeros(0, np.int64)]
        sets = [np.zeros(0, np.int32)]
        count = 0
        for table, rows, numbers in watched:
            long = self._words(table)[rows] >= leaks.fewest_words
            keys.append(self._hashes(table)[rows[long]])
            sets.append(numbers[long])
            for part in _chunks(rows[long]):
                owner, found = table.shingles(*table.spans(part, before))
                grams.append(found)
                owners.append(owner + count)
                sizes.append(np.bincount(owner, minlength=len(part)))
                count += len(part)
        every = np.concatenate(keys)
        self._sizes = np.concatenate(sizes)
        items = np.concatenate(sets)
        order = np.argsort(every, kind="stable")
        self._sets = items
        self._keys = every[order]
        self._sets_by_key = items[order]
        every = np.concatenate(grams)
        order = np.argsort(every, kind="stable")
        self._grams = every[order]
        self._owners = np.concatenate(owners).astype(np.int32)[order]
        self._maybe = np.zeros(1 << _TABLE_BITS, dtype=bool)  # quick no for most shingles
        self._maybe[self._grams >> np.uint64(64 - _TABLE_BITS)] = True

    def find(self, table: TurnTable) -> tuple[Numbers, Mask]:
        """Return the set of which each row is a copy, -1 where it is none.

        Also return whether it is equal, or only nearly so.
        """
        found = np.full(len(table.texts), -1, np.int32)
        equal = np.zeros(len(table.texts), dtype=bool)
        if len(self._sets):
            for rows in _chunks(np.flatnonzero(self._words(table) >= self._leaks.fewest_words)):
                keys = self._hashes(table)[rows]
                place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
                equal[rows] = self._keys[place] == keys
                found[rows] = np.where(equal[rows], self._sets_by_key[place], -1)
                others = rows[~equal[rows]]
                found[others] = self._nearest(table, *table.spans(others, self._before))
        return found, equal

    def _words(self, table: TurnTable) -> IntArray:
        return table.pair_words if self._before else table.counts

    def _hashes(self, table: TurnTable) -> Hashes:
        return table.keys if self._before else table.texts

    def _nearest(self, table: TurnTable, begin: IntArray, number: IntArray) -> Numbers:
        """Return the set of the evaluated item that overlaps most with each span.

        It is -1 if none overlaps enough.
        """
        found = np.full(len(number), -1, np.int32)
        owner, place = expand(begin, number)
        grams = table.grams[place]
        known = self._maybe[grams >> np.uint64(64 - _TABLE_BITS)]
        places = np.flatnonzero(known)
        at = np.minimum(np.searchsorted(self._grams, grams[places]), len(self._grams) - 1)
        known[places] = self._grams[at] == grams[places]
        hits = np.bincount(owner, known, minlength=len(number))
        # Necessary for the Jaccard index; halved, as a shingle may be in a text more than once.
        near = np.flatnonzero(hits * 2 >= self._leaks.overlap * number)
        owner, grams = table.shingles(begin[near], number[near])
        sizes = np.bincount(owner, minlength=len(near))
        low = np.searchsorted(self._grams, grams, side="left")
        among = np.searchsorted(self._grams, grams, side="right") - low
        gram, place = expand(low, np.where(among <= self._leaks.formula, among, 0))
        pairs, common = np.unique(
            owner[gram] * len(self._sizes) + self._owners[place], return_counts=True
        )
        mine, item = np.divmod(pairs, len(self._sizes))
        overlap = common / (sizes[mine] + self._sizes[item] - common)
        good = overlap >= self._leaks.overlap
        mine = mine[good]
        item = item[good]
        overlap = overlap[good]
        order = np.lexsort((-item, overlap))  # the best comes last, of equal ones the first item
        found[near[mine[order]]] = self._sets[item[order]]
        return found


def mixed(values: Hashes) -> Hashes:
    """Spread every bit over all of them by a bijection (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def joined(first: Hashes, second: Hashes) -> Hashes:
    """Make one hash of two, which says their order too."""
    return mixed(mixed(first) * np.uint64(3) + second)


def expand(begin: IntArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Write ranges out: for each number of each range, which range it is of, and the number."""
    owner = np.repeat(np.arange(len(count)), count)
    return owner, np.arange(len(owner)) + (begin - _starts(count)[:-1])[owner]


def _starts(counts: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts)])


def _chunks(rows: IntArray) -> list[IntArray]:
    return np.array_split(rows, len(rows) // _CHUNK + 1)


@functools.lru_cache(maxsize=8)
def _powers(base: int, bits: int) -> Hashes:
    """base^0, base^1, ... modulo 2^64, 2^bits numbers."""
    factors = np.full(1 << bits, base, np.uint64)
    factors[0] = 1
    return np.multiply.accumulate(factors)
