"""Losses, one class each: its formula, its source, what it expects."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

MASKED = float("-inf")


class Loss(NamedTuple):
    """What a loss returns: the value to minimise, and the share of contexts whose own response scored best.

    Where several processes have a part of the batch's contexts each, these are the parts' shares: their sum over the
    processes is the loss (the accuracy) of the batch.
    """

    value: Tensor
    accuracy: Tensor


class InBatchLoss(nn.Module):
    """Softmax over the batch's responses for each context, with the paper's label smoothing.

    For K pairs with encodings x_i, y_j of unit length, M further responses y_K ... y_(K+M-1) that are negatives of all
    contexts (hard negatives; mostly M = 0), and the scale c:

        S_ij = c · x_i·y_j
        log p_ij = S_ij - log Σ_j' exp S_ij'            (over the responses j', the true one i included)
        L = -1/K Σ_i [ (1 - e) log p_ii + e/n_i Σ_{j≠i} log p_ij ]

    The true response gets 1 - e and the n_i = K + M - 1 others share e evenly (CONVERT, section 3; PyTorch's own label
    smoothing gives the true response a part of e too). Responses that equal the true one are masked: they are in
    neither sum, n_i counts the others, and where none is left e is 0.

    Sums over all j use Σ_j S_ij = c · x_i·Σ_j y_j, so that no second pass over the K x K scores is needed.

    Args:
        smoothing: e.
    """

    def __init__(self, smoothing: float) -> None:
        super().__init__()
        self.smoothing = smoothing

    def forward(
        self,
        x: Tensor,
        y: Tensor,
        scale: float,
        equal: Tensor | None = None,
        first: int = 0,
        pairs: int | None = None,
    ) -> Loss:
        """Loss and in-batch accuracy, float32.

        Args:
            x: encoded contexts (k, d), rows of unit length: all K of the batch, or those of one process.
            y: encoded responses (K + M, d), rows of unit length; row first + i belongs to context i.
            scale: c.
            equal: pairs of a context i and a response j != first + i that equals its own: int64 (2, m), each of two
                equal responses listed for the context of the other; None or empty where all responses differ.
            first: number of the first context among the K.
            pairs: K; None for all responses, M = 0.

        Returns:
            The sum of the contexts' losses divided by K, and the share of the K contexts that are among these and
            whose own response scored above all unmasked others (a tie counts against it); the latter without
            gradient.
        """
        with torch.autocast(x.device.type, enabled=False):
            return self._loss(x.float(), y.float(), scale, equal, first, len(y) if pairs is None else pairs)

    def _loss(self, x: Tensor, y: Tensor, scale: float, equal: Tensor | None, first: int, pairs: int) -> Loss:
        k = x.shape[0]
        x = x * scale
        scores = x @ y.T  # (k, K + M)
        negatives = x.new_full((k,), len(y) - 1)
        others = x @ y.sum(dim=0) - (true := (x * y[first : first + k]).sum(dim=1))  # Σ_{j≠i} S_ij
        if equal is not None and equal.shape[1]:
            rows, columns = equal
            masked = (x[rows] * y[columns]).sum(dim=1)
            others = others.index_add(0, rows, -masked)
            negatives = negatives.index_add(0, rows, torch.full_like(masked, -1.0))
            scores = scores.index_put((rows, columns), torch.full_like(masked, MASKED))
        smoothing = self.smoothing * (negatives > 0).to(x.dtype)
        target = (1 - smoothing) * true + smoothing / negatives.clamp(min=1) * others
        return Loss((scores.logsumexp(dim=1) - target).sum() / pairs, _best(scores, first) / pairs)


@torch.no_grad()
def _best(scores: Tensor, first: int) -> Tensor:
    """Number of rows i in which nothing but the entry first + i is as high as it."""
    return ((scores >= scores.diagonal(first)[:, None]).sum(dim=1) == 1).float().sum()
