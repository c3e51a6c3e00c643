"""Batches of K random pairs, of one set of examples or of several with a share each (ACL19: FT-MIXED).

Their order is a function of the seed alone; a thread prepares the next one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rejoinder.errors import InputError
from rejoinder.models.dialogue import join as join_texts
from rejoinder.models.families import Packing
from rejoinder.models.masked_lm import MaskedBatch
from rejoinder.models.packing import TRANSFORMER_SEGMENT_COST, SidesBatch, TokenBatch, pack
from rejoinder.training.losses import EVERYTHING, Present
from rejoinder.training.tokens import Ids, Rows, TokenStore

NO_HISTORIES = torch.empty(0, dtype=torch.int64)
NONE: Rows = np.empty(0, np.int64)

Further = Callable[[Rows], Rows]
"""n examples -> for each the k examples whose responses are further negatives (n, k); see `negatives`."""


@dataclass(frozen=True, slots=True)
class PairBatch:
    """n pairs that are encoded at once, and further responses that are negatives of all pairs of the step."""

    tokens: TokenBatch | SidesBatch | MaskedBatch
    """n inputs, then the histories of those pairs that have one, then n responses and the further ones."""
    pairs: int
    histories: Tensor = NO_HISTORIES
    """The pairs that have a history, ascending, int64 (m,); none where the model does not read them."""


def make_batch(
    store: TokenStore, rows: Rows, padding_id: int, further: Rows = NONE, packing: Packing = "together"
) -> PairBatch:
    """Pack the given examples as the model wants them (see `families.Family`).

    The responses of the examples `further` are further negatives: of all pairs, or, where contexts are joined with
    candidates, k of each example, one example's after the other's.
    """
    if packing == "apart":
        cost = TRANSFORMER_SEGMENT_COST
        contexts = pack(*store.input.gather(rows), padding_id, cost)
        responses = pack(*store.response.gather(np.concatenate([rows, further])), padding_id, cost)
        return PairBatch(SidesBatch(contexts, responses), len(rows))
    if packing == "joined":
        return _joined(store, rows, padding_id, further)
    sides, histories = [store.input.gather(rows)], np.empty(0, np.int64)
    if store.history is not None:
        ids, lengths = store.history.gather(rows)
        histories = np.flatnonzero(lengths)
        sides.append((ids, lengths[histories]))
    sides.append(store.response.gather(np.concatenate([rows, further])))
    tokens = pack(np.concatenate([ids for ids, _ in sides]), np.concatenate([n for _, n in sides]), padding_id)
    return PairBatch(tokens, len(rows), torch.from_numpy(histories))


def _joined(store: TokenStore, rows: Rows, padding_id: int, further: Rows) -> PairBatch:
    """Join each context with its own response, and with each of its negatives, into one text."""
    candidates = np.concatenate([rows[:, None], further.reshape(len(rows), -1)], axis=1)
    contexts = store.input.gather(np.repeat(rows, candidates.shape[1]))
    ids, lengths, types = join_texts(contexts, store.response.gather(candidates.reshape(-1)), start=1)
    return PairBatch(pack(ids, lengths, padding_id, TRANSFORMER_SEGMENT_COST, types), len(rows))


@dataclass(frozen=True, slots=True)
class Portion:
    """Which part of every batch a process has, and how it computes it."""

    rank: int = 0
    processes: int = 1
    micro_batch: int = 0  # pairs that are encoded at once; 0: all


WHOLE = Portion()
"""One process that encodes all pairs at once."""


@dataclass(frozen=True, slots=True)
class StepBatch:
    """What one process has of the K pairs of a step."""

    parts: tuple[PairBatch, ...]  # its pairs, cut into those that are encoded at once
    pairs: int  # K
    first: int  # number of its first pair
    equal: Tensor
    """Where response j equals that of this process's context i (counted from its first): int64 (2, m). The K responses
    of the pairs come first, then the further ones; where contexts are joined with candidates, j counts a context's own
    candidates, the right one first."""
    present: Mapping[str, Present]
    """Of encodings that not every context has, which contexts have them."""
    rows: Rows
    """The K examples."""
    weight: float = 0.0
    """In pretraining: weight of each guess of this process in the loss, one over the guesses of all processes."""

    @property
    def tokens(self) -> int:
        """Return the number of real tokens of this process's pairs."""
        return sum(part.tokens.real_tokens for part in self.parts)


def make_step(
    store: TokenStore,
    rows: Rows,
    padding_id: int,
    portion: Portion,
    further: Further | None = None,
    packing: Packing = "together",
) -> StepBatch:
    """Return one process's part of the batch of the given examples; their number is a multiple of the processes'."""
    own = len(rows) // portion.processes
    first = own * portion.rank
    more = np.empty((len(rows), 0), np.int64) if further is None else further(rows)
    if packing == "joined":
        same = np.nonzero(store.response_hash[more] == store.response_hash[rows][:, None])
        equal: Rows = np.stack([same[0], same[1] + 1])  # number 0 is the right one
    else:
        equal = equal_pairs(store.response_hash[np.concatenate([rows, more.reshape(-1)])])
    equal = equal[:, (equal[0] >= first) & (equal[0] < first + own)] - np.array([[first], [0]])
    size = portion.micro_batch or own
    pieces = [slice(start, min(start + size, first + own)) for start in range(first, first + own, size)]
    parts = tuple(make_batch(store, rows[piece], padding_id, more[piece].reshape(-1), packing) for piece in pieces)
    present = EVERYTHING
    if store.history is not None:
        there = store.history.gather(rows)[1] > 0  # those of the other processes too: the loss divides by their number
        present = {"history": Present(torch.from_numpy(there[first : first + own]), int(there.sum()))}
    return StepBatch(parts, len(rows), first, torch.from_numpy(equal), present, rows)


def equal_pairs(hashes: Rows) -> Rows:
    """Return all (i, j), i != j, with equal hashes: (2, m). Costs a sort where all differ, as in most batches."""
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
    """Which examples each batch of a stage has: each epoch is a new permutation, cut into batches of K.

    The fewer than K left over at its end are dropped. The other pairs of a batch are the negatives, so a batch does not
    depend on lengths. `stream` tells apart the orders of several sets with one seed.
    """

    def __init__(self, examples: int, batch_size: int, seed: tuple[int, ...], stream: int = 0) -> None:
        if examples < batch_size:
            raise InputError(
                f"{examples} training examples do not fill a batch of {batch_size}; "
                f"set the stages' batch_size to {examples} at most"
            )
        self.batch_size, self._examples, self._seed, self._stream = batch_size, examples, seed, stream
        self.batches_per_epoch = examples // batch_size
        self._epoch, self._order = -1, NONE

    def rows(self, step: int) -> Rows:
        """Return the examples of the batch number `step`, from 0."""
        epoch, batch = divmod(step, self.batches_per_epoch)
        if epoch != self._epoch:
            self._order = np.random.default_rng([*self._seed, epoch, self._stream]).permutation(self._examples)
            self._epoch = epoch
        return self._order[batch * self.batch_size : (batch + 1) * self.batch_size]


def split_batch(batch_size: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Return the pairs of each set in a batch of K: the shares, which sum to 1, rounded by largest remainder."""
    exact = np.array(shares) * batch_size
    counts = np.floor(exact + 1e-9).astype(np.int64)
    # Equal remainders are those that rounding errors make differ: the earlier set gets the pair.
    late = np.argsort(-np.round(exact - counts, 9), kind="stable")
    counts[late[: batch_size - counts.sum()]] += 1
    if (counts == 0).any():
        least = float(np.min(shares))
        raise InputError(
            f"a share of {least:.3g} of a batch of {batch_size} is no whole pair; raise the share in data.mix, or "
            f"batch_size to {int(np.ceil(1 / least))} at least"
        )
    return tuple(counts.tolist())


class MixedOrder:
    """Which examples each batch of a stage has: a fixed number of each set, one set after the other.

    The examples of all sets are numbered through, those of the first set from 0 on. Each set has epochs of its own
    (see `EpochOrder`), so other shares cut the same order into other batches. `batches_per_epoch` go through the first
    set once.
    """

    def __init__(self, sizes: Sequence[int], shares: Sequence[float], batch_size: int, seed: tuple[int, ...]) -> None:
        self.sizes, self.batch_size = tuple(sizes), batch_size
        self.counts = split_batch(batch_size, shares)
        self._firsts, self._orders = _firsts(self.sizes), []
        for stream, (size, count) in enumerate(zip(self.sizes, self.counts, strict=True)):
            if len(self.sizes) > 1 and size < count:
                name = f"data.mix.{stream - 1}" if stream else "data.train"
                raise InputError(
                    f"{size} training examples of {name} do not fill its {count} places in a batch of {batch_size}; "
                    "lower its share or the stages' batch_size"
                )
            self._orders.append(EpochOrder(size, count, seed, stream))
        self.batches_per_epoch = self._orders[0].batches_per_epoch

    def rows(self, step: int) -> Rows:
        """Return the examples of the batch number `step`, from 0: (K,)."""
        parts = zip(self._firsts, self._orders, strict=True)
        return np.concatenate([first + order.rows(step) for first, order in parts])

    def sample(self, count: int, generator: np.random.Generator) -> Rows:
        """Draw about `count` different examples, of each set its share, or all that it has; ascending."""
        parts = []
        for first, size, part in zip(self._firsts, self.sizes, self.counts, strict=True):
            wanted = min(size, max(1, round(count * part / self.batch_size)))
            parts.append(first + np.sort(generator.choice(size, wanted, replace=False, shuffle=False)))
        return np.concatenate(parts)


def _firsts(sizes: Sequence[int]) -> Rows:
    return np.cumsum([0, *sizes[:-1]], dtype=np.int64)


def join_stores(stores: Sequence[TokenStore]) -> TokenStore:
    """Return several stores as one, their examples numbered through; nothing is copied."""
    if len(stores) == 1:
        return stores[0]
    sizes = [len(store) for store in stores]
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(TokenStore):
        parts = [getattr(store, field.name) for store in stores]
        if parts[0] is not None:  # else there are no histories in any of them: they are made for one model
            columns[field.name] = (JoinedTexts if hasattr(parts[0], "gather") else JoinedNumbers)(parts, sizes)
    return TokenStore(**columns)


class _Joined:
    def __init__(self, parts: Sequence[Any], sizes: Sequence[int]) -> None:
        self.parts, self.firsts, self.size = list(parts), _firsts(sizes), sum(sizes)

    def owned(self, rows: Rows) -> Iterator[tuple[npt.NDArray[np.bool_], Any, Rows]]:
        """Yield each part that has some of the rows, which they are, and their numbers in it."""
        owners = np.searchsorted(self.firsts, rows, side="right") - 1
        for owner in np.unique(owners):
            mine = owners == owner
            yield mine, self.parts[owner], rows[mine] - self.firsts[owner]


class JoinedTexts(_Joined):
    """Texts of several columns."""

    def gather(self, rows: Rows) -> tuple[Ids, Ids]:
        """As `tokens.Column.gather`."""
        lengths, found = np.zeros(len(rows), np.int32), []
        for mine, part, own in self.owned(rows):
            ids, lengths[mine] = part.gather(own)
            found.append((mine, ids))
        ids = np.empty(int(lengths.sum()), np.int32)
        for mine, part in found:
            ids[np.repeat(mine, lengths)] = part
        return ids, lengths


class JoinedNumbers(_Joined):
    """Numbers of several arrays."""

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, rows: Rows) -> Rows:
        values = np.empty(rows.shape, np.int64)
        for mine, part, own in self.owned(rows):
            values[mine] = part[own]
        return values


def prefetched(make: Callable[[int], StepBatch], first: int, stop: int | None) -> Generator[StepBatch, None, None]:
    """Yield make(first), make(first + 1), ... up to `stop` (None: for ever); a thread makes the next one ahead."""
    with ThreadPoolExecutor(1, thread_name_prefix="batches") as executor:
        step, following = first, executor.submit(make, first)
        while stop is None or step < stop:
            batch = following.result()
            step += 1
            if stop is None or step < stop:
                following = executor.submit(make, step)
            yield batch
