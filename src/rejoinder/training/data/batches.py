"""Batches of K random pairs of one or several sets (ACL19: FT-MIXED).

The seed alone gives their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from rejoinder.arrays import Ids
from rejoinder.devices import move
from rejoinder.encoders.families import Packing
from rejoinder.errors import InputError
from rejoinder.networks.masked_lm import MaskedBatch
from rejoinder.networks.packing import (
    SEGMENT_COST,
    TRANSFORMER_SEGMENT_COST,
    TokenBatch,
    pack,
)
from rejoinder.networks.pair_batches import AnchoredBatch, SidesBatch, VectorBatch
from rejoinder.text.dialogue import join_response
from rejoinder.training.data.histories import HistorySource
from rejoinder.training.data.tokens import TokenRows, TokenStore
from rejoinder.training.recipe.losses import ALL_PRESENT, ContextMask

NO_HISTORIES = torch.empty((2, 0), dtype=torch.int64)
NONE: TokenRows = np.empty(0, np.int64)

# n examples -> the k whose responses are additional negatives of each (n, k)
ExtraNegatives = Callable[[TokenRows], TokenRows]
FEWEST_PAIRS = 16  # of equal responses, where a card has any


PackedTexts: TypeAlias = TokenBatch | SidesBatch | MaskedBatch | VectorBatch | AnchoredBatch
"""The texts of some pairs, as one of five types.

- `TokenBatch`: inputs, texts of histories, responses and additional negatives, one after the other;
  or contexts joined with candidates.
- `SidesBatch`: contexts and responses apart, for networks of their own.
- `MaskedBatch`: joined pairs of which something is to be guessed (`masked_lm`).
- `VectorBatch`: texts that a trunk which learns nothing has read before (`initialisation`).
- `AnchoredBatch`: inputs and responses, and the vectors of all texts before the trunk learned.
"""


@dataclass(frozen=True, slots=True)
class PairBatch:
    """n pairs that are encoded at once, and additional negatives of all pairs of the step."""

    tokens: PackedTexts
    pairs: int
    histories: Tensor = NO_HISTORIES
    """The pair of each text of the histories, ascending, and its slot, int64 (2, m).

    For a card int64 (3, m): the third row is 1, or 0 of an empty text that counts for nothing.
    """


def make_batch(
    store: TokenStore,
    rows: TokenRows,
    padding_id: int,
    negatives: TokenRows = NONE,
    packing: Packing = "together",
    earlier: TokenRows | None = None,
    segments: bool = True,
) -> PairBatch:
    """Pack the given examples as the model wants them (see `encoders.families.Family`).

    The responses of `negatives` are negatives of all pairs, or, where contexts are joined with
    candidates, k of each. `earlier` are the examples whose histories the pairs get, -1 for none;
    without it each has its own. `segments`: as processors want them (`networks.packing`).
    """
    cost = TRANSFORMER_SEGMENT_COST if segments else None
    if packing == "apart":
        ids, lengths = store.input.gather(rows)
        contexts = pack(ids, lengths, padding_id, cost)
        ids, lengths = store.response.gather(np.concatenate([rows, negatives]))
        responses = pack(ids, lengths, padding_id, cost)
        return PairBatch(SidesBatch(contexts, responses), len(rows))
    if packing == "joined":
        return _joined(store, rows, padding_id, negatives, cost)
    sides = [store.input.gather(rows)]
    histories = NO_HISTORIES
    spare = 0
    if store.history is not None:
        earlier = rows if earlier is None else earlier
        ids, lengths, (owners, slots) = store.history.gather(earlier[earlier >= 0])
        places = np.stack([np.flatnonzero(earlier >= 0)[owners], slots])
        if not segments:
            spare = _spare_texts(len(lengths), len(rows))
            places = np.concatenate([places, np.ones((1, len(lengths)), np.int64)])
            places = np.pad(places, [(0, 0), (0, spare)])
        histories = torch.from_numpy(places)
        sides.append((ids, lengths))
    sides.append(store.response.gather(np.concatenate([rows, negatives])))
    ids, lengths = _all_texts(sides)
    behind = len(lengths) - len(sides[-1][1])  # the place of spare texts
    if store.vectors is not None:  # of a trunk that learns nothing
        read = store.vectors(ids, lengths)
        vectors = _with_rows(read.vectors, behind, spare)
        return PairBatch(VectorBatch(vectors, read.real_tokens), len(rows), histories)
    if store.start is None:
        lengths = np.insert(lengths, behind, np.zeros(spare, lengths.dtype))
        packed = pack(ids, lengths, padding_id, SEGMENT_COST if segments else None)
        return PairBatch(packed, len(rows), histories)
    # of a trunk that is anchored: it reads the newest messages
    start = _with_rows(store.start(ids, lengths).vectors, behind, spare)
    ids, lengths = _all_texts([sides[0], sides[-1]])
    again = pack(ids, lengths, padding_id, cost)
    return PairBatch(AnchoredBatch(again, start), len(rows), histories)


def _spare_texts(texts: int, pairs: int) -> int:
    """Return how many empty texts are added to some pairs' histories for a card.

    Numbers of texts are rounded up to about a standard deviation of their sum, so that a batch's
    shapes return (`training.graphs`).
    """
    return -texts % (4 * math.ceil(math.sqrt(pairs)))


def _with_rows(vectors: Tensor, row: int, count: int) -> Tensor:
    """Return vectors (n, d) with some rows of zeros more, before row number `row`."""
    if not count:
        return vectors
    rows = vectors.new_zeros((count, vectors.shape[1]))
    return torch.cat([vectors[:row], rows, vectors[row:]])


def _all_texts(sides: Sequence[tuple[Ids, Ids]]) -> tuple[Ids, Ids]:
    return np.concatenate([ids for ids, _ in sides]), np.concatenate(
        [lengths for _, lengths in sides]
    )


def _joined(
    store: TokenStore,
    rows: TokenRows,
    padding_id: int,
    negatives: TokenRows,
    segment_cost: int | None,
) -> PairBatch:
    """Join each context with its own response, and with each of its negatives, into one text."""
    candidates = np.concatenate([rows[:, None], negatives.reshape(len(rows), -1)], axis=1)
    contexts = store.input.gather(np.repeat(rows, candidates.shape[1]))
    ids, lengths, types = join_response(
        contexts, store.response.gather(candidates.reshape(-1)), start=1
    )
    return PairBatch(pack(ids, lengths, padding_id, segment_cost, types), len(rows))


@dataclass(frozen=True, slots=True)
class Portion:
    """A process's part of every batch, and how it is computed."""

    rank: int = 0
    processes: int = 1
    micro_batch: int = 0  # pairs that are encoded at once; 0: all
    segments: bool = True  # texts are cut into segments, as processors want them


WHOLE = Portion()  # one process that encodes all pairs at once


@dataclass(frozen=True, slots=True)
class StepBatch:
    """One process's share of the K pairs of a step."""

    parts: tuple[PairBatch, ...]  # its pairs, cut into those that are encoded at once
    pairs: int  # K
    first: int  # number of its first pair
    equal: Tensor
    """True at (i, j) if response j equals that of this process's context i, counted from its first.

    It is int64 (2, m), for a card with its last column repeated up to 16, 64, 256... The K
    responses of the pairs come first, then the additional negatives;
    where contexts are joined with candidates, j counts a context's own, the right one first.
    """
    present: Mapping[str, ContextMask]
    """Of encodings that not every context has, which contexts have them."""
    rows: TokenRows  # the K examples
    weight: float = 0.0
    """In pretraining: of each guess in the loss, one over the guesses of all processes."""
    teacher_output: Any = None
    """What a teacher made of the batch ahead of time (`distillation.Distiller.ahead`)."""

    @property
    def tokens(self) -> int:
        """Return the number of real tokens of this process's pairs."""
        return sum(part.tokens.real_tokens for part in self.parts)


def make_step(
    store: TokenStore,
    rows: TokenRows,
    padding_id: int,
    portion: Portion,
    negatives: ExtraNegatives | None = None,
    packing: Packing = "together",
    history_source: HistorySource | None = None,
) -> StepBatch:
    """Return one process's part of the batch of the given examples.

    Their number is a multiple of the processes'.
    """
    own = len(rows) // portion.processes
    first = own * portion.rank
    more = np.empty((len(rows), 0), np.int64) if negatives is None else negatives(rows)
    if packing == "joined":
        same = np.nonzero(store.response_hash[more] == store.response_hash[rows][:, None])
        equal: TokenRows = np.stack([same[0], same[1] + 1])  # number 0 is the right one
    else:
        equal = equal_pairs(store.response_hash[np.concatenate([rows, more.reshape(-1)])])
    equal = equal[:, (equal[0] >= first) & (equal[0] < first + own)] - np.array([[first], [0]])
    size = portion.micro_batch or own
    pieces = [
        slice(start, min(start + size, first + own)) for start in range(first, first + own, size)
    ]
    earlier = rows if history_source is None else history_source(rows)
    parts = tuple(
        make_batch(
            store,
            rows[piece],
            padding_id,
            more[piece].reshape(-1),
            packing,
            earlier[piece],
            portion.segments,
        )
        for piece in pieces
    )
    present = ALL_PRESENT
    if store.history is not None:
        # Those of the other processes too, since the loss divides by their number; none that
        # belongs to another pair.
        has_earlier = (store.history.counts(rows) > 0) & (earlier == rows)
        present = {
            "history": ContextMask(
                torch.from_numpy(has_earlier[first : first + own]),
                torch.tensor(float(has_earlier.sum())),
            )
        }
    if not portion.segments:
        equal = _repeat_last(equal)
    return StepBatch(parts, len(rows), first, torch.from_numpy(equal), present, rows)


def _repeat_last(pairs: TokenRows) -> TokenRows:
    """Return pairs (2, m) with the last one repeated, so that few numbers of pairs occur.

    The loss counts it once.
    """
    count = pairs.shape[1]
    if not count:
        return pairs
    wanted = FEWEST_PAIRS
    while wanted < count:
        wanted *= 4
    return np.concatenate([pairs, np.repeat(pairs[:, -1:], wanted - count, axis=1)], axis=1)


@dataclass(frozen=True)
class PairBatches:
    """The batches of a stage."""

    store: TokenStore
    order: MixedOrder
    padding_id: int
    portion: Portion
    packing: Packing
    negatives: ExtraNegatives | None
    history_source: HistorySource | None
    teacher: Callable[[StepBatch], Any] | None  # what looks up the teacher's output ahead
    device: torch.device

    def make(self, step: int) -> StepBatch:
        """Return this process's part of the batch number `step`, from 0, on its device."""
        batch = make_step(
            self.store,
            self.order.rows(step),
            self.padding_id,
            self.portion,
            negatives=self.negatives,
            packing=self.packing,
            history_source=self.history_source,
        )
        if self.teacher is not None:
            batch = replace(batch, teacher_output=self.teacher(batch))
        return move(batch, self.device)


def equal_pairs(hashes: TokenRows) -> TokenRows:
    """Return all (i, j), i != j, with equal hashes: (2, m)."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.diff(np.concatenate([starts, [len(hashes)]]))
    pairs = [np.empty((2, 0), np.int64)]
    for start, size in zip(starts, sizes, strict=True):
        if size > 1:
            pairs.append(order[start + np.stack(np.nonzero(~np.eye(size, dtype=bool)))])
    return np.concatenate(pairs, axis=1)


class EpochOrder:
    """The examples of each batch.

    Each epoch is a new permutation, cut into K, by `seed` and `stream` (the set).
    """

    def __init__(
        self, examples: int, batch_size: int, seed: tuple[int, ...], stream: int = 0
    ) -> None:
        if examples < batch_size:
            remedy = f"set the stages' batch_size to {examples} at most"
            raise InputError(
                f"{examples} training examples do not fill a batch of {batch_size}; "
                f"{remedy if examples > 1 else 'two at least are needed'}"
            )
        self.batch_size = batch_size
        self._examples = examples
        self._seed = seed
        self._stream = stream
        self.batches_per_epoch = examples // batch_size
        self._epoch = -1
        self._order = NONE

    def rows(self, step: int) -> TokenRows:
        """Return the examples of the batch number `step`, from 0."""
        epoch, batch = divmod(step, self.batches_per_epoch)
        if epoch != self._epoch:
            self._order = np.random.default_rng([*self._seed, epoch, self._stream]).permutation(
                self._examples
            )
            self._epoch = epoch
        return self._order[batch * self.batch_size : (batch + 1) * self.batch_size]


def split_batch(batch_size: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Return the pairs of each set in a batch of K.

    The shares, which sum to 1, are rounded by largest remainder.
    """
    exact = np.array(shares) * batch_size
    counts = np.floor(exact + 1e-9).astype(np.int64)
    # Equal remainders are those that rounding errors make differ: the earlier set gets the pair.
    late = np.argsort(-np.round(exact - counts, 9), kind="stable")
    counts[late[: batch_size - counts.sum()]] += 1
    if (counts == 0).any():
        least = float(np.min(shares))
        raise InputError(
            f"a share of {least:.3g} of a batch of {batch_size} is less than one pair;"
            f" raise the share in data.mix, or batch_size to {int(np.ceil(1 / least))} at least"
        )
    return tuple(counts.tolist())


class MixedOrder:
    """The examples of each batch of a stage: a fixed number of each set, set by set.

    The examples of all sets are numbered through. Each set has epochs of its own (see
    `EpochOrder`), so other shares cut the same order into other batches. `batches_per_epoch` go
    through the first set once.
    """

    def __init__(
        self, sizes: Sequence[int], shares: Sequence[float], batch_size: int, seed: tuple[int, ...]
    ) -> None:
        self.sizes = tuple(sizes)
        self.batch_size = batch_size
        self.counts = split_batch(batch_size, shares)
        self._firsts = np.cumsum([0, *sizes[:-1]])
        self._orders = []
        for stream, (size, count) in enumerate(zip(self.sizes, self.counts, strict=True)):
            if len(self.sizes) > 1 and size < count:
                name = f"data.mix.{stream - 1}" if stream else "data.train"
                raise InputError(
                    f"{size} training examples of {name} do not fill its {count} places"
                    f" in a batch of {batch_size}; lower its share or the stages' batch_size"
                )
            self._orders.append(EpochOrder(size, count, seed, stream))
        self.batches_per_epoch = self._orders[0].batches_per_epoch

    def rows(self, step: int) -> TokenRows:
        """Return the examples of the batch number `step`, from 0."""
        parts = zip(self._firsts, self._orders, strict=True)
        return np.concatenate([first + order.rows(step) for first, order in parts])

    def sample(self, count: int, generator: np.random.Generator) -> TokenRows:
        """Draw about `count` different examples, of each set its share, or all that it has.

        They are in ascending order.
        """
        parts = []
        for first, size, part in zip(self._firsts, self.sizes, self.counts, strict=True):
            wanted = min(size, max(1, round(count * part / self.batch_size)))
            parts.append(
                first + np.sort(generator.choice(size, wanted, replace=False, shuffle=False))
            )
        return np.concatenate(parts)


def prefetched(
    make: Callable[[int], StepBatch], first: int, stop: int | None
) -> Generator[StepBatch, None, None]:
    """Yield make(first), make(first + 1), ... up to `stop` (None: for ever).

    A thread makes the next one ahead.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="batches") as executor:
        step = first
        following = executor.submit(make, first)
        while stop is None or step < stop:
            batch = following.result()
            step += 1
            if stop is None or step < stop:
                following = executor.submit(make, step)
            yield batch
