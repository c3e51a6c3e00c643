"""The greedy cover of messages by a few of their texts.

The text that is near most messages is chosen, these messages count no more, and so on. So the first
k texts cover about as many messages as any k can.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray, IntArray

COMPARED = 30_000  # messages, at random, among which texts are chosen
_AT_ONCE = 512  # rows that are compared with all others
_REFRESHED = 64  # gains that are computed anew at once


def choose(vectors: FloatArray, counts: FloatArray, most: int, likeness: float) -> IntArray:
    """Return the rows of a greedy cover, in the order of what they add to it.

    Of more than `COMPARED` messages that many are compared, at random. A row that another one
    covers is not chosen.

    Args:
        vectors: (n, d), unit rows.
        counts: (n,), messages of each row.
        most: rows at most.
        likeness: the cosine from which a row covers another one.
    """
    rows, weights = _sampled(counts)
    compared = vectors[rows]
    left = weights.copy()
    gains = np.concatenate(
        [
            (compared[start : start + _AT_ONCE] @ compared.T >= likeness) @ weights
            for start in range(0, len(rows), _AT_ONCE)
        ]
    )
    chosen: list[int] = []
    while len(chosen) < most and (left > 0).any():
        best, near = _best(compared, left, gains, likeness)
        chosen.append(best)
        left[near] = 0
        gains[near] = -1
    return rows[np.array(chosen, dtype=np.int64)]


def _best(
    compared: FloatArray, left: FloatArray, gains: FloatArray, likeness: float
) -> tuple[int, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return the row that is near the most messages that are left, and the rows near it.

    Gains only shrink, so those that were computed last time are bounds: only the largest of them
    are computed again.
    """
    count = min(_REFRESHED, len(gains))
    while True:
        top = np.argpartition(-gains, count - 1)[:count]
        near = compared[top] @ compared.T >= likeness
        fresh = np.where(gains[top] < 0, -1, near @ left)
        gains[top] = fresh
        best = int(fresh.argmax())
        if fresh[best] >= gains.max():
            return int(top[best]), near[best] | (np.arange(len(gains)) == top[best])


def _sampled(counts: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the rows that are compared, and how many messages each stands for."""
    if len(counts) <= COMPARED:
        return np.arange(len(counts)), counts
    messages = np.repeat(np.arange(len(counts)), counts.astype(np.int64))
    drawn = random.Random(0).sample(range(len(messages)), COMPARED)
    rows, times = np.unique(messages[drawn], return_counts=True)
    return rows, (times * (len(messages) / COMPARED)).astype(np.float32)


def cover(
    vectors: FloatArray, chosen: FloatArray, likeness: float
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return for each vector which of the chosen ones covers it: the first, and the nearest.

    -1: none does. The third array is the cosine with the nearest.
    """
    parts = []
    for start in range(0, len(vectors), _AT_ONCE):
        cosines = vectors[start : start + _AT_ONCE] @ chosen.T
        near = cosines >= likeness
        is_covered = near.any(axis=1)
        first = np.where(is_covered, near.argmax(axis=1), -1)
        nearest = np.where(is_covered, cosines.argmax(axis=1), -1)
        parts.append((first, nearest, cosines.max(axis=1)))
    firsts, owners, best = zip(*parts, strict=True)
    return np.concatenate(firsts), np.concatenate(owners), np.concatenate(best)
