"""The score of a poly-encoder out of dot products alone, and how far one of rounded dot products can be off.

A candidate y attends over the vectors c_i of a context (POLY, section 4.4) with l_i = y·c_i and p = softmax(l); the
score is y·(sum_i p_i c_i) = sum_i p_i l_i = f(l). So the attended vector is never built: one product with the m
vectors is all, half the work. Three facts about f serve the search:

- min_i l_i <= f(l) <= max_i l_i: it is a mean.
- If no l_i is off by more than e, f(l) is off by at most e·(1 + A), where A is the most that the mean deviation
  sum_i p_i |l_i - f| can be; for df/dl_i = p_i (1 + l_i - f).
- A is at most half the distance from the least to the greatest l_i, as for any distribution, and, since p follows from
  l, at most a(m) = log(m - 1)/2 + 0.4478. Proof: let S be the places where l_i < f, P their share of p, H(S) the
  entropy of p within S. From l_i = log p_i + f + H(p), the deviation is 2·sum_S p_i (f - l_i) = 2·P·(H(S) - log P -
  H(p)); H(p) is at least the entropy of the two shares plus P·H(S), and H(S) <= log(m - 1); what is left is
  2·P(1-P)·(log(m-1) + log((1-P)/P)), where 2·P(1-P) <= 1/2 and 2·P(1-P)·log((1-P)/P) <= 0.4478.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rejoinder.ranker import FloatArray

UNIT_ROUNDOFF = 2.0**-24


def attend(logits: Tensor) -> Tensor:
    """Scores (b,), float32, of b candidates from their products with the m vectors of a context, (b, m).

    The softmax is computed in float32 (POLY's code does so under mixed precision too).
    """
    return torch.softmax(logits, 1).mul_(logits).sum(1)


def steepness(count: int) -> float:
    """a(m): the largest mean deviation of m products from the score that they give."""
    return 0.0 if count < 2 else 0.5 * math.log(count - 1) + 0.4478


def attention_rounding(count: int, largest: float) -> float:
    """Bound on the error of `attend` for m float32 products none of which is above `largest` in size.

    A weight exp(l_i - max) has a relative error of at most (4 + |l_i - max|)·u, and x·exp(-x) <= 1/e,
    x²·exp(-x) <= 0.55 bound what that does to the sum; m + 8 operations round sums and quotient, of numbers up to
    `largest`.
    """
    return UNIT_ROUNDOFF * (count + 8) * (2 * largest + 3)


@dataclass(frozen=True, slots=True)
class Interval:
    """Scores (b,) and a bound (b,) on how far they can be from the true ones."""

    scores: FloatArray
    bounds: FloatArray


def interval(logits: Tensor, errors: Tensor, largest: float) -> Interval:
    """Scores from products that are known only nearly.

    Args:
        logits: (b, m) products.
        errors: (b,) how far the products of a candidate can be from the true ones.
        largest: bound on the size of a true product.
    """
    count = logits.shape[1]
    low, high = torch.aminmax(logits, dim=1)
    deviation = (0.5 * (high - low) + errors).clamp_(max=steepness(count))
    bounds = errors * (1 + deviation) * 1.0001 + attention_rounding(count, largest)
    return Interval(attend(logits).numpy(), bounds.numpy())


def true_poly_scores(context: FloatArray, rows: FloatArray) -> npt.NDArray[np.float64]:
    """The scores (b,) of rows (b, d) for the vectors of one context (m, d), in float64.

    Row by row in a fixed order, so that equal rows have the same score to the last bit, whatever stands beside them.
    """
    vectors = context.astype(np.float64)
    return np.array([_true_score(vectors, row) for row in rows.astype(np.float64)], dtype=np.float64)


def _true_score(vectors: npt.NDArray[np.float64], row: npt.NDArray[np.float64]) -> float:
    logits = np.einsum("md,d->m", vectors, row)  # einsum's own loops: BLAS may sum in another order another time
    below = logits - logits.max()
    weights = np.exp(below)
    return float(logits.max() + (weights * below).sum() / weights.sum())
