"""Batches of K random pairs, in an order that is a function of the seed alone."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rejoinder.errors import InputError
from rejoinder.models.packing import TokenBatch, pack
from rejoinder.training.tokens import Rows, TokenStore


@dataclass(frozen=True, slots=True)
class PairBatch:
    """K pairs, and further responses that are negatives of them all.

    Attributes:
        tokens: K inputs followed by their K responses and M further ones.
        pairs: K.
        equal: the pairs (i, j), i < K, i != j, of equal responses, int64 (2, m).
    """

    tokens: TokenBatch
    pairs: int
    equal: Tensor

    def to(self, device: torch.device | str) -> PairBatch:
        """The same batch on another device."""
        return PairBatch(self.tokens.to(device), self.pairs, self.equal.to(device))


NONE: Rows = np.empty(0, np.int64)


def make_batch(store: TokenStore, rows: Rows, padding_id: int, further: Rows = NONE) -> PairBatch:
    """The batch of the given examples, in their order.

    Args:
        store: all examples.
        rows: the K examples.
        padding_id: the model's.
        further: the M examples whose responses are further negatives (see `hard_negatives`).
    """
    answers = np.concatenate([rows, further])
    (inputs, input_lengths), (responses, response_lengths) = store.input.gather(rows), store.response.gather(answers)
    tokens = pack(np.concatenate([inputs, responses]), np.concatenate([input_lengths, response_lengths]), padding_id)
    equal = equal_pairs(store.response_hash[answers])
    return PairBatch(tokens, len(rows), torch.from_numpy(equal[:, equal[0] < len(rows)]))


def equal_pairs(hashes: Rows) -> Rows:
    """All (i, j), i != j, with equal hashes: (2, m). Costs a sort where all differ, as in most batches."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.diff(np.concatenate([starts, [len(hashes)]]))
    pairs = [_ordered_pairs(order[s : s + size]) for s, size in zip(starts, sizes, strict=True) if size > 1]
    return np.concatenate([np.empty((2, 0), np.int64), *pairs], axis=1)


def _ordered_pairs(members: Rows) -> Rows:
    first, second = np.meshgrid(members, members, indexing="ij")
    different = ~np.eye(len(members), dtype=bool)
    return np.stack([first[different], second[different]])


class EpochOrder:
    """Which examples each batch of a stage has.

    Every epoch is a permutation of its own of all examples, cut into batches of K; the fewer than K left over at its
    end are dropped (another epoch has others). The examples of a batch do not depend on their lengths, since the
    other pairs of the batch are the negatives.

    Args:
        examples: number of examples.
        batch_size: K.
        seed: numbers that the order is a function of.
        stream: tells apart orders of one seed, those of several sets of examples.

    Raises:
        InputError: there are fewer examples than K.
    """

    def __init__(self, examples: int, batch_size: int, seed: tuple[int, ...], stream: int = 0) -> None:
        if examples < batch_size:
            raise InputError(
                f"{examples} training examples do not fill a batch of {batch_size}; "
                f"set the stages' batch_size to {examples} at most"
            )
        self.batch_size, self._examples, self._seed, self._stream = batch_size, examples, seed, stream
        self.batches_per_epoch = examples // batch_size
        self._epoch = -1
        self._order: Rows = np.empty(0, np.int64)

    def rows(self, step: int) -> npt.NDArray[np.int64]:
        """Examples of the batch number `step`, from 0."""
        epoch, batch = divmod(step, self.batches_per_epoch)
        if epoch != self._epoch:
            generator = np.random.default_rng([*self._seed, epoch, self._stream])
            self._order = generator.permutation(self._examples)
            self._epoch = epoch
        return self._order[batch * self.batch_size : (batch + 1) * self.batch_size]


class Order(Protocol):
    """Which examples each batch has."""

    def rows(self, step: int) -> Rows:
        """Examples of the batch number `step`, from 0."""
        ...


def batches(
    store: TokenStore,
    order: Order,
    padding_id: int,
    first: int = 0,
    stop: int | None = None,
    further: Callable[[Rows], Rows] | None = None,
) -> Generator[PairBatch, None, None]:
    """Batches from number `first` on. While one is trained on, a thread prepares the next.

    Args:
        store: all examples.
        order: which of them each batch has.
        padding_id: the model's.
        first: number of the first batch.
        stop: number of the batch at which they end; None for endless ones.
        further: K examples -> M examples whose responses are further negatives of them; None for none.
    """

    def prepare(step: int) -> PairBatch:
        rows = order.rows(step)
        return make_batch(store, rows, padding_id, NONE if further is None else further(rows))

    with ThreadPoolExecutor(1, thread_name_prefix="batches") as executor:
        step, following = first, executor.submit(prepare, first)
        while stop is None or step < stop:
            batch = following.result()
            step += 1
            if stop is None or step < stop:
                following = executor.submit(prepare, step)
            yield batch
