"""Batches of pretraining: masked tokens and next utterances in turn (POLY, section 4.1).

Masks are as in BERT. A batch has pairs of like lengths, as many as a budget of tokens allows.
Batches with an even number have 15 % of their tokens to be guessed (80 % of these replaced by the
mask, 10 % by any token, 10 % left alone); in those with an odd number half of the contexts have
another example's response, and which do is to be guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rejoinder.arrays import Ids
from rejoinder.devices import move
from rejoinder.errors import InputError
from rejoinder.networks.masked_lm import MaskedBatch
from rejoinder.networks.packing import SEGMENT_COST, pack
from rejoinder.text.dialogue import join_response
from rejoinder.text.pretrained import Pretrained
from rejoinder.text.tokenizer import Tokenizer
from rejoinder.training.data.batches import WHOLE, PairBatch, Portion, StepBatch
from rejoinder.training.data.tokens import TokenRows, TokenStore
from rejoinder.training.recipe.losses import ALL_PRESENT

GUESSED = 0.15  # share of the tokens; of these, shares that are masked and replaced
MASKED = 0.8
REPLACED = 0.1
# examples whose tokens are in memory together while their lengths are read
GATHERED_AT_ONCE = 1 << 16


class LengthBucketedOrder:
    """The examples of each batch: neighbours in length, in random order.

    They are at most `pairs` of at most `tokens`. Epochs differ in the order of batches and of
    examples of equal length. One longer than `tokens` is a batch itself.
    """

    def __init__(self, lengths: TokenRows, tokens: int, pairs: int, seed: tuple[int, ...]) -> None:
        self._lengths = lengths
        self._seed = seed
        self._cuts = _cuts(np.sort(lengths), tokens, pairs)
        self.batches_per_epoch = len(self._cuts) - 1
        self.sizes = (len(lengths),)
        self.batch_size = pairs
        self._epoch = -1
        self._order = lengths
        self._batches = lengths

    def rows(self, step: int) -> TokenRows:
        """Return the examples of the batch number `step`, from 0."""
        epoch, number = divmod(step, self.batches_per_epoch)
        if epoch != self._epoch:
            generator = np.random.default_rng([*self._seed, epoch])
            self._order = np.lexsort((generator.permutation(len(self._lengths)), self._lengths))
            self._batches = generator.permutation(self.batches_per_epoch)
            self._epoch = epoch
        batch = int(self._batches[number])
        return self._order[self._cuts[batch] : self._cuts[batch + 1]]


def _cuts(ascending: TokenRows, tokens: int, pairs: int) -> list[int]:
    """Return where batches of examples in order of length begin, and the end of the last."""
    cuts = [0]
    start = 0
    while start < len(ascending):
        stop = min(start + pairs, len(ascending))
        sums = np.cumsum(ascending[start:stop])
        count = max(1, int(np.searchsorted(sums, tokens, side="right")))
        start += count
        cuts.append(start)
    return cuts


@dataclass(frozen=True, slots=True)
class Masking:
    """Tokens that may replace others."""

    mask_id: int
    special: Ids  # marks, which are neither guessed nor put in
    ordinary: Ids  # all other ids

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> Masking:
        """Read the ids off a tokenizer with a mask, as all kinds that are pretrained have."""
        assert isinstance(tokenizer, Pretrained)
        special = np.array(sorted(tokenizer.special_ids), np.int32)
        return cls(
            tokenizer.mask_id,
            special,
            np.setdiff1d(np.arange(tokenizer.rows, dtype=np.int32), special),
        )

    def __call__(self, ids: Ids, generator: np.random.Generator) -> tuple[Ids, Ids]:
        """Return the ids with some replaced, and the token to be guessed at each place, or -1."""
        free = np.flatnonzero(~np.isin(ids, self.special))
        count = max(1, round(GUESSED * len(free)))
        chosen = generator.choice(free, count, replace=False, shuffle=False)
        targets = np.full(len(ids), -1, np.int32)
        targets[chosen] = ids[chosen]
        fate = generator.random(count)
        shown = ids.copy()
        shown[chosen[fate < MASKED]] = self.mask_id
        replaced = chosen[(fate >= MASKED) & (fate < MASKED + REPLACED)]
        shown[replaced] = generator.choice(self.ordinary, len(replaced))
        return shown, targets


@dataclass(frozen=True)
class MaskedBatches:
    """The batches of a stage of pretraining."""

    store: TokenStore
    order: LengthBucketedOrder
    masking: Masking
    seed: tuple[int, ...]
    portion: Portion
    device: torch.device

    def make(self, step: int) -> StepBatch:
        """Return this process's part of the batch number `step`, from 0, on its device."""
        rows = self.order.rows(step)
        batch = pretraining_step(self.store, rows, step, self.masking, self.seed, self.portion)
        return move(batch, self.device)


def pretraining_step(
    store: TokenStore,
    rows: TokenRows,
    step: int,
    masking: Masking,
    seed: Sequence[int],
    portion: Portion = WHOLE,
) -> StepBatch:
    """Return a process's part of batch number `step`.

    All draw for the whole batch, whatever their number.
    """
    generator = np.random.default_rng([*seed, step])
    responses = rows
    follows = None
    targets = None
    if step % 2:
        follows = generator.random(len(rows)) < 0.5
        others = generator.integers(0, len(store) - 1, len(rows))
        responses = np.where(follows, rows, others + (others >= rows))  # any but the example's own
    ids, lengths, types = join_response(
        store.input.gather(rows), store.response.gather(responses), start=1
    )
    if follows is None:
        ids, targets = masking(ids, generator)
    first = len(rows) * portion.rank // portion.processes
    end = len(rows) * (portion.rank + 1) // portion.processes
    weight = (
        0.0 if end == first else 1 / (len(rows) if targets is None else int((targets >= 0).sum()))
    )
    end = max(end, first + 1)  # one process more than there are pairs: its own counts for nothing
    size = portion.micro_batch or end - first
    ends = np.concatenate([[0], np.cumsum(lengths)])
    none = torch.empty(0, dtype=torch.int64)
    cost = SEGMENT_COST if portion.segments else None
    parts = []
    for start in range(first, end, size):
        stop = min(start + size, end)
        tokens = slice(ends[start], ends[stop])
        packed = pack(ids[tokens], lengths[start:stop], 0, cost, types[tokens])
        if follows is not None:
            batch = MaskedBatch(
                packed, none, none, torch.from_numpy(follows[start:stop].astype(np.float32))
            )
        else:
            assert targets is not None
            wanted = pack(targets[tokens], lengths[start:stop], -1, cost).ids
            places = torch.nonzero(wanted >= 0)[:, 0]
            batch = MaskedBatch(packed, places, wanted[places])
        parts.append(PairBatch(batch, stop - start))
    return StepBatch(
        tuple(parts), len(rows), first, none.new_empty((2, 0)), ALL_PRESENT, rows, weight
    )


def pair_lengths(store: TokenStore) -> TokenRows:
    """Return the number of tokens of each joined pair."""
    if len(store) < 2:
        raise InputError(
            "pretraining needs two examples at least, so that one can have the other's response"
        )
    lengths = []
    for start in range(0, len(store), GATHERED_AT_ONCE):
        rows = np.arange(start, min(start + GATHERED_AT_ONCE, len(store)))
        lengths.append(
            store.input.gather(rows)[1].astype(np.int64) + store.response.gather(rows)[1] - 1
        )
    return np.concatenate(lengths)
