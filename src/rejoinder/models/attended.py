"""The score of a response for a context that has m vectors (POLY, section 4.4).

The response y attends over the context's vectors c_1 ... c_m by plain dot products, and its score is its dot product
with what it attended to:

    l_i = y · c_i,   score = y · Σ_i softmax(l)_i c_i = Σ_i softmax(l)_i l_i

so the attended vector never has to be built. A score is at most max_i l_i and at least min_i l_i. Rows of a context
that are zero are no vectors (see `reductions`): they are left out of the softmax, which is in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

AT_ONCE = 1 << 24
"""Numbers l that are in memory together where no gradient is needed: 64 MB."""


def attended_scores(contexts: Tensor, responses: Tensor) -> Tensor:
    """Scores of responses for contexts, float32.

    Args:
        contexts: (k, m, d), rows of zeros where a context has fewer vectors.
        responses: (j, d) that every context is scored with, or (k, j, d), each context's own.

    Returns:
        (k, j).
    """
    m, j = contexts.shape[1], responses.shape[-2]
    if torch.is_grad_enabled() or len(contexts) * m * j <= AT_ONCE:
        return _scores(contexts, responses)
    size = max(1, AT_ONCE // (m * j))
    own = responses.dim() == 3
    parts = [
        _scores(contexts[i : i + size], responses[i : i + size] if own else responses)
        for i in range(0, len(contexts), size)
    ]
    return torch.cat(parts)


def _scores(contexts: Tensor, responses: Tensor) -> Tensor:
    products = torch.matmul(contexts, responses.transpose(-1, -2)).float()  # (k, m, j)
    missing = (contexts == 0).all(dim=-1)
    lowest = torch.finfo(products.dtype).min
    weights = torch.softmax(products.masked_fill(missing[:, :, None], lowest), dim=1)
    return (weights * products).sum(dim=1)


def scores_of(contexts: Tensor, responses: Tensor) -> Tensor:
    """Scores whatever the encoder: dot products of (k, d) with (j, d), or `attended_scores` of (k, m, d)."""
    return attended_scores(contexts, responses) if contexts.dim() == 3 else contexts @ responses.T


def own_scores(contexts: Tensor, responses: Tensor) -> Tensor:
    """Scores of each context (k, d) or (k, m, d) for candidates of its own (k, j, d): (k, j)."""
    if contexts.dim() == 3:
        return attended_scores(contexts, responses)
    return torch.bmm(responses, contexts[:, :, None])[:, :, 0]
