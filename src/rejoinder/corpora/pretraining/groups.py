"""Which dialogues belong together, and the split of each group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.example import SPLITS
from rejoinder.corpora.pretraining.shingles import Hashes
from rejoinder.corpora.pretraining.turns import IntArray
from rejoinder.corpora.splits import split_of


def groups_of(count: int, links: Iterable[tuple[int, int]]) -> IntArray:
    """For each of `count` things the least of those that links connect it with: (count,)."""
    above = list(range(count))

    def root(number: int) -> int:
        while above[number] != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    for one, other in links:
        low, high = sorted((root(one), root(other)))
        above[high] = low
    return np.array([root(number) for number in range(count)], dtype=np.int64)


def links_by_name(names: Sequence[str]) -> list[tuple[int, int]]:
    """Link each thing to the first one of its name."""
    firsts: dict[str, int] = {}
    return [(first, number) for number, name in enumerate(names) if (first := firsts.setdefault(name, number)) < number]


def links_by_key(keys: Hashes, owners: npt.NDArray[np.int32]) -> list[tuple[int, int]]:
    """Link the owners of equal keys."""
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    pairs = np.stack([owners[order[same]], owners[order[same + 1]]], axis=1)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    return [(int(one), int(other)) for one, other in pairs]


def splits_of(threads: Sequence[str]) -> npt.NDArray[np.int8]:
    """Place in `example.SPLITS` of each thread."""
    return np.array([SPLITS.index(split_of(thread)) for thread in threads], dtype=np.int8)


def group_threads(groups: IntArray, threads: Sequence[str]) -> list[str]:
    """The thread of each thing's group: the least of its members' names, whatever order they come in."""
    least: dict[int, str] = {}
    for group, thread in zip(groups.tolist(), threads, strict=True):
        least[group] = min(thread, least.get(group, thread))
    return [least[group] for group in groups.tolist()]
