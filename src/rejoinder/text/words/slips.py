"""Slips of fingers: how unlikely one is that makes a word of another."""

from __future__ import annotations

import itertools

SWAP_COST = 0.65  # of letters in the wrong order, a doubled letter, a double one written once
NEAR_COST = 0.85  # of a letter that is missing, or is a neighbour on the keyboard
OTHER_COST = 1.25  # of any other slip
TWO_COST = 2.0  # of two slips
FIRST_COST = 0.4  # that the first letter is another, and not swapped
KEYS = "qwertyuiop asdfghjkl zxcvbnm"
SPACE_KEYS = "cvbnm"  # beside the space bar


def slip_cost(word: str, near: str) -> float:
    """Return the cost of the slips that make a word of another."""
    start = _common_start(word, near)
    written = word[start:]
    meant = near[start:]
    end = _common_start(written[::-1], meant[::-1])
    written = written[: len(written) - end]
    meant = meant[: len(meant) - end]
    is_swap = len(written) == 2 and written == meant[::-1]
    is_once_or_twice = written + meant == word[:start][-1:]
    if is_swap or is_once_or_twice:
        return SWAP_COST
    first = 0.0 if start else FIRST_COST
    if max(len(written), len(meant)) > 1:
        return first + TWO_COST
    if not meant:
        return first + (NEAR_COST if not end and written in SPACE_KEYS else OTHER_COST)
    is_near = not written or any(pair in KEYS for pair in (written + meant, meant + written))
    return first + (NEAR_COST if is_near else OTHER_COST)


def _common_start(one: str, other: str) -> int:
    """Return how many letters two words have in common at their beginnings."""
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in same)
