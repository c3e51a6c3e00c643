"""Validation during training: 1-of-N over the validation split, on tokens."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from rejoinder.errors import InputError
from rejoinder.evaluation.ranking import ranks
from rejoinder.training.batches import PairBatch, make_batch
from rejoinder.training.distributed import Processes
from rejoinder.training.recipe import Validation
from rejoinder.training.tokens import Rows, TokenStore

PAIRS_AT_ONCE = 512
"""Pairs that are encoded in one call of the model, or one group if that is more."""

Encode = Callable[[PairBatch], tuple[Tensor, Tensor]]


class Validator:
    """Ranks each response of a group of N examples against the others of its group.

    The examples and their groups are the same each time, drawn with a fixed seed. A response whose tokens equal the
    right one's has the right one's score, and a tie counts against the model (as in `evaluation`).

    Args:
        store: tokens of the validation split.
        config: the recipe's.
        padding_id: the model's.
        processes: they share the groups.

    Raises:
        InputError: there are fewer examples than candidates.
    """

    def __init__(
        self, store: TokenStore, config: Validation, padding_id: int, processes: Processes | None = None
    ) -> None:
        self.candidates = config.candidates
        groups = min(len(store), config.examples) // config.candidates
        if groups == 0:
            raise InputError(
                f"{min(len(store), config.examples)} validation examples make no group of {config.candidates}; set "
                "validation.candidates lower, or validation.examples = 0 to train without validation"
            )
        order = np.random.default_rng(0).permutation(len(store))[: groups * config.candidates]
        together = max(1, PAIRS_AT_ONCE // config.candidates) * config.candidates
        self.examples = len(order)
        self._store, self._padding_id, self._processes = store, padding_id, processes or Processes()
        self._parts = [order[start : start + together] for start in range(0, len(order), together)]

    def __call__(self, encode: Encode) -> dict[str, float]:
        """Recall at 1 and mean reciprocal rank of what `encode` (pairs -> h_x, h_y) gives."""
        found = np.concatenate(self._processes.divide(self._parts, lambda rows: self._ranks(rows, encode)))
        return {"recall@1": float((found == 1).mean()), "mrr": float((1 / found).mean())}

    @torch.no_grad()
    def _ranks(self, rows: Rows, encode: Encode) -> Rows:
        n = self.candidates
        encoded = encode(make_batch(self._store, rows, self._padding_id))
        x, y = (h.float().cpu().reshape(-1, n, h.shape[1]) for h in encoded)
        scores = (x @ y.transpose(1, 2)).reshape(-1, n).numpy()  # (groups · n, n)
        hashes = self._store.response_hash[rows].reshape(-1, n)
        labels = np.tile(np.arange(n), len(hashes))
        equal = (hashes[:, :, None] == hashes[:, None, :]).reshape(-1, n)
        own = scores[np.arange(len(scores)), labels][:, None]
        return ranks(np.where(equal, own, scores), labels)
