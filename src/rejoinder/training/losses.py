"""Losses, one class each: its formula, its source, what it expects."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rejoinder.models.convert import Encodings

MASKED = float("-inf")


class Loss(NamedTuple):
    """What a loss returns.

    Attributes:
        value: what to minimise.
        accuracy: share of contexts whose own response scored best.
        figures: further numbers to be logged, by name.
    """

    value: Tensor
    accuracy: Tensor
    figures: Mapping[str, Tensor] = MappingProxyType({})


class InBatchLoss(nn.Module):
    """Softmax over the batch's responses for each context, with the paper's label smoothing.

    For K pairs with encodings x_i, y_j of unit length and the scale c:

        S_ij = c · x_i·y_j
        log p_ij = S_ij - log Σ_j' exp S_ij'            (over the responses j', the true one i included)
        L = -1/K Σ_i [ (1 - e) log p_ii + e/n_i Σ_{j≠i} log p_ij ]

    The true response gets 1 - e and the n_i = K - 1 others share e evenly (CONVERT, section 3; PyTorch's own label
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
        self, x: Tensor, y: Tensor, scale: float, equal: Tensor | None = None, present: Tensor | None = None
    ) -> Loss:
        """Loss and in-batch accuracy, float32.

        Args:
            x: encoded contexts (K, d), rows of unit length.
            y: encoded responses (K, d), rows of unit length; row i belongs to context i.
            scale: c.
            equal: pairs (i, j), i != j, of equal responses: int64 (2, m), both orders of each pair listed; None or
                empty where all responses differ.
            present: bool (K,), the contexts that count; None: all. The responses of the others stay as negatives.

        Returns:
            The mean loss over contexts, and the share of contexts whose own response scored above all unmasked
            others (a tie counts against it); the latter without gradient. Both are 0 where no context counts.
        """
        with torch.autocast(x.device.type, enabled=False):
            return self._loss(x.float(), y.float(), scale, equal, present)

    def _loss(
        self, x: Tensor, y: Tensor, scale: float, equal: Tensor | None = None, present: Tensor | None = None
    ) -> Loss:
        k = x.shape[0]
        x = x * scale
        scores = x @ y.T
        negatives = x.new_full((k,), k - 1)
        others = x @ y.sum(dim=0) - (true := (x * y).sum(dim=1))  # Σ_{j≠i} S_ij
        if equal is not None and equal.shape[1]:
            rows, columns = equal
            masked = (x[rows] * y[columns]).sum(dim=1)
            others = others.index_add(0, rows, -masked)
            negatives = negatives.index_add(0, rows, torch.full_like(masked, -1.0))
            scores = scores.index_put((rows, columns), torch.full_like(masked, MASKED))
        smoothing = self.smoothing * (negatives > 0).to(x.dtype)
        target = (1 - smoothing) * true + smoothing / negatives.clamp(min=1) * others
        return Loss(_mean(scores.logsumexp(dim=1) - target, present), _mean(_hits(scores), present))


class SummedLoss(nn.Module):
    """Sum of one ranking loss for each encoding of the contexts (CONVERT, section 3, multi-context).

        L = Σ_p L_p,  L_p = in-batch loss of the encodings x^p against the responses

    For multi-context ConveRT these are h_x, h_z and the combined encoding: a context without history counts in the
    losses of the other two alone. With one encoding it is that one's loss.

    Args:
        ranking: the loss of one encoding.
    """

    def __init__(self, ranking: InBatchLoss) -> None:
        super().__init__()
        self.ranking = ranking

    def forward(
        self,
        encodings: Encodings,
        scale: float,
        equal: Tensor | None = None,
        present: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> Loss:
        """The sum, the accuracy of "context", and loss and accuracy of each encoding where there are several.

        Args:
            encodings: K pairs.
            scale: c, the same for all.
            equal: see `InBatchLoss.forward`.
            present: of encodings that not every context has, which have it, bool (K,).
        """
        losses = {
            name: self.ranking(contexts, encodings["response"], scale, equal, present.get(name))
            for name, contexts in encodings.items()
            if name != "response"
        }
        if len(losses) == 1:
            return losses["context"]
        figures = {f"loss_{name}": loss.value.detach() for name, loss in losses.items()}
        figures |= {f"accuracy_{name}": loss.accuracy for name, loss in losses.items()}
        value = torch.stack([loss.value for loss in losses.values()]).sum()
        return Loss(value, losses["context"].accuracy, figures)


def _mean(values: Tensor, present: Tensor | None) -> Tensor:
    """Mean over the rows that count; 0 if none does."""
    if present is None:
        return values.mean()
    return (values * present).sum() / present.sum().clamp(min=1)


@torch.no_grad()
def _hits(scores: Tensor) -> Tensor:
    """Of each row 1 if nothing but the entry on the diagonal is as high as it, else 0."""
    return ((scores >= scores.diagonal()[:, None]).sum(dim=1) == 1).float()
