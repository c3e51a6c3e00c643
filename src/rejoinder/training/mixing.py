"""Several sets of examples in every batch, each with its share (ACL19: FT-MIXED)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError
from rejoinder.training.batches import EpochOrder
from rejoinder.training.tokens import Ids, Rows, TokenStore


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


def join(stores: Sequence[TokenStore]) -> TokenStore:
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
