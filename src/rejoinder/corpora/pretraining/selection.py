"""Which pairs go where: one reason for each that stays out, and a split for each that stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.example import SPLITS, Split
from rejoinder.corpora.pretraining import filters
from rejoinder.corpora.pretraining.groups import group_threads, groups_of, links_by_key, links_by_name, splits_of
from rejoinder.corpora.pretraining.leaks import LeakIndex, Watched
from rejoinder.corpora.pretraining.recipe import CorpusRecipe
from rejoinder.corpora.pretraining.shingles import Hashes, joined, mixed, shingles_of
from rejoinder.corpora.pretraining.turns import IntArray, Mask, TurnTable

TRAIN, VALID, TEST = (SPLITS.index(split) for split in ("train", "valid", "test"))
OTHERS = (
    "echo",
    "held out elsewhere",
    "duplicate",
    "equal to evaluated",
    "near to evaluated",
    "equal responses",
    "over the cap",
)
"""Reasons beside those of `filters.REASONS`."""
REASONS = ("", *filters.REASONS, *OTHERS)
"""What the numbers in `Selection.reason` say; 0: it stays."""


@dataclass
class Selection:
    """What becomes of each row of a table.

    Attributes:
        threads: of each dialogue's group: d names.
        split: place in `example.SPLITS` of each row: (r,).
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
    recipe: CorpusRecipe,
    evaluated: tuple[TurnTable, TurnTable] | None,
) -> Selection:
    """Decide about every row.

    Args:
        table: all dialogues, source by source.
        threads: `splits.conversation_thread` of each dialogue.
        trees: name of the reply tree of each dialogue.
        recipe: what is wanted.
        evaluated: pairs and single texts of the evaluation sets.
    """
    keys, answers = _hashes(table, recipe.leaks.gram)
    names, splits, elsewhere = _parts(table, threads, trees, keys, recipe.same_words)
    chosen = Selection(names, splits[table.dialogue], _first_reasons(table))
    _drop(chosen, table, elsewhere[table.dialogue], "held out elsewhere")
    _drop(chosen, table, _later_copies(keys, chosen.split, chosen.stays(table)), "duplicate")
    chosen.common = _common(table, chosen, keys, recipe)
    _drop_leaks(chosen, table, recipe, evaluated)
    for group, most, reason in _limits(table, answers, recipe):
        train = chosen.stays(table) & (chosen.split == TRAIN)
        _drop(chosen, table, train & _over(group, keys, most, train, recipe.seed), reason)
    return chosen


def dialogue_splits(
    table: TurnTable, threads: Sequence[str], trees: Sequence[str], recipe: CorpusRecipe
) -> list[Split | None]:
    """The split of each dialogue, as `select` decides; None: held out by its own words, and in no part."""
    _, splits, elsewhere = _parts(table, threads, trees, _hashes(table, recipe.leaks.gram)[0], recipe.same_words)
    return [None if out else SPLITS[split] for split, out in zip(splits.tolist(), elsewhere.tolist(), strict=True)]


def _parts(
    table: TurnTable, threads: Sequence[str], trees: Sequence[str], keys: Hashes, same_words: int
) -> tuple[list[str], npt.NDArray[np.int8], Mask]:
    """Of each dialogue: the thread of its group, the group's split, and whether it is held out elsewhere."""
    names = _groups(table, threads, trees, keys, same_words)
    splits = splits_of(names)
    # A package of the same conversations holds out by their own text (the corpus chitchat does).
    whole = table.pair[np.minimum(table.rows[:-1] + 1, len(table.pair) - 1)]
    return names, splits, whole & (splits_of(threads) == TEST) & (splits != TEST)


def _hashes(table: TurnTable, gram: int) -> tuple[Hashes, Hashes]:
    """Of each row: the hash of its pair (0 if it is no response), and of its own words."""
    keys, texts = np.zeros((2, len(table.counts)), np.uint64)
    for low, high in table.blocks():
        block = shingles_of(table, low, high, gram)
        rows = low + np.flatnonzero(table.pair[low:high])
        keys[rows], texts[low:high] = block.pair_keys(rows), block.texts
    return keys, texts


def _groups(
    table: TurnTable, threads: Sequence[str], trees: Sequence[str], keys: Hashes, same_words: int
) -> list[str]:
    """The thread of each dialogue's group: of one text, of one tree, or with a long pair in common."""
    long = table.pair_words >= same_words
    links = links_by_name(threads) + links_by_name(trees) + links_by_key(keys[long], table.dialogue[long])
    return group_threads(groups_of(len(threads), links), threads)


def _first_reasons(table: TurnTable) -> npt.NDArray[np.uint8]:
    """What is wrong with the response, or else with the message before it, or with both together."""
    before = np.concatenate([[0], table.fault[:-1]]).astype(np.uint8)
    return np.where(table.fault > 0, table.fault, before)


def _drop(chosen: Selection, table: TurnTable, rows: Mask, reason: str) -> None:
    chosen.reason[rows & chosen.stays(table)] = REASONS.index(reason)


def _later_copies(keys: Hashes, split: npt.NDArray[np.int8], stays: Mask) -> Mask:
    """Rows with the same pair as an earlier row of the same split."""
    places = np.flatnonzero(stays)
    order = places[np.lexsort((places, keys[places], split[places]))]
    same = (keys[order][1:] == keys[order][:-1]) & (split[order][1:] == split[order][:-1])
    copies = np.zeros(len(keys), dtype=bool)
    copies[order[1:][same]] = True
    return copies


def _common(table: TurnTable, chosen: Selection, keys: Hashes, recipe: CorpusRecipe) -> int:
    short = chosen.stays(table) & (table.pair_words < recipe.leaks.fewest_words)
    test = np.unique(keys[short & (chosen.split == TEST)])
    return int(np.isin(keys[short & (chosen.split == TRAIN)], test).sum())


def _drop_leaks(
    chosen: Selection, table: TurnTable, recipe: CorpusRecipe, evaluated: tuple[TurnTable, TurnTable] | None
) -> None:
    """Leave out of training and validation what copies a test pair or something of an evaluation set."""
    test = np.flatnonzero(chosen.stays(table) & (chosen.split == TEST))
    pairs, texts = [Watched(table, test, table.sources[test].astype(np.int64))], []
    if evaluated is not None:
        after = len(recipe.source)  # sets are numbered after the sources
        pairs.append(Watched(evaluated[0], evaluated[0].pair_rows, _sets(evaluated[0], after, pairs=True)))
        texts.append(Watched(evaluated[1], np.arange(len(evaluated[1].counts)), _sets(evaluated[1], after)))
    of_pairs, of_texts = LeakIndex(pairs, 1, recipe.leaks), LeakIndex(texts, 0, recipe.leaks)
    for low, high in table.blocks():
        block = shingles_of(table, low, high, recipe.leaks.gram)
        found, equal = np.full(high - low, -1, np.int64), np.zeros(high - low, dtype=bool)
        # A single text is in both pairs of a message, as the response of one and the input of the next.
        rows = low + np.flatnonzero(table.counts[low:high] >= recipe.leaks.fewest_words)
        in_texts, same = of_texts.find(block, rows)
        for shift in (0, 1):
            kept = (in_texts >= 0) & (rows + shift < high)
            found[rows[kept] + shift - low], equal[rows[kept] + shift - low] = in_texts[kept], same[kept]
        inside = np.arange(low, high)
        rows = inside[table.pair[low:high] & (table.pair_words[low:high] >= recipe.leaks.fewest_words)]
        in_pairs, same = of_pairs.find(block, rows)
        kept = in_pairs >= 0
        found[rows[kept] - low], equal[rows[kept] - low] = in_pairs[kept], same[kept]
        _enter_leaks(chosen, table, low, found, equal)


def _enter_leaks(chosen: Selection, table: TurnTable, low: int, found: IntArray, equal: Mask) -> None:
    here = slice(low, low + len(found))
    leaks = (found >= 0) & table.pair[here] & (chosen.reason[here] == 0) & (chosen.split[here] != TEST)
    for kind, rows in enumerate((leaks & equal, leaks & ~equal)):
        chosen.reason[here][rows] = REASONS.index(("equal to evaluated", "near to evaluated")[kind])
        for number, count in zip(*np.unique(found[rows], return_counts=True), strict=True):
            chosen.leaks.setdefault(int(number), [0, 0])[kind] += int(count)


def _sets(table: TurnTable, after: int, *, pairs: bool = False) -> IntArray:
    sources = table.sources.astype(np.int64) + after
    return sources[table.pair] if pairs else sources


def _limits(table: TurnTable, answers: Hashes, recipe: CorpusRecipe) -> list[tuple[Hashes, IntArray, str]]:
    """What is limited: the group of each row, the most that each row's group may have, and the reason."""
    sources = table.sources.astype(np.uint64)
    caps = np.array([source.cap or np.iinfo(np.int64).max for source in recipe.source], dtype=np.int64)
    equal = np.full(len(sources), recipe.filters.most_equal_responses, np.int64)
    return [(joined(answers, sources), equal, "equal responses"), (sources, caps[table.sources], "over the cap")]


def _over(group: Hashes, keys: Hashes, most: IntArray, rows: Mask, seed: int) -> Mask:
    """Of these rows those beyond the most of their group, in a random order that depends on text and seed alone."""
    places = np.flatnonzero(rows)
    drawn = joined(keys[places], mixed(np.full(len(places), seed + 1, np.uint64)))
    order = places[np.lexsort((places, drawn, group[places]))]
    groups = group[order]
    new = np.concatenate([[True], groups[1:] != groups[:-1]]) if len(order) else np.zeros(0, dtype=bool)
    firsts = np.flatnonzero(new)
    rank = np.arange(len(order)) - np.repeat(firsts, np.diff(np.append(firsts, len(order))))
    over = np.zeros(len(rows), dtype=bool)
    over[order[rank >= most[order]]] = True
    return over
