"""Losses, one class each: its formula, its source, what it expects.

And the factor of the scores that they take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from rejoinder.networks.layers import TRAINING_PREFIX, Encodings, attended_scores
from rejoinder.training.recipe.settings import Scale

MASKED = float("-inf")


@dataclass(frozen=True, slots=True)
class ContextMask:
    """Contexts of a batch with an encoding that not all have."""

    rows: Tensor  # of the contexts at hand, all K or those of one process, which have it, bool (k,)
    count: Tensor  # how many of all K have it, float32 ()


ALL_PRESENT: Mapping[str, ContextMask] = MappingProxyType({})  # every context has every encoding


class Loss(NamedTuple):
    """Result of a loss.

    Of several processes each gets a share, and the shares sum to the batch's loss.
    """

    value: Tensor
    accuracy: Tensor  # share of contexts whose own response scored best
    figures: Mapping[str, Tensor] = MappingProxyType({})  # other figures for the log


class InBatchLoss(nn.Module):
    """Softmax over the batch's responses for each context, with the paper's label smoothing.

    For K pairs with encodings x_i, y_j of unit length, M additional negatives y_K ... y_(K+M-1) of
    all contexts (hard negatives; mostly M = 0), and the scale c:

        S_ij = c · x_i·y_j
        log p_ij = S_ij - log Σ_j' exp S_ij'   (over the responses j', the true one i included)
        L = -1/K Σ_i [ (1 - e) log p_ii + e/n_i Σ_{j≠i} log p_ij ]

    The true response gets 1 - e and the n_i = K + M - 1 others share e evenly (CONVERT, section 3;
    PyTorch's own label smoothing gives the true response a part of e too). Responses that equal the
    true one are masked: they are in neither sum, n_i counts the others, and where none is left e is
    0.

    Sums over all j use Σ_j S_ij = c · x_i·Σ_j y_j, so that no second pass over the K x K scores is
    needed.
    """

    def __init__(self, smoothing: float) -> None:
        super().__init__()
        self.smoothing = smoothing

    def forward(
        self,
        x: Tensor,
        y: Tensor,
        scale: float | Tensor,
        equal: Tensor | None = None,
        first: int = 0,
        pairs: int | None = None,
        present: ContextMask | None = None,
    ) -> Loss:
        """Return loss and in-batch accuracy, at least in float32.

        They are these contexts' sums, divided by K. `x` (k, d) are all K contexts of the batch, or
        those of one process, from number `first` on; or (k, m, d), of m vectors each, and S_ij is c
        times `layers`'s score. Row first + i of the responses `y` (K + M, d) belongs to
        context i. `equal` int64 (2, m) lists contexts i and responses j != first + i that equal
        their own; it may repeat its last pair. `pairs` is K (None: M = 0); of contexts that are not
        `present` only the responses count, as negatives.
        """
        if x.dim() == 2:
            masks = ALL_PRESENT if present is None else {"x": present}
            return self.each({"x": x}, y, scale, equal, first, pairs, masks)["x"]
        with torch.autocast(x.device.type, enabled=False):
            scores = attended_scores(_at_least_float32(x), _at_least_float32(y)) * scale
            losses, hits = list_losses(scores, first, self.smoothing, equal)
            return _mean(losses, hits, len(y) if pairs is None else pairs, present)

    def each(
        self,
        contexts: Mapping[str, Tensor],
        y: Tensor,
        scale: float | Tensor,
        equal: Tensor | None,
        first: int,
        pairs: int | None,
        present: Mapping[str, ContextMask],
    ) -> dict[str, Loss]:
        """Return what `forward` does of several encodings (k, d) of the contexts, by their names.

        They are computed together: a card launches as much for all as for one.
        """
        with torch.autocast(y.device.type, enabled=False):
            x = _at_least_float32(torch.stack([*contexts.values()]))
            y = _at_least_float32(y)
            losses, hits = _product_losses(x * scale, y, first, self.smoothing, equal)
            return {
                name: _mean(own, own_hits, len(y) if pairs is None else pairs, present.get(name))
                for name, own, own_hits in zip(contexts, losses, hits, strict=True)
            }


def _at_least_float32(side: Tensor) -> Tensor:
    return side if side.dtype == torch.float64 else side.float()


def _product_losses(
    x: Tensor, y: Tensor, first: int, smoothing: float, equal: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return what `list_losses` does of S = x · y, (p, k), of p encodings x (p, k, d)."""
    encodings, count, _ = x.shape
    flat = x.flatten(0, 1)
    scores = flat @ y.T
    negatives = x.new_full((len(flat),), len(y) - 1)
    true = (x * y[first : first + count]).sum(dim=2).flatten()
    others = flat @ y.sum(dim=0) - true  # Σ_{j≠i} S_ij
    if equal is not None and equal.shape[1]:
        once = _first_of_each(equal).repeat(encodings)
        rows, columns = _of_each(equal, encodings, count)
        masked = (flat[rows] * y[columns]).sum(dim=1) * once
        others = others.index_add(0, rows, -masked)
        negatives = negatives.index_add(0, rows, -once.to(masked.dtype))
        scores = scores.index_put((rows, columns), torch.full_like(masked, MASKED))
    losses = _smoothed(scores, true, others, negatives, smoothing)
    own = scores.view(encodings, count, -1).diagonal(first, 1, 2).flatten()
    return losses.view(encodings, count), _hits(scores, own).view(encodings, count)


def _of_each(equal: Tensor, encodings: int, count: int) -> Tensor:
    """Return pairs of contexts and responses (2, m) for all encodings of `count` contexts."""
    starts = torch.arange(0, encodings * count, count, device=equal.device)
    rows = (starts[:, None] + equal[0]).flatten()
    return torch.stack([rows, equal[1].repeat(encodings)])


def _first_of_each(pairs: Tensor) -> Tensor:
    """Return which of the pairs (2, m), m at least 1, differ from the one before, bool (m,).

    A card gets the last one several times, so that few numbers of pairs occur.
    """
    differs = (pairs[:, 1:] != pairs[:, :-1]).any(dim=0)
    return torch.cat([differs.new_ones(1), differs])


def list_losses(
    scores: Tensor, first: int | None, smoothing: float, equal: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the loss of each row of scores S (k, C), and whether its right candidate scored best.

    See `InBatchLoss`. The right candidate of row i is number first + i, or number 0 in every row.
    Candidates (i, j) of `equal` (2, m) are not negatives.
    """
    labels = torch.zeros(len(scores), dtype=torch.int64, device=scores.device)
    if first is not None:
        labels = torch.arange(first, first + len(scores), device=scores.device)
    counted = torch.ones_like(scores, dtype=torch.bool)
    if equal is not None and equal.shape[1]:
        # not by assignment, which copies the value from the CPU: no graph can record that
        rows, columns = equal
        counted = counted.index_put((rows, columns), torch.zeros_like(rows, dtype=torch.bool))
    true = scores.gather(1, labels[:, None])[:, 0]
    others = scores.masked_fill(~counted, 0.0).sum(dim=1) - true
    scores = scores.masked_fill(~counted, MASKED)
    return _smoothed(scores, true, others, counted.sum(dim=1) - 1, smoothing), _hits(scores, true)


def _smoothed(
    scores: Tensor, true: Tensor, others: Tensor, negatives: Tensor, smoothing: float
) -> Tensor:
    """Return each row's loss, and the sum and the number of its negatives' scores.

    Its right score is given.
    """
    share = smoothing * (negatives > 0).to(scores.dtype)
    return scores.logsumexp(dim=1) - ((1 - share) * true + share / negatives.clamp(min=1) * others)


def _hits(scores: Tensor, true: Tensor) -> Tensor:
    return ((scores.detach() >= true.detach()[:, None]).sum(dim=1) == 1).float()


def _mean(losses: Tensor, hits: Tensor, pairs: int, present: ContextMask | None = None) -> Loss:
    if present is None:
        return Loss(losses.sum() / pairs, hits.sum() / pairs)
    rows = present.rows.to(losses.device)
    count = present.count.to(losses.device).clamp(min=1)
    return Loss((losses * rows).sum() / count, (hits * rows).sum() / count)


class SummedLoss(nn.Module):
    """Sum of one ranking loss for each encoding of the contexts (CONVERT, section 3).

    Multi-context models have several.

        L = Σ_p L_p,  L_p = in-batch loss of the encodings x^p against the responses

    For multi-context ConveRT: h_x, h_z and the combined one; a context without history has no part
    in h_z's loss.
    """

    def __init__(self, ranking: InBatchLoss) -> None:
        super().__init__()
        self.ranking = ranking

    def forward(
        self,
        encodings: Encodings,
        scale: float | Tensor,
        equal: Tensor | None = None,
        first: int = 0,
        pairs: int | None = None,
        present: Mapping[str, ContextMask] = ALL_PRESENT,
    ) -> Loss:
        """Return the sum, the accuracy of "context", and each encoding's loss and accuracy.

        The latter where there are several. `encodings` are those of the contexts and of all K + M
        responses; or "scores" (k, C) of each context's own candidates, the right one first.
        `present` names the encodings that not all contexts have.
        """
        if "scores" in encodings:
            with torch.autocast(encodings["scores"].device.type, enabled=False):
                scores = encodings["scores"].float() * scale
                rows, hits = list_losses(scores, None, self.ranking.smoothing, equal)
            return _mean(rows, hits, len(scores) if pairs is None else pairs)
        contexts = {name: x for name, x in encodings.items() if name != "response"}
        y = encodings["response"]
        if len(contexts) == 1:
            [x] = contexts.values()
            return cast(
                "Loss", self.ranking(x, y, scale, equal, first, pairs, present.get("context"))
            )
        losses = self.ranking.each(contexts, y, scale, equal, first, pairs, present)
        figures = {f"loss_{name}": loss.value.detach() for name, loss in losses.items()}
        figures |= {f"accuracy_{name}": loss.accuracy for name, loss in losses.items()}
        value = torch.stack([loss.value for loss in losses.values()]).sum()
        return Loss(value, losses["context"].accuracy, figures)


def annealed_scale(scale: Scale, output_size: int, step: int, share: float) -> float:
    """Return the factor c of c · cos at a step, given the used share of the budget.

    See CONVERT, section 3.
    """
    last = _last_scale(scale, output_size)
    if scale.steps is not None:
        annealed = 1.0 if step >= scale.steps else step / scale.steps
    else:
        assert scale.share is not None  # the recipe has exactly one
        annealed = 1.0 if share >= scale.share else share / scale.share
    return scale.first + (last - scale.first) * annealed


def _last_scale(scale: Scale, output_size: int) -> float:
    return math.sqrt(output_size) if scale.last == "sqrt(d)" else float(scale.last)


class LearnedScale(nn.Module):
    """A learned factor of the cosine (ACL19, section 3: S = C · cos), between 0 and `last`."""

    def __init__(self, first: float, last: float) -> None:
        super().__init__()
        self.last = last
        self.value = nn.Parameter(torch.tensor(min(first, last)))

    @torch.no_grad()
    def clamp(self) -> None:
        """Keep the scale in its range, after every update."""
        self.value.clamp_(0.0, self.last)


def attach_scale(module: Any, scale: Scale, before: float | None = None) -> LearnedScale | None:
    """Give a network its learned scale, from another run's (`before`) or `first` on."""
    if not scale.learned:
        return None
    learned = LearnedScale(
        scale.first if before is None else before, _last_scale(scale, module.output_size)
    )
    # checkpoints hold it as a weight, model folders in config.json
    setattr(module, f"{TRAINING_PREFIX}scale", learned)
    return learned
