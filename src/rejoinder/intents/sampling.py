"""Texts of intents drawn at random, a number of each intent, and equal texts kept together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rejoinder.arrays import IntArray
from rejoinder.corpora.keys import text_key


def shuffled_ranks(classes: IntArray, seed: int) -> IntArray:
    """Return the rank, from 0, of each text in a random order of its class, (n,)."""
    ranks = np.empty(len(classes), dtype=np.int64)
    for number in np.unique(classes):
        rows = np.flatnonzero(classes == number)
        ranks[np.random.default_rng((seed, int(number))).permutation(rows)] = np.arange(len(rows))
    return ranks


def text_groups(texts: Sequence[str]) -> IntArray:
    """Return a number for each text, (n,): equal texts (`text_key`) have the same one.

    The numbers count from 0 in the order of the first copies.
    """
    numbers: dict[str, int] = {}
    group_numbers = [numbers.setdefault(text_key(text), len(numbers)) for text in texts]
    return np.array(group_numbers, dtype=np.int64)


def fill_first(classes: IntArray, groups: IntArray, part: IntArray) -> None:
    """Move a text of each class that part 0 lacks, and its copies, to that part, in place.

    Class, group (`text_groups`) and part of each text are (n,).
    """
    for number in np.setdiff1d(classes, classes[part == 0]):
        moved = groups[np.argmax(classes == number)]
        part[groups == moved] = 0


def draw(classes: IntArray, shots: int | None, seed: int) -> IntArray:
    """Return the positions, ascending, of `shots` random texts of each class.

    Of a class with fewer all are drawn; `check_shots` refuses them. Draws of one seed are nested.
    """
    return (
        np.arange(len(classes))
        if shots is None
        else np.flatnonzero(shuffled_ranks(classes, seed) < shots)
    )
