"""Validation during training: 1-of-N over the validation split, on tokens."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rejoinder.encoders.torch import Packing
from rejoinder.errors import InputError
from rejoinder.evaluation.ranking import ranks
from rejoinder.networks.layers import scores_of
from rejoinder.training.batches import PairBatch, make_batch
from rejoinder.training.distributed import Processes
from rejoinder.training.recipe import Validation
from rejoinder.training.tokens import Rows, TokenStore

PAIRS_AT_ONCE = 512  # pairs that are encoded in one call of the model, or one group if that is more

Encode = Callable[[PairBatch], tuple[Tensor, Tensor]]
"""Pairs -> contexts (K, d) or (K, m, d) and responses (K, d); where contexts join candidates:
scores (K, C), twice."""


def drawn(store: TokenStore, config: Validation) -> Rows:
    """Return which examples a store is validated on, the same each time."""
    return np.random.default_rng(0).permutation(len(store))[: config.examples]


class Validator:
    """Ranks each response of a group of N examples against the others of its group.

    Several processes share the groups. The groups are the same each time, drawn with a fixed seed;
    candidates of the first fill up the last. A response whose tokens equal the right one's is right
    too; any other that ties counts against the model.
    """

    def __init__(
        self,
        store: TokenStore,
        config: Validation,
        padding_id: int,
        processes: Processes | None = None,
        packing: Packing = "together",
    ) -> None:
        self._packing = packing
        self.candidates = config.candidates
        limit = min(len(store), config.examples)
        if limit < config.candidates:
            raise InputError(
                f"{limit} validation examples make no group of {config.candidates};"
                " set validation.candidates lower,"
                " or validation.examples = 0 to train without validation"
            )
        self.examples = limit
        order = drawn(store, config)
        order = np.concatenate([order, order[: -limit % config.candidates]])  # in whole groups
        together = max(1, PAIRS_AT_ONCE // config.candidates) * config.candidates
        self._store = store
        self._padding_id = padding_id
        self._processes = processes or Processes()
        self._parts = [order[start : start + together] for start in range(0, len(order), together)]

    def __call__(self, encode: Encode, scale: float = 1.0) -> dict[str, float]:
        """Return recall at 1, mean reciprocal rank, and the loss among the group's candidates.

        The loss is without smoothing.
        """
        parts = self._processes.parallel_map(
            lambda rows: self._ranks(rows, encode, scale), self._parts
        )
        found = np.concatenate([ranked for ranked, _ in parts])[: self.examples]
        losses = np.concatenate([lost for _, lost in parts])[: self.examples]
        return {
            "recall@1": float((found == 1).mean()),
            "mrr": float((1 / found).mean()),
            "loss": float(losses.mean()),
        }

    @torch.no_grad()
    def _ranks(
        self, rows: Rows, encode: Encode, scale: float
    ) -> tuple[Rows, npt.NDArray[np.float64]]:
        n = self.candidates
        scores = (
            self._joined(rows, encode) if self._packing == "joined" else self._encoded(rows, encode)
        )
        hashes = self._store.response_hash[rows].reshape(-1, n)
        labels = np.tile(np.arange(n), len(hashes))
        equal = (hashes[:, :, None] == hashes[:, None, :]).reshape(-1, n)
        own = scores[np.arange(len(scores)), labels][:, None]
        # other examples' responses that are as right
        wrong = equal & (np.arange(n) != labels[:, None])
        counted = np.where(wrong, -np.inf, scale * (scores - own)).astype(np.float64)
        highest = counted.max(axis=1, keepdims=True)
        losses = highest[:, 0] + np.log(np.exp(counted - highest).sum(axis=1))
        return ranks(scores, labels, equal), losses

    def _encoded(self, rows: Rows, encode: Encode) -> npt.NDArray[np.float32]:
        """Return the scores of each response of a group for each context of it, (rows, n)."""
        encoded = encode(make_batch(self._store, rows, self._padding_id, packing=self._packing))
        x, y = (torch.unflatten(h.float().cpu(), 0, (-1, self.candidates)) for h in encoded)
        scores = [scores_of(contexts, responses) for contexts, responses in zip(x, y, strict=True)]
        return torch.cat(scores).numpy()

    def _joined(self, rows: Rows, encode: Encode) -> npt.NDArray[np.float32]:
        """Return the same for a model that reads each context with each response."""
        n = self.candidates
        place = np.arange(len(rows)) % n
        # the right response comes first, the others after it
        others = (place[:, None] + np.arange(1, n)) % n
        negatives = rows.reshape(-1, n)[np.arange(len(rows))[:, None] // n, others]
        scores = np.empty((len(rows), n), np.float32)
        size = max(1, PAIRS_AT_ONCE // n)
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            batch = make_batch(
                self._store,
                rows[part],
                self._padding_id,
                negatives[part].reshape(-1),
                self._packing,
            )
            found = encode(batch)[0].float().cpu().numpy()
            np.put_along_axis(
                scores[part],
                np.concatenate([place[part, None], others[part]], axis=1),
                found,
                axis=1,
            )
        return scores
