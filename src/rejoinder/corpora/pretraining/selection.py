"""Which pairs go where: one reason for each that stays out, and a split for each that stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.example import SPLITS, Split
from rejoinder.corpora.pretraining.leaks import (
    Hashes,
    IntArray,
    LeakIndex,
    Mask,
    TurnTable,
    Watched,
    joined,
    mixed,
)
from rejoinder.corpora.pretraining.messages import RULES
from rejoinder.corpora.pretraining.plan import CorpusPlan
from rejoinder.corpora.splits import split_of

TRAIN, TEST = SPLITS.index("train"), SPLITS.index("test")
REASONS = (
    "",
    *RULES,
    "held out elsewhere",
    "duplicate",
    "equal to evaluated",
    "near to evaluated",
    "equal responses",
    "over the cap",
)
"""What the numbers in `Selection.reason` say; 0: it stays."""


@dataclass
class Selection:
    """What becomes of each row of a table.

    Attributes:
        threads: of each dialogue's group: d names.
        split: place in `SPLITS` of each row: (r,).
        reason: place in `REASONS` of each row: (r,); of a row that is no response it means nothing.
        leaks: training and validation pairs left out for each evaluated set: number of the set to [equal, near].
        common: training pairs that are equal to a test pair of too few words to be a leak.
    """

    threads: list[str]
    split: npt.NDArray[np.int8]
    reason: npt.NDArray[np.uint8]
    leaks: dict[int, list[int]] = field(default_factory=dict)
    common: int = 0

    def stays(self, table: TurnTable) -> Mask:
        """(r,): whether a row is a response that stays."""
        return table.pair & (self.reason == 0)


def select(
    table: TurnTable,
    threads: Sequence[str],
    trees: Sequence[str],
    plan: CorpusPlan,
    evaluated: tuple[TurnTable, TurnTable] | None,
) -> Selection:
    """Decide about every row.

    Args:
        table: all dialogues, source by source.
        threads: `splits.conversation_thread` of each dialogue.
        trees: name of the reply tree of each dialogue.
        plan: what is wanted.
        evaluated: pairs and single texts of the evaluation sets.
    """
    keys, answers = _hashes(table, plan.leaks.gram)
    names, splits, elsewhere = _parts(table, threads, trees, keys, plan.same_words)
    # What is wrong with the response, or else with the message before it.
    before = np.concatenate([[0], table.fault])[: len(table.fault)].astype(np.uint8)
    chosen = Selection(names, splits[table.dialogue], np.where(table.fault > 0, table.fault, before))

    def drop(rows: Mask, reason: str) -> None:
        chosen.reason[rows & chosen.stays(table)] = REASONS.index(reason)

    drop(elsewhere[table.dialogue], "held out elsewhere")
    places = np.flatnonzero(chosen.stays(table))
    drop(_later(places, keys, chosen.split.astype(np.uint64), 1, keys), "duplicate")
    short = chosen.stays(table) & (table.pair_words < plan.leaks.fewest_words)
    test = np.unique(keys[short & (chosen.split == TEST)])
    chosen.common = int(np.isin(keys[short & (chosen.split == TRAIN)], test).sum())
    _drop_leaks(chosen, table, plan, evaluated)
    sources = table.sources.astype(np.uint64)
    caps = np.array([source.cap or np.iinfo(np.int64).max for source in plan.source], dtype=np.int64)
    equal = plan.filters.most_equal_responses
    for group, most, reason in (
        (joined(answers, sources), equal, "equal responses"),
        (sources, caps[table.sources], "over the cap"),
    ):
        places = np.flatnonzero(chosen.stays(table) & (chosen.split == TRAIN))
        drawn = np.zeros(len(keys), np.uint64)  # a random order that depends on text and seed alone
        drawn[places] = joined(keys[places], mixed(np.full(len(places), plan.seed + 1, np.uint64)))
        drop(_later(places, group, np.zeros(len(keys), np.uint64), most, drawn), reason)
    return chosen


def dialogue_splits(
    table: TurnTable, threads: Sequence[str], trees: Sequence[str], plan: CorpusPlan
) -> list[Split | None]:
    """Return the split of each dialogue, as `select` decides; None: held out by its own words, and in no part."""
    _, splits, elsewhere = _parts(table, threads, trees, _hashes(table, plan.leaks.gram)[0], plan.same_words)
    return [None if out else SPLITS[split] for split, out in zip(splits.tolist(), elsewhere.tolist(), strict=True)]


def _hashes(table: TurnTable, gram: int) -> tuple[Hashes, Hashes]:
    """Of each row: the hash of its pair (0 if it is no response), and of its own words."""
    keys, texts = np.zeros((2, len(table.counts)), np.uint64)
    for block in table.blocks(gram):
        rows = block.low + np.flatnonzero(table.pair[block.low : block.high])
        keys[rows], texts[block.low : block.high] = block.keys(rows, 1), block.texts
    return keys, texts


def _parts(
    table: TurnTable, threads: Sequence[str], trees: Sequence[str], keys: Hashes, same_words: int
) -> tuple[list[str], npt.NDArray[np.int8], Mask]:
    """Of each dialogue: the thread of its group, the group's split, and whether it is held out elsewhere.

    A group is of one text, of one tree, or has a pair of `same_words` words in common. Its thread is the least of its
    dialogues' names, whatever order they come in.
    """
    long = table.pair_words >= same_words
    groups = _groups(len(threads), [_equal(threads), _equal(trees), _equal_keys(keys[long], table.dialogue[long])])
    least: dict[int, str] = {}
    for group, thread in zip(groups, threads, strict=True):
        least[group] = min(thread, least.get(group, thread))
    names = [least[group] for group in groups]
    splits, own = (
        np.array([SPLITS.index(split_of(thread)) for thread in each], dtype=np.int8) for each in (names, threads)
    )
    # A package of the same conversations holds out by their own text (the corpus chitchat does).
    whole = table.pair[np.minimum(table.rows[:-1] + 1, len(table.pair) - 1)]
    return names, splits, whole & (own == TEST) & (splits != TEST)


def _groups(count: int, links: Iterable[Iterable[tuple[int, int]]]) -> list[int]:
    """For each of `count` things the least of those that links connect it with."""
    above = list(range(count))

    def root(number: int) -> int:
        while above[number] != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    for kind in links:
        for one, other in kind:
            low, high = sorted((root(one), root(other)))
            above[high] = low
    return [root(number) for number in range(count)]


def _equal(names: Sequence[str]) -> Iterable[tuple[int, int]]:
    """Link each thing to the first one of its name."""
    firsts: dict[str, int] = {}
    return ((firsts.setdefault(name, number), number) for number, name in enumerate(names))


def _equal_keys(keys: Hashes, owners: npt.NDArray[np.int32]) -> Iterable[tuple[int, int]]:
    """Link the owners of equal keys."""
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    return zip(owners[order[same]].tolist(), owners[order[same + 1]].tolist(), strict=True)


def _later(places: IntArray, group: Hashes, within: Hashes, most: IntArray | int, order_by: Hashes) -> Mask:
    """(r,): which of the rows at `places` come after the first `most` of their group, in the order of `order_by`."""
    order = places[np.lexsort((places, order_by[places], group[places], within[places]))]
    new = np.ones(len(order), dtype=bool)
    for each in (group[order], within[order]):
        new[1:] &= each[1:] == each[:-1]
    new[1:] = ~new[1:]
    firsts = np.flatnonzero(new)
    rank = np.arange(len(order)) - np.repeat(firsts, np.diff(np.append(firsts, len(order))))
    later = np.zeros(len(group), dtype=bool)
    later[order[rank >= (most if isinstance(most, int) else most[order])]] = True
    return later


def _drop_leaks(
    chosen: Selection, table: TurnTable, plan: CorpusPlan, evaluated: tuple[TurnTable, TurnTable] | None
) -> None:
    """Leave out of training and validation what copies a test pair or something of an evaluation set."""
    test = np.flatnonzero(chosen.stays(table) & (chosen.split == TEST))
    pairs = [Watched(table, test, table.sources[test].astype(np.int64))]
    texts: list[Watched] = []
    if evaluated is not None:  # sets are numbered after the sources
        all_rows = np.flatnonzero(evaluated[0].pair), np.arange(len(evaluated[1].counts))
        for watched, of, rows in zip((pairs, texts), evaluated, all_rows, strict=True):
            watched.append(Watched(of, rows, of.sources[rows].astype(np.int64) + len(plan.source)))
    of_pairs, of_texts = LeakIndex(pairs, 1, plan.leaks), LeakIndex(texts, 0, plan.leaks)
    pair_words = table.pair_words
    for block in table.blocks(plan.leaks.gram):
        low, here = block.low, slice(block.low, block.high)
        found, equal = np.full(block.high - low, -1, np.int64), np.zeros(block.high - low, dtype=bool)
        rows = low + np.flatnonzero(table.counts[here] >= plan.leaks.fewest_words)
        in_texts, same = of_texts.find(block, rows)
        # A single text is in both pairs of a message, as the response of one and the input of the next.
        for shift in (0, 1):
            kept = (in_texts >= 0) & (rows + shift < block.high)
            found[rows[kept] + shift - low], equal[rows[kept] + shift - low] = in_texts[kept], same[kept]
        rows = low + np.flatnonzero(table.pair[here] & (pair_words[here] >= plan.leaks.fewest_words))
        in_pairs, same = of_pairs.find(block, rows)
        kept = in_pairs >= 0
        found[rows[kept] - low], equal[rows[kept] - low] = in_pairs[kept], same[kept]
        leaks = (found >= 0) & table.pair[here] & (chosen.reason[here] == 0) & (chosen.split[here] != TEST)
        for kind, copies in enumerate((leaks & equal, leaks & ~equal)):
            chosen.reason[here][copies] = REASONS.index(("equal to evaluated", "near to evaluated")[kind])
            for number, count in zip(*np.unique(found[copies], return_counts=True), strict=True):
                chosen.leaks.setdefault(int(number), [0, 0])[kind] += int(count)
