"""Negatives that come with the examples: the wrong candidates of each (POLY, section 5.1: ConvAI2's 19)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from rejoinder.training.batches import Further, RandomNegatives
from rejoinder.training.mixing import JoinedNumbers, JoinedTexts
from rejoinder.training.recipe import Stage
from rejoinder.training.tokens import Rows, TokenStore


class GivenNegatives:
    """Further negatives of each example: the wrong candidates of its own list.

    Args:
        store: the examples, with their lists.

    Attributes:
        store: the same with the lists' texts behind the examples' responses, which is what the rows count in.
    """

    def __init__(self, store: TokenStore) -> None:
        given = store.given
        assert given is not None  # `prepare` keeps them where a stage asks for them
        self._first, self._count = len(store), given.count
        sizes = [self._first, self._first * self._count]
        own_hashes: Any = store.response_hash
        responses = JoinedTexts([store.response, given.texts], sizes)
        self.store = dataclasses.replace(
            store, response=responses, response_hash=JoinedNumbers([own_hashes, given.hashes])
        )

    def __call__(self, rows: Rows) -> Rows:
        """n examples -> for each the k rows whose responses are its negatives (n, k)."""
        return self._first + rows[:, None] * self._count + np.arange(self._count)


def with_negatives(
    store: TokenStore, stage: Stage, seed: tuple[int, ...], mined: Further | None
) -> tuple[TokenStore, Further | None]:
    """The examples and what finds their further negatives in a stage: drawn, given, mined, or none.

    Args:
        store: the examples.
        stage: the stage.
        seed: numbers that draws are a function of.
        mined: finds mined ones, in a stage that has such.
    """
    if stage.given_negatives:
        given = GivenNegatives(store)
        return given.store, given
    return store, RandomNegatives(len(store), stage.negatives, seed) if stage.negatives else mined
