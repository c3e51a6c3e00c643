"""Finding hard negatives: the wrong responses that a model ranks highest for the input of a pair.

ACL19 leaves them to future work. In conversation many responses fit an input, and the nearest ones of a
large pool are often right, so what may be right is left out: texts equal to the pair's own response, responses that
are known to answer the same input (and history, if the model reads it), and whatever scores too close to the pair's
own response (Moreira et al. 2024, "NV-Retriever", compares such limits).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rejoinder.errors import InputError
from rejoinder.models.packing import TokenBatch, pack
from rejoinder.training.batches import make_batch
from rejoinder.training.display import Advance
from rejoinder.training.recipe import HardNegatives
from rejoinder.training.tokens import Rows, Texts, TokenStore, token_hashes
from rejoinder.training.validation import PAIRS_AT_ONCE, Encode

HASHED_AT_ONCE = 1 << 16
"""Texts whose tokens are in memory together."""

SCORES_AT_ONCE = 1 << 24
"""Scores that are in memory together: 64 MB."""

EncodeResponses = Callable[[TokenBatch], Tensor]
"""Tokens of n responses -> h_y (n, d)."""


class Mined(NamedTuple):
    """Hard negatives of n pairs.

    Attributes:
        negatives: examples whose responses they are, the hardest first: int64 (n, k).
        above: how many of them are above the limit, since the pool had too few below it.
    """

    negatives: Rows
    above: int


class Miner:
    """Searches a pool of responses for the hard negatives of pairs.

    Every response of the pool is scored. (The scan of `retrieval` would not be faster, and knows neither a highest
    score nor answers to leave out.)

    Args:
        store: all examples.
        config: what is asked for.
        encode: pairs -> h_x, h_y.
        encode_responses: responses -> h_y.
        padding_id: the model's.
    """

    def __init__(
        self,
        store: TokenStore,
        config: HardNegatives,
        encode: Encode,
        encode_responses: EncodeResponses,
        padding_id: int,
    ) -> None:
        self._store, self._config, self._padding_id = store, config, padding_id
        self._encode, self._encode_responses = encode, encode_responses

    @torch.no_grad()
    def __call__(self, rows: Rows, drawn: Rows, advance: Advance) -> Mined:
        """Find k negatives for each of n pairs.

        Args:
            rows: examples to find them for (n,).
            drawn: examples whose responses are the pool; equal responses count once.
            advance: called with the number of responses and pairs done, n + len(drawn) in all.

        Raises:
            InputError: the pool has too few responses for a pair.
        """
        pool = self._pool(drawn, advance)
        every = np.union1d(rows, drawn)
        known = KnownAnswers(self._input_hashes(every), self._store.response_hash[every], pool.hashes)
        size = max(1, min(PAIRS_AT_ONCE, SCORES_AT_ONCE // len(pool.rows)))
        found, above = [np.empty((0, self._config.per_pair), np.int64)], 0
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            places, easier = self._block(block, pool, known)
            found.append(pool.rows[places])
            above += easier
            advance(len(block))
        return Mined(np.concatenate(found), above)

    def _block(self, block: Rows, pool: Pool, known: KnownAnswers) -> tuple[Rows, int]:
        """Places of the negatives in the pool (b, k), and how many are above the limit."""
        encoded = self._encode(make_batch(self._store, block, self._padding_id))
        x, y = (h.float() for h in encoded)
        right = known.places(self._input_hashes(block))
        limit = highest((x * y).sum(dim=1), self._config)
        return hardest(x @ pool.vectors.T, limit, right, self._config.per_pair)

    def _pool(self, drawn: Rows, advance: Advance) -> Pool:
        hashes = self._store.response_hash[drawn]
        first = np.sort(np.unique(hashes, return_index=True)[1])
        rows = drawn[first]
        vectors = []
        for start in range(0, len(rows), PAIRS_AT_ONCE):
            block = rows[start : start + PAIRS_AT_ONCE]
            batch = pack(*self._store.response.gather(block), self._padding_id)
            vectors.append(self._encode_responses(batch).float())
            advance(len(block))
        advance(len(drawn) - len(rows))
        return Pool(rows, hashes[first], torch.cat(vectors))

    def _input_hashes(self, rows: Rows) -> Rows:
        """Equal for contexts of which the model reads the same."""
        hashes = self._hashes(self._store.input, rows)
        if self._store.history is None:
            return hashes
        return hashes * np.int64(31) + self._hashes(self._store.history, rows)  # each alone is spread over 64 bits

    def _hashes(self, texts: Texts, rows: Rows) -> Rows:
        parts = range(0, len(rows), HASHED_AT_ONCE)
        return np.concatenate([token_hashes(*texts.gather(rows[i : i + HASHED_AT_ONCE])) for i in parts])


@dataclass(frozen=True, slots=True)
class Pool:
    """Different responses.

    Attributes:
        rows: an example with each (p,).
        hashes: hash of each response (p,).
        vectors: h_y of each, float32 (p, d).
    """

    rows: Rows
    hashes: Rows
    vectors: Tensor


class KnownAnswers:
    """Which responses of a pool are known to answer an input: those of all pairs with that input.

    Args:
        inputs: hash of each pair's input (n,).
        responses: hash of each pair's response (n,).
        pool: hash of each response of the pool, all different (p,).
    """

    def __init__(self, inputs: Rows, responses: Rows, pool: Rows) -> None:
        ordered = np.argsort(pool)
        places = ordered[np.searchsorted(pool, responses, sorter=ordered).clip(max=len(pool) - 1)]
        inside = pool[places] == responses
        by_input = np.argsort(inputs[inside], kind="stable")
        self._inputs, self._places = inputs[inside][by_input], places[inside][by_input]

    def places(self, inputs: Rows) -> Rows:
        """For n inputs all pairs (i, place in the pool) of a known answer to input i: (2, m)."""
        first, last = (np.searchsorted(self._inputs, inputs, side=side) for side in ("left", "right"))
        counts = last - first
        which = np.repeat(np.arange(len(inputs)), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.stack([which, self._places[first[which] + within]])


def highest(own: Tensor, config: HardNegatives) -> Tensor:
    """The highest score that a negative may have, given the score of each pair's own response: (n,)."""
    if config.margin is not None:
        return own + config.margin
    if config.share is not None:
        return own - (1 - config.share) * own.abs()  # below the own score where that is negative, too
    return torch.full_like(own, torch.inf)


def hardest(scores: Tensor, limit: Tensor, right: Rows, k: int) -> tuple[Rows, int]:
    """The k hardest negatives of n pairs: the highest scores up to the limit, then the lowest ones above it.

    Args:
        scores: of each response of the pool for each pair, from -1 to 1: (n, p).
        limit: of each pair (n,).
        right: pairs (i, place) that are no negatives (2, m).
        k: how many.

    Returns:
        Their places (n, k), and how many of them are above the limit.

    Raises:
        InputError: fewer than k are left of the pool.
    """
    above = scores > limit[:, None]
    keys = torch.where(above, -4 - scores, scores)
    keys[tuple(torch.from_numpy(right).to(scores.device))] = -torch.inf
    best = torch.topk(keys, min(k, keys.shape[1]))
    if best.values.shape[1] < k or bool(best.values[:, -1].isneginf().any()):
        raise InputError(
            f"{scores.shape[1]} different responses in the pool are too few for hard_negatives.per_pair = {k}; "
            "raise hard_negatives.pool, or lower per_pair"
        )
    return best.indices.cpu().numpy(), int((best.values < -2).sum())
