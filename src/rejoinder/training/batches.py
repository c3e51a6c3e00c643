"""Batches of K random pairs, in an order that is a function of the seed alone."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rejoinder.errors import InputError
from rejoinder.models.packing import TokenBatch, pack
from rejoinder.training.tokens import Rows, TokenStore

NO_HISTORIES = torch.empty(0, dtype=torch.int64)


@dataclass(frozen=True, slots=True)
class PairBatch:
    """K pairs.

    Attributes:
        tokens: K inputs, then the histories of those pairs that have one, then the K responses.
        pairs: K.
        equal: the pairs (i, j), i != j, of equal responses, int64 (2, m).
        histories: the pairs that have a history, ascending, int64 (M,); none where the model does not read them.
    """

    tokens: TokenBatch
    pairs: int
    equal: Tensor
    histories: Tensor = NO_HISTORIES

    @property
    def present(self) -> dict[str, Tensor]:
        """Of encodings that not every context has: which of the K contexts have it, bool (K,)."""
        none = torch.zeros(self.pairs, dtype=torch.bool, device=self.histories.device)
        return {"history": none.index_fill(0, self.histories, True)}

    def to(self, device: torch.device | str) -> PairBatch:
        """The same batch on another device."""
        return PairBatch(self.tokens.to(device), self.pairs, self.equal.to(device), self.histories.to(device))


def make_batch(store: TokenStore, rows: Rows, padding_id: int) -> PairBatch:
    """The batch of the given examples, in their order."""
    sides, histories = [store.input.gather(rows)], np.empty(0, np.int64)
    if store.history is not None:
        ids, lengths = store.history.gather(rows)
        histories = np.flatnonzero(lengths)
        sides.append((ids, lengths[histories]))
    sides.append(store.response.gather(rows))
    tokens = pack(np.concatenate([ids for ids, _ in sides]), np.concatenate([n for _, n in sides]), padding_id)
    equal = torch.from_numpy(equal_pairs(store.response_hash[rows]))
    return PairBatch(tokens, len(rows), equal, torch.from_numpy(histories))


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

    Raises:
        InputError: there are fewer examples than K.
    """

    def __init__(self, examples: int, batch_size: int, seed: tuple[int, ...]) -> None:
        if examples < batch_size:
            raise InputError(
                f"{examples} training examples do not fill a batch of {batch_size}; "
                f"set the stages' batch_size to {examples} at most"
            )
        self.batch_size, self._examples, self._seed = batch_size, examples, seed
        self.batches_per_epoch = examples // batch_size
        self._epoch = -1
        self._order: Rows = np.empty(0, np.int64)

    def rows(self, step: int) -> npt.NDArray[np.int64]:
        """Examples of the batch number `step`, from 0."""
        epoch, batch = divmod(step, self.batches_per_epoch)
        if epoch != self._epoch:
            self._order = np.random.default_rng([*self._seed, epoch]).permutation(self._examples)
            self._epoch = epoch
        return self._order[batch * self.batch_size : (batch + 1) * self.batch_size]


def batches(store: TokenStore, order: EpochOrder, padding_id: int, first: int = 0) -> Generator[PairBatch, None, None]:
    """Endless batches from number `first` on. While one is trained on, a thread prepares the next."""
    with ThreadPoolExecutor(1, thread_name_prefix="batches") as executor:
        step = first
        following = executor.submit(lambda n: make_batch(store, order.rows(n), padding_id), step)
        while True:
            batch = following.result()
            step += 1
            following = executor.submit(lambda n: make_batch(store, order.rows(n), padding_id), step)
            yield batch
