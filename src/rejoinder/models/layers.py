"""The parts of ConveRT's trunk (CONVERT, section 3): embedding, transformer block, two-headed reduction.

Shapes: T tokens of a batch (see `packing`), d the embedding size, n the texts of a segment, L their length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.models.packing import Segment, TokenBatch

GATE = 1.702
"""ConveRT's activation is x * sigmoid(1.702 x), the fast form of GELU."""

MASKED = -3e4
"""Score of a pair that must not attend: e^-30000 is 0 in every precision. Finite also in half precision, so that a
padded query with no key in reach gives no NaN."""


class Dropout(nn.Dropout):
    """Dropout whose mask costs a quarter of PyTorch's on a CPU, where that one draws each number by itself.

    Here each random number of 64 bits decides about four values, by 16 bits each: the share is kept to 1 in 65,536.
    """

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape -> the same shape."""
        if not self.training or self.p == 0.0 or x.device.type != "cpu":
            return super().forward(x)
        dropped = round(self.p * 2**16)
        drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        keep = drawn.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - 2**15
        return x * keep.to(x.dtype).mul_(1 / (1 - dropped / 2**16))


class TokenEmbedding(nn.Module):
    """Subword embedding plus two learned position tables, then layer norm (CONVERT 3.1).

    Position i has the sum of row i mod 47 of one table and row i mod 11 of the other, so that 58 rows tell 517
    positions apart.

    Args:
        rows: rows of the subword table: vocabulary, buckets for unknown characters, padding.
        size: d.
        positions: rows of the two position tables.
        initialisation: "paper": subwords and positions uniform in ±0.01, subwords times sqrt(d) at look-up;
            "unit": subwords of unit variance as they are, positions a tenth of that.
        dropout: share of the normalised values set to zero in training.
        norm: whether there is a layer norm.
    """

    def __init__(
        self,
        rows: int,
        size: int,
        positions: Sequence[int],
        initialisation: str,
        dropout: float = 0.0,
        *,
        norm: bool = True,
    ) -> None:
        super().__init__()
        self.subwords = nn.Embedding(rows, size)
        self.positions = nn.ModuleList(nn.Embedding(count, size) for count in positions)
        self.norm = nn.LayerNorm(size) if norm else nn.Identity()
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(size) if initialisation == "paper" else 1.0
        self.fixed_positions: Tensor | None = None  # `inference` computes them once
        for table in (self.subwords, *self.positions):
            if initialisation == "paper":
                nn.init.uniform_(table.weight, -0.01, 0.01)
            else:
                nn.init.normal_(table.weight, std=1.0 if table is self.subwords else 0.1)

    def forward(self, batch: TokenBatch) -> Tensor:
        """Embed all tokens: (T, d)."""
        x = self.subwords(batch.ids)
        if self.scale != 1.0:
            x = x * self.scale
        return self.dropout(self.norm(x + self._position_rows(batch)))

    def _position_rows(self, batch: TokenBatch) -> Tensor:
        """Sum of the position tables for each token: one small table, then one look-up."""
        table = self.fixed_positions
        if table is None or batch.longest > len(table):
            table = self.position_table(batch.longest)
        return F.embedding(batch.positions, table)

    def position_table(self, length: int) -> Tensor:
        """What is added at each place of a text: (length, d)."""
        tables = cast("list[nn.Embedding]", list(self.positions))
        place = torch.arange(length, device=tables[0].weight.device)
        return torch.stack([table(place % table.num_embeddings) for table in tables]).sum(dim=0)


class SelfAttention(nn.Module):
    """Self-attention within reach, with a learned bias by relative position (CONVERT 3.1).

    Scores are q·k / sqrt(64) plus the bias of the relative position j - i; pairs further apart than `span` are
    masked before the softmax, which leaves a softmax over the pairs within reach. Keys that are padding are masked.

    Projections of queries, keys and values have no bias: a key's bias adds the same to all scores of a query,
    which the softmax takes away again, so it would never learn anything.

    Args:
        size: d.
        heads: number of heads (paper: 1; ablation: 8).
        head_size: size of a head's queries, keys and values (64).
        span: largest relative position that may attend.
        relative_bias: whether to learn the bias.
        dropout: share of the output set to zero in training.
    """

    def __init__(
        self, size: int, heads: int, head_size: int, span: int, *, relative_bias: bool, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.heads, self.head_size, self.span = heads, head_size, span
        self.qkv = nn.Linear(size, 3 * heads * head_size, bias=False)
        self.output = nn.Linear(heads * head_size, size)
        self.bias = nn.Parameter(torch.zeros(heads, 2 * span + 1)) if relative_bias else None
        self.fixed_score_bias: Tensor | None = None  # `inference` computes it once
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """x (T, d) -> (T, d)."""
        qkv = self.qkv(x)
        bias = self.fixed_score_bias
        if bias is None or batch.longest > bias.shape[1]:
            bias = self.score_bias(batch.longest, qkv)
        parts = [self._attend(part, segment, bias) for part, segment in batch.parts(qkv)]
        return self.dropout(self.output(parts[0] if len(parts) == 1 else torch.cat(parts)))

    def score_bias(self, length: int, like: Tensor) -> Tensor:
        """What is added to the scores of each pair (i, j): (heads, length, length)."""
        place = torch.arange(length, device=like.device)
        distance = place[None, :] - place[:, None]
        reach = distance.clamp(-self.span, self.span)
        far = distance != reach
        if self.bias is None:
            return torch.zeros(1, length, length, device=like.device, dtype=like.dtype).masked_fill(far, MASKED)
        return self.bias[:, reach + self.span].to(like.dtype).masked_fill(far, MASKED)

    def _attend(self, part: Tensor, segment: Segment, bias: Tensor) -> Tensor:
        """Attention inside the texts of a segment: (count * length, heads * head_size)."""
        n, length, heads = segment.count, segment.length, self.heads
        q, k, v = split_heads(part, n, length, 3, heads)
        added = bias[:, :length, :length]
        if n > 1:
            added = added.expand(n, -1, length, length).reshape(n * heads, length, length)
        scores = torch.baddbmm(added, q, k.transpose(1, 2), alpha=1.0 / math.sqrt(self.head_size))
        if segment.real is not None:
            unreal = ~segment.real[:, None, :].expand(n, heads, length).reshape(n * heads, 1, length)
            scores = scores.masked_fill(unreal, MASKED)
        attended = torch.bmm(torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype), v)
        return attended.view(n, heads, length, -1).transpose(1, 2).reshape(n * length, -1)


class GatedLinear(nn.Linear):
    """A linear layer and 1.702 times ConveRT's activation of what it gives: silu(1.702 (W x + b)).

    x·sigmoid(1.702x) = silu(1.702x) / 1.702. The first factor is moved into the weights, where it costs a thousandth
    of what it would on the activations; the second is left to the caller, who can often do the same with it.
    """

    def forward(self, x: Tensor) -> Tensor:
        """x (n, in) -> (n, out)."""
        return F.silu(F.linear(x, self.weight * GATE, None if self.bias is None else self.bias * GATE))


class FeedForward(nn.Module):
    """Linear, x * sigmoid(1.702 x), linear (CONVERT 3.1), token by token."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.expand = GatedLinear(size, hidden)
        self.contract = nn.Linear(hidden, size)

    def forward(self, x: Tensor) -> Tensor:
        """x (T, d) -> (T, d)."""
        return F.linear(self.expand(x), self.contract.weight / GATE, self.contract.bias)


class Block(nn.Module):
    """A transformer block: attention and feed-forward, each with a residual connection and layer norm.

    Args:
        attention: the attention.
        feed_forward: the feed-forward part.
        size: d.
        norm_first: normalise what enters each part (True), or the sum that leaves it, as the paper does (False).
        zero_residual: start both residual branches at zero, so that a new block changes nothing.
    """

    def __init__(
        self,
        attention: SelfAttention,
        feed_forward: FeedForward,
        size: int,
        *,
        norm_first: bool,
        zero_residual: bool,
    ) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.norm_first = norm_first
        for layer in (attention.output, feed_forward.contract):
            if zero_residual:
                nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """x (T, d) -> (T, d)."""
        if self.norm_first:
            x = x + self.attention(self.attention_norm(x), batch)
            return x + self.feed_forward(self.feed_forward_norm(x))
        x = self.attention_norm(x + self.attention(x, batch))
        return self.feed_forward_norm(x + self.feed_forward(x))


class Reduction(nn.Module):
    """From the token vectors of a text to one vector r (CONVERT 3.1), a head at a time.

    r_head = n^(-1/2) Σ_i Σ_j a_ij x_j: attention from every token i to every token j, summed over the queries i,
    divided by the root of the number of tokens, applied to the token vectors themselves. As in the original code
    there is no value or output projection and no 1/sqrt(64) inside the softmax.

    Args:
        size: d.
        heads: 2 in the paper, 1 in its ablation; r has heads · d numbers.
        head_size: size of a head's queries and keys (64).
    """

    def __init__(self, size: int, heads: int, head_size: int) -> None:
        super().__init__()
        self.heads, self.head_size = heads, head_size
        self.query_key = nn.Linear(size, 2 * heads * head_size, bias=False)
        nn.init.normal_(self.query_key.weight, std=0.1 / math.sqrt(size))  # nearly even weights at the start

    def forward(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """x (T, d) -> r (n, heads · d), the texts in the batch's own order."""
        query_key = self.query_key(x)
        parts = [
            self._reduce(tokens, part, segment)
            for (tokens, segment), (part, _) in zip(batch.parts(x), batch.parts(query_key), strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _reduce(self, tokens: Tensor, part: Tensor, segment: Segment) -> Tensor:
        n, length, heads = segment.count, segment.length, self.heads
        q, k = split_heads(part, n, length, 2, heads)
        scores = torch.bmm(q, k.transpose(1, 2)).view(n, heads, length, length)
        if segment.real is None:  # the length may be a tensor here, while `single` records
            weights = torch.softmax(scores, dim=-1, dtype=torch.float32).sum(dim=2) / length**0.5
        else:
            attention = torch.softmax(
                scores.masked_fill(~segment.real[:, None, None, :], MASKED), dim=-1, dtype=torch.float32
            )
            real = segment.real[:, None, :, None].to(attention.dtype)  # rows of padded queries count as zero
            weights = (attention * real).sum(dim=2) / real.sum(dim=2).clamp(min=1).sqrt()
        return torch.bmm(weights.to(tokens.dtype), tokens.view(n, length, tokens.shape[1])).view(n, -1)


def split_heads(x: Tensor, texts: int, length: int, kinds: int, heads: int) -> tuple[Tensor, ...]:
    """Cut projections (texts * length, kinds * heads * size) into `kinds` of (texts * heads, length, size).

    With one head these are views, which matrix products read as they are.
    """
    x = x.view(texts, length, kinds, heads, x.shape[-1] // (kinds * heads))  # no -1: there may be no tokens
    if heads == 1:
        return x.squeeze(3).unbind(2)
    return x.permute(2, 0, 3, 1, 4).reshape(kinds, texts * heads, length, -1).unbind()


def norm_parameters(module: nn.Module) -> Iterator[nn.Parameter]:
    """Weights and biases of every layer norm inside `module`."""
    for child in module.modules():
        if isinstance(child, nn.LayerNorm):
            yield from child.parameters()
