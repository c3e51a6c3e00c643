"""Finding hard negatives: the wrong responses that a model ranks highest for the input of a pair.

ACL19 (section 6) leaves them to future work. In conversation many responses fit an input, and the nearest ones of a
large pool are often right, so what may be right is left out: texts equal to the pair's own response, responses that
are known to answer the same input, and whatever scores too close to the pair's own response (Moreira et al. 2024,
"NV-Retriever", section 4, compares such limits).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from rejoinder.errors import InputError
from rejoinder.models.packing import TokenBatch, pack
from rejoinder.ranker import FloatArray
from rejoinder.retrieval import scan
from rejoinder.training.batches import make_batch
from rejoinder.training.display import Advance
from rejoinder.training.recipe import HardNegatives
from rejoinder.training.tokens import Rows, TokenStore, token_hashes
from rejoinder.training.validation import PAIRS_AT_ONCE, Encode

Scores = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
Known = npt.NDArray[np.bool_]

HASHED_AT_ONCE = 1 << 16
"""Texts whose tokens are in memory together."""

EncodeResponses = Callable[[TokenBatch], Tensor]
"""Tokens of n responses -> h_y (n, d)."""


class Mined(NamedTuple):
    """Hard negatives of n pairs.

    Attributes:
        negatives: examples whose responses they are, the hardest first: int64 (n, k).
        random: how many of them were drawn at random, since too few were left of those looked at.
    """

    negatives: Rows
    random: int


class Miner:
    """Searches a pool of responses for the hard negatives of pairs.

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

    def __call__(self, rows: Rows, drawn: Rows, generator: np.random.Generator, advance: Advance) -> Mined:
        """Find k negatives for each of n pairs.

        Args:
            rows: examples to find them for (n,).
            drawn: examples whose responses are the pool; equal responses count once.
            generator: draws what is missing.
            advance: called with the number of responses and pairs done, n + len(drawn) in all.

        Raises:
            InputError: the pool has too few responses for a pair.
        """
        pool = self._pool(drawn, advance)
        every = np.union1d(rows, drawn)
        known = KnownAnswers(self._input_hashes(every), self._store.response_hash[every])
        found, random = [], 0
        for start in range(0, len(rows), PAIRS_AT_ONCE):
            block = rows[start : start + PAIRS_AT_ONCE]
            inputs = self._input_hashes(block)
            chosen = self._choose(block, inputs, pool, known)
            random += int((chosen < 0).sum())
            starts = generator.integers(len(pool.rows), size=len(block))
            found.append(pool.rows[fill(chosen, inputs, pool.hashes, known, starts)])
            advance(len(block))
        return Mined(np.concatenate(found), random)

    def _choose(self, block: Rows, inputs: Rows, pool: Pool, known: KnownAnswers) -> Places:
        """Places in the pool of the best k that are left in, -1 where there are fewer: (b, k)."""
        encoded = self._encode(make_batch(self._store, block, self._padding_id))
        x, y = (h.float().cpu().numpy() for h in encoded)
        own = (x.astype(np.float64) * y).sum(axis=1)
        places, scores = _nearest(x, pool.vectors, self._config.among)
        wrong = (places >= 0) & ~known.hold(inputs[:, None], pool.hashes[places])
        return hardest(places, wrong & (scores <= ceiling(own, self._config)[:, None]), self._config.per_pair)

    def _pool(self, drawn: Rows, advance: Advance) -> Pool:
        hashes = self._store.response_hash[drawn]
        first = np.sort(np.unique(hashes, return_index=True)[1])
        rows = drawn[first]
        vectors = []
        for start in range(0, len(rows), PAIRS_AT_ONCE):
            block = rows[start : start + PAIRS_AT_ONCE]
            batch = pack(*self._store.response.gather(block), self._padding_id)
            vectors.append(self._encode_responses(batch).float().cpu().numpy())
            advance(len(block))
        advance(len(drawn) - len(rows))
        return Pool(rows, hashes[first], np.concatenate(vectors))

    def _input_hashes(self, rows: Rows) -> Rows:
        parts = range(0, len(rows), HASHED_AT_ONCE)
        return np.concatenate([token_hashes(*self._store.input.gather(rows[i : i + HASHED_AT_ONCE])) for i in parts])


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
    vectors: FloatArray


class KnownAnswers:
    """Which responses are known to answer an input: those of all pairs with that input.

    Args:
        inputs: hash of each pair's input.
        responses: hash of each pair's response.
    """

    def __init__(self, inputs: Rows, responses: Rows) -> None:
        self._pairs = np.unique(_pair(inputs, responses))

    def hold(self, inputs: Rows, responses: Rows) -> Known:
        """Whether each response is known to answer each input; shapes are broadcast."""
        wanted = _pair(inputs, responses)
        places = np.searchsorted(self._pairs, wanted).clip(max=len(self._pairs) - 1)
        found: Known = self._pairs[places] == wanted
        return found


def _pair(inputs: Rows, responses: Rows) -> npt.NDArray[np.uint64]:
    """One hash of two."""
    return inputs.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + responses.astype(np.uint64)


def ceiling(own: Scores, config: HardNegatives) -> Scores:
    """The highest score of a negative, given the score of each pair's own response: (n,)."""
    if config.margin is not None:
        return own + config.margin
    if config.share is not None:
        return own - (1 - config.share) * np.abs(own)  # below the own score where that is negative, too
    return np.full_like(own, np.inf)


def hardest(places: Places, allowed: Known, k: int) -> Places:
    """The first k allowed ones of each row (n, m) of places, in their order: (n, k), -1 where there are fewer."""
    order = np.argsort(~allowed, axis=1, kind="stable")[:, :k]
    taken = np.where(np.take_along_axis(allowed, order, 1), np.take_along_axis(places, order, 1), -1)
    missing = k - taken.shape[1]
    return np.pad(taken, ((0, 0), (0, missing)), constant_values=-1)


def fill(chosen: Places, inputs: Rows, responses: Rows, known: KnownAnswers, starts: Places) -> Places:
    """Put other responses of the pool where there are too few: wrong ones, none twice, whatever their score.

    Args:
        chosen: places in the pool, -1 for those that are missing: (n, k).
        inputs: hash of each pair's input (n,).
        responses: hash of each response of the pool (p,).
        known: answers that are right.
        starts: where in the pool to begin looking, for each pair (n,).

    Raises:
        InputError: the pool has too few.
    """
    chosen = chosen.copy()
    for offset in range(len(responses)):
        open_ = np.flatnonzero((chosen < 0).any(axis=1))
        if len(open_) == 0:
            return chosen
        place = (starts[open_] + offset) % len(responses)
        fits = ~known.hold(inputs[open_], responses[place]) & ~(chosen[open_] == place[:, None]).any(axis=1)
        column = (chosen[open_[fits]] < 0).argmax(axis=1)
        chosen[open_[fits], column] = place[fits]
    if (chosen < 0).any():
        raise InputError(
            f"{len(responses)} different responses in the pool are too few for hard_negatives.per_pair = "
            f"{chosen.shape[1]}; raise hard_negatives.pool, or lower per_pair"
        )
    return chosen


def _nearest(queries: FloatArray, vectors: FloatArray, count: int) -> tuple[Places, Scores]:
    """Places and scores of the best `count` of the pool for each query, best first; -1 where there are fewer."""
    found = scan.search([scan.Rows(0, vectors, {})], queries, min(count, len(vectors)))
    return np.stack([places for places, _ in found]), np.stack([scores for _, scores in found])
