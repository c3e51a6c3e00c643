"""Reductions of token vectors to one vector or m, and scores (POLY, sections 4.2 and 4.4).

Reductions take token vectors x (T, d) of a packed batch and give rows in the caller's order,
without padding's part. A text with fewer than m tokens has fewer than m vectors: the missing rows
are zero.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rejoinder.networks.layers import MASKED, segment_parts
from rejoinder.networks.packing import TokenBatch

AT_ONCE = 1 << 24  # numbers l that are in memory together where no gradient is needed: 64 MB


def first(x: Tensor, batch: TokenBatch) -> Tensor:
    """Return the first token's vector of each text: (n, d)."""
    starts, _ = batch.places()
    return x[starts]


def mean(x: Tensor, batch: TokenBatch, *, with_first: bool = True) -> Tensor:
    """Return the mean over each text's tokens, (n, d).

    It has the first one (POLY's text) or not (its Table 7).
    """
    rows = []
    for part, segment in segment_parts(batch, x):
        tokens = part.view(segment.count, segment.length, -1)
        real = segment.real
        if not with_first and segment.length > 1:
            tokens = tokens[:, 1:]
            real = None if real is None else real[:, 1:]
        if real is None:
            rows.append(tokens.mean(dim=1))
            continue
        share = real.to(x.dtype)
        alone = share.sum(dim=1, keepdim=True) == 0  # nothing but the first token
        summed = torch.bmm(share[:, None], tokens)[:, 0] / share.sum(dim=1, keepdim=True).clamp(
            min=1
        )
        rows.append(torch.where(alone, part.view(segment.count, segment.length, -1)[:, 0], summed))
    return torch.cat(rows)[batch.restore]


def segment_means(x: Tensor, batch: TokenBatch) -> tuple[Tensor, Tensor]:
    """Return means over each text's tokens of segments 0 and 1, (n, d) both.

    They are zero where it has none.
    """
    types = torch.zeros_like(batch.ids) if batch.types is None else batch.types
    rows = []
    for (part, segment), (kinds, _) in zip(
        segment_parts(batch, x), segment_parts(batch, types), strict=True
    ):
        kind = kinds.view(segment.count, segment.length)
        real = torch.ones_like(kind, dtype=torch.bool) if segment.real is None else segment.real
        # (n, 2, L)
        shares = torch.stack([real & (kind == 0), real & (kind == 1)], dim=1).to(x.dtype)
        summed = torch.bmm(shares, part.view(segment.count, segment.length, -1))
        rows.append(summed / shares.sum(dim=2, keepdim=True).clamp(min=1))
    before, behind = torch.cat(rows)[batch.restore].unbind(dim=1)
    return before, behind


def first_m(x: Tensor, batch: TokenBatch, m: int) -> Tensor:
    """Return the vectors of the first m tokens of each text, (n, m, d).

    They are zero where a text has fewer.
    """
    starts, lengths = batch.places()
    return _take(x, starts, lengths, m)


def last_m(x: Tensor, batch: TokenBatch, m: int) -> Tensor:
    """Return the vectors of the last m tokens of each text, (n, m, d).

    They are zero where a text has fewer.
    """
    starts, lengths = batch.places()
    skipped = (lengths - m).clamp(min=0)
    return _take(x, starts + skipped, lengths - skipped, m)


def last_m_and_first(x: Tensor, batch: TokenBatch, m: int) -> Tensor:
    """Return those of the last m tokens and of the first: (n, m + 1, d).

    If that is among the last m it counts once.
    """
    starts, lengths = batch.places()
    apart = (lengths > m)[:, None]
    return torch.cat([last_m(x, batch, m), (x[starts] * apart)[:, None]], dim=1)


def mean_of_first_m(x: Tensor, batch: TokenBatch, m: int) -> Tensor:
    """Return the mean over the first m tokens of each text, (n, d).

    Where it has fewer, it is over all.
    """
    _, lengths = batch.places()
    return first_m(x, batch, m).sum(dim=1) / lengths.clamp(max=m)[:, None].to(x.dtype)


def _take(x: Tensor, starts: Tensor, lengths: Tensor, m: int) -> Tensor:
    """Return m rows from each start on, zero from each length on."""
    place = torch.arange(m, device=x.device)
    there = place < lengths[:, None]
    rows = (starts[:, None] + place).clamp(max=len(x) - 1)
    return x[rows] * there[:, :, None]


class Codes(nn.Module):
    """m learnt codes, each of which attends over all tokens of a text (POLY 4.4, "learnt").

    The attention is by plain dot products.
    """

    def __init__(self, m: int, size: int, highest: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(m, size).uniform_(0, highest))

    def forward(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """x (T, d) -> (n, m, d)."""
        rows = []
        codes = self.weight.to(x.dtype)
        for part, segment in segment_parts(batch, x):
            tokens = part.view(segment.count, segment.length, -1)
            scores = codes @ tokens.transpose(1, 2)  # (n, m, L)
            if segment.real is not None:
                scores = scores.masked_fill(~segment.real[:, None], MASKED)
            rows.append(
                torch.softmax(scores, dim=-1, dtype=torch.float32).to(tokens.dtype) @ tokens
            )
        return torch.cat(rows)[batch.restore]


def attended_scores(contexts: Tensor, responses: Tensor) -> Tensor:
    """Return the scores of responses for contexts, float32 (k, j) (POLY, section 4.4).

    Responses are (j, d) or (k, j, d), contexts (k, m, d). A response y attends over the context's
    vectors c_i by dot products l_i, and is multiplied with what it attended to:

        score = y · Σ_i softmax(l)_i c_i = Σ_i softmax(l)_i l_i

    so the attended vector never has to be built. Rows of a context that are zero are no vectors.
    """
    m = contexts.shape[1]
    j = responses.shape[-2]
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
    """Return the scores of any encoder.

    They are dot products of (k, d) with (j, d), or `attended_scores` of (k, m, d).
    """
    return attended_scores(contexts, responses) if contexts.dim() == 3 else contexts @ responses.T


def own_scores(contexts: Tensor, responses: Tensor) -> Tensor:
    """Return the scores of each context for candidates of its own, (k, j).

    Contexts are (k, d) or (k, m, d), candidates (k, j, d).
    """
    if contexts.dim() == 3:
        return attended_scores(contexts, responses)
    return torch.bmm(responses, contexts[:, :, None])[:, :, 0]
