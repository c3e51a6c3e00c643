"""Which pairs go where: one reason for each that stays out, and a split for each that stays."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.example import SPLITS, split_of
from rejoinder.corpora.pretraining.leaks import Hashes, IntArray, LeakIndex, Mask, Numbers, TurnTable, joined, mixed
from rejoinder.corpora.pretraining.messages import RULES
from rejoinder.corpora.pretraining.plan import CorpusPlan

TRAIN, TEST = SPLITS.index("train"), SPLITS.index("test")
LEAKS = ("equal to evaluated", "near to evaluated")
REASONS = ("", *RULES, "held out elsewhere", "duplicate", *LEAKS, "equal responses", "over the cap")
"""What the numbers in `Selection.reason` say; 0: it stays."""


@dataclass
class Selection:
    """What becomes of each of r rows of d dialogues."""

    threads: list[str]
    """Of each dialogue's group, d names."""
    split: npt.NDArray[np.int8]
    """(r,): place in `SPLITS`."""
    reason: npt.NDArray[np.uint8]
    """(r,): place in `REASONS`; of a row that is no response it means nothing."""
    leaks: IntArray
    """(s, 2): training and validation pairs left out for each source's test and then each evaluation set, equal and
    near ones."""

    def stays(self, table: TurnTable) -> Mask:
        """Return whether each row is a response that stays."""
        return table.pair & (self.reason == 0)


def select(table: TurnTable, plan: CorpusPlan, evaluated: tuple[TurnTable, TurnTable] | None) -> Selection:
    """Decide about every row of all dialogues, source by source, given pairs and single texts of evaluation sets."""
    threads, splits, elsewhere = _split(table, plan)
    # What is wrong with the response, or else with the message before it.
    reason = np.where(table.fault > 0, table.fault, np.roll(table.fault, 1))
    leaks = np.zeros((len(plan.source) + len(plan.evaluation), 2), np.int64)
    chosen = Selection(threads, splits[table.dialogue], reason, leaks)
    chosen.reason[elsewhere[table.dialogue] & chosen.stays(table)] = REASONS.index("held out elsewhere")
    rows = np.flatnonzero(chosen.stays(table))
    repeated = _beyond(rows, 1, joined(table.keys[rows], chosen.split[rows].astype(np.uint64)), rows)
    chosen.reason[repeated] = REASONS.index("duplicate")
    _drop_leaks(chosen, table, plan, evaluated)
    equal = np.full(len(plan.source), plan.filters.most_equal_responses)
    caps = np.array([source.cap or np.iinfo(np.int64).max for source in plan.source])
    by_source = table.sources.astype(np.uint64)
    for group, most, why in (
        (joined(table.texts, by_source), equal, "equal responses"),
        (by_source, caps, "over the cap"),
    ):
        rows = np.flatnonzero(chosen.stays(table) & (chosen.split == TRAIN))
        drawn = joined(table.keys[rows], mixed(np.array([plan.seed + 1], np.uint64)))  # by text and seed alone
        chosen.reason[_beyond(rows, most[table.sources[rows]], group[rows], drawn)] = REASONS.index(why)
    return chosen


def _split(table: TurnTable, plan: CorpusPlan) -> tuple[list[str], npt.NDArray[np.int8], Mask]:
    """Return of each dialogue the thread of its group, the group's split, and whether it is held out elsewhere.

    A group is of one text, one tree, or a shared pair of `same_words` words. Its thread is the least of its names. One
    with a dialogue of a transfer source is a test in whole.
    """
    above = list(range(len(table.threads)))

    def root(number: int) -> int:
        while above[number] != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    long, every = table.pair_words >= plan.same_words, np.arange(len(above))
    for one, other in itertools.chain(
        _links(np.array(table.threads), every),
        _links(np.array(table.trees), every),
        _links(table.keys[long], table.dialogue[long]),
    ):
        least, greater = sorted((root(one), root(other)), key=table.threads.__getitem__)
        above[greater] = least
    threads = [table.threads[root(number)] for number in range(len(above))]
    splits, own = (
        np.array([SPLITS.index(split_of(name)) for name in names], np.int8) for names in (threads, table.threads)
    )
    aside = np.isin(table.source, [number for number, source in enumerate(plan.source) if source.transfer])
    splits[np.isin(threads, np.array(threads)[aside])] = TEST
    # A package of the same conversations holds out by their own text (the corpus chitchat does).
    whole = table.pair[np.minimum(table.rows[:-1] + 1, len(table.pair) - 1)]
    return threads, splits, whole & (own == TEST) & (splits != TEST)


def _links(names: npt.NDArray[np.generic], owners: npt.NDArray[np.signedinteger]) -> Iterator[tuple[int, int]]:
    """Link the owner of each name to the first owner of the same name."""
    _, index, inverse = np.unique(names, return_index=True, return_inverse=True)
    first = owners[index[inverse]]
    apart = first != owners
    return zip(first[apart].tolist(), owners[apart].tolist(), strict=True)


def _beyond(rows: IntArray, most: IntArray | int, group: Hashes, key: Hashes | IntArray) -> IntArray:
    """Return those of the rows that come after the first `most` of their group, in the order of `key`."""
    order = np.lexsort((key, group))
    new = np.ones(len(order), dtype=bool)
    new[1:] = group[order[1:]] != group[order[:-1]]
    place = np.arange(len(order))
    rank = place - np.maximum.accumulate(np.where(new, place, 0))
    return rows[order[rank >= np.broadcast_to(most, len(order))[order]]]


def _drop_leaks(
    chosen: Selection, table: TurnTable, plan: CorpusPlan, evaluated: tuple[TurnTable, TurnTable] | None
) -> None:
    """Leave out of training and validation what copies a test pair or something of an evaluation set."""
    test = np.flatnonzero(chosen.stays(table) & (chosen.split == TEST))
    pairs = [(table, test, table.sources[test])]
    texts: list[tuple[TurnTable, IntArray, Numbers]] = []
    if evaluated is not None:  # sets are numbered after the sources
        chosen_rows = np.flatnonzero(evaluated[0].pair), np.arange(len(evaluated[1].texts))
        for watched, other, rows in zip((pairs, texts), evaluated, chosen_rows, strict=True):
            watched.append((other, rows, other.sources[rows] + len(plan.source)))
    found, equal = by_text, same_text = LeakIndex(texts, 0, plan.leaks).find(table)
    # A single text is in both pairs of a message: as the response of one, and as the input of the next.
    by_input = np.roll(by_text, 1), np.roll(same_text, 1)
    for better, same in (by_input, LeakIndex(pairs, 1, plan.leaks).find(table)):
        found, equal = np.where(better >= 0, better, found), np.where(better >= 0, same, equal)
    leaks = (found >= 0) & chosen.stays(table) & (chosen.split != TEST)
    for kind, copies in enumerate((leaks & equal, leaks & ~equal)):
        chosen.reason[copies] = REASONS.index(LEAKS[kind])
        chosen.leaks[:, kind] = np.bincount(found[copies], minlength=len(chosen.leaks))
