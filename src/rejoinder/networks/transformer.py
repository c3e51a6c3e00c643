"""BERT's transformer (Devlin et al. 2019) on packed tokens: token ids to vectors.

Shapes: T tokens of a batch (see `networks`), d the hidden size, n the texts of a segment, L their
length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.networks import layers
from rejoinder.networks.attention import (
    attend,
    attend_packed,
    padding_scores,
    reads_packed,
    segment_mask,
    without_plans,
)
from rejoinder.networks.layers import (
    Dropout,
    DropoutShare,
    check,
    norm_parameters,
    switch_blocks,
)
from rejoinder.networks.packing import Segment, TokenBatch
from rejoinder.networks.products import compute_dtype
from rejoinder.networks.rectangles import in_order, join_parts, segment_parts
from rejoinder.settings import Count, Natural
from rejoinder.text.dialogue import Dialogue
from rejoinder.text.history import HistoryText
from rejoinder.text.pretrained import Pretrained

MAX_DISTANCE = 128  # distances of this many tokens or more share a bucket


@dataclass(frozen=True)
class TransformerShape:
    """Every structural choice of the transformer.

    The defaults are BERT-base's (POLY, section 4.1).
    """

    hidden_size: Count = 768  # d: size of the embeddings and of everything between the blocks
    blocks: Count = 12  # number of blocks
    heads: Count = 12  # attention heads of a block; each has hidden_size / heads numbers
    feed_forward_size: Count = 3072  # hidden size of a block's feed-forward part
    positions: Count = 512  # rows of the position table: tokens of the longest text
    segments: Natural = 2  # rows of the segment table; 0: no such table (DistilBERT, MPNet)
    relative_buckets: Natural = 0
    """Rows of the table of relative positions, which all blocks share (MPNet: 32); 0: none."""
    activation: Literal["gelu", "relu"] = "gelu"
    """Activation of the feed-forward part; gelu is the exact one."""
    norm_epsilon: PositiveFloat = 1e-12  # added to the variance in layer norms
    dropout: DropoutShare = 0.1
    """After the embeddings, after attention and feed-forward part, and on attention weights."""
    output_scale: PositiveFloat = 1.0
    """Of the token vectors: own weights shall deviate as BERT's (POLY's code: 0.06)."""

    def __post_init__(self) -> None:
        check(
            self.hidden_size % self.heads == 0,
            "heads",
            self.heads,
            f"a divisor of hidden_size {self.hidden_size}",
        )
        check(
            self.relative_buckets % 4 == 0 and self.relative_buckets < 4 * MAX_DISTANCE,
            "relative_buckets",
            self.relative_buckets,
            f"a multiple of 4 below {4 * MAX_DISTANCE}, or 0",
        )
        check(
            not (self.relative_buckets and self.segments),
            "segments",
            self.segments,
            "0 with relative_buckets",
        )


@dataclass(frozen=True)
class DialogueShape(TransformerShape):
    """A transformer that reads a conversation as one text."""

    context_length: int = 360
    """Newest tokens of a context that are read (a response: text.max_length, POLY: 72)."""

    history_text = None  # earlier messages are part of the context

    def __post_init__(self) -> None:
        super().__post_init__()
        most = self.positions
        check(
            8 <= self.context_length <= most,
            "context_length",
            self.context_length,
            f"8 to {most}, the positions",
        )

    def dialogue(self, tokenizer: Pretrained, max_length: int) -> Dialogue:
        """Return how conversations and responses are read."""
        check(
            3 <= max_length <= self.positions,
            "text.max_length",
            max_length,
            f"3 to {self.positions}, the positions",
        )
        start = tokenizer.start_id
        end = tokenizer.end_id
        turn = tokenizer.turn_id
        return Dialogue(tokenizer, self.context_length, max_length, (start,), (end,), (turn,))


class GeluLinear(nn.Linear):
    """A linear layer and the activation of what it gives; `inference` computes both in one pass."""

    def __init__(self, in_features: int, out_features: int, activation: str) -> None:
        super().__init__(in_features, out_features)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """x (n, in) -> (n, out)."""
        y = super().forward(x)
        return F.gelu(y) if self.activation == "gelu" else F.relu(y)


class Embeddings(nn.Module):
    """Token, place and segment, summed and normalised."""

    def __init__(self, shape: TransformerShape, rows: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(rows, shape.hidden_size)
        self.positions = nn.Embedding(shape.positions, shape.hidden_size)
        self.segments = nn.Embedding(shape.segments, shape.hidden_size) if shape.segments else None
        self.norm = nn.LayerNorm(shape.hidden_size, shape.norm_epsilon)
        self.dropout = Dropout(shape.dropout)

    def forward(self, batch: TokenBatch) -> Tensor:
        """Embed all tokens: (T, d)."""
        x = self.tokens(batch.ids) + self.positions(batch.positions)
        if self.segments is not None:
            types = torch.zeros_like(batch.ids) if batch.types is None else batch.types
            x = x + self.segments(types)
        return self.dropout(self.norm(x))


class Attention(nn.Module):
    """Multi-headed attention inside each text; padding keys are masked."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.hidden_size, 3 * shape.hidden_size)
        self.output = nn.Linear(shape.hidden_size, shape.hidden_size)
        # its share is handed to the attention's own dropout
        self.weights_dropout = nn.Dropout(shape.dropout)
        self.dropout = Dropout(shape.dropout)

    def forward(
        self, x: Tensor, batch: TokenBatch, first: bool = False, bias: Tensor | None = None
    ) -> Tensor:
        """Transform x (T, d), or what each text's `first` token attends to, (n, d).

        The order is the batch's packed one. `bias` is added to scores (see `segment_mask`); a
        batch of one rectangle without any is read as it is packed.
        """
        qkv = self.qkv(x)
        if batch.padding is not None and bias is None:
            heads = qkv.unflatten(1, (3, self.heads, -1))
            attended = attend_packed(heads, batch, first, self._weights_share()).flatten(1)
            return self.dropout(self.output(attended))
        parts = [
            self._attend(part, segment, first, bias) for part, segment in segment_parts(batch, qkv)
        ]
        attended = torch.cat(parts) if first else join_parts(batch, parts)
        return self.dropout(self.output(attended))

    def _weights_share(self) -> float:
        return getattr(self.weights_dropout, "p", 0.0) if self.training else 0.0

    def _attend(self, part: Tensor, segment: Segment, first: bool, bias: Tensor | None) -> Tensor:
        n = segment.count
        length = segment.length
        q, k, v = part.view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind()
        q = q[:, :, :1] if first else q
        mask = segment_mask(segment, bias, q.shape[2])
        attended = attend(q, k, v, mask, self._weights_share())
        return attended.transpose(1, 2).reshape(n * q.shape[2], -1)


class Block(nn.Module):
    """Attention and feed-forward part, each with a residual connection and layer norm after it."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        d = shape.hidden_size
        epsilon = shape.norm_epsilon
        self.attention = Attention(shape)
        self.attention_norm = nn.LayerNorm(d, epsilon)
        self.expand = GeluLinear(d, shape.feed_forward_size, shape.activation)
        self.contract = nn.Linear(shape.feed_forward_size, d)
        self.feed_forward_norm = nn.LayerNorm(d, epsilon)
        self.dropout = Dropout(shape.dropout)

    def forward(
        self, x: Tensor, batch: TokenBatch, first: bool = False, bias: Tensor | None = None
    ) -> Tensor:
        """x (T, d) -> (T, d), or each text's `first` token alone, (n, d) in the caller's order."""
        attended = self.attention(x, batch, first, bias)
        if first:
            x = layers.first(x, batch)
            attended = in_order(batch, attended)
        x = self.attention_norm(x + attended)
        return self.feed_forward_norm(x + self.dropout(self.contract(self.expand(x))))


class RelativePositions(nn.Module):
    """Bias of attention by the distance of two tokens, as in MPNet and T5 (Raffel et al. 2020).

    Half of the buckets are for later tokens. Of each half, half are for single distances, the
    others for ranges that widen with the distance, up to 128.
    """

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.table = nn.Embedding(shape.relative_buckets, shape.heads)

    def forward(self, length: int) -> Tensor:
        """Return the bias of texts of at most `length` tokens, (heads, length, length)."""
        position = torch.arange(length, device=self.table.weight.device)
        distance = position[None, :] - position[:, None]
        half = self.table.num_embeddings // 2
        single = half // 2
        far = distance.abs()
        share = torch.log(far.clamp(min=1) / single) / math.log(MAX_DISTANCE / single)
        wide = (single + (share * (half - single)).long()).clamp(max=half - 1)
        bucket = torch.where(far < single, far, wide) + (distance > 0) * half
        bias: Tensor = self.table(bucket).permute(2, 0, 1)
        return bias.contiguous()


class Transformer(nn.Module):
    """Token ids to token vectors."""

    def __init__(self, shape: TransformerShape, rows: int) -> None:
        super().__init__()
        self.embeddings = Embeddings(shape, rows)
        self.relative = RelativePositions(shape) if shape.relative_buckets else None
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.blocks))
        self.active_blocks = shape.blocks
        self.head_size = shape.hidden_size // shape.heads
        self.output_scale = shape.output_scale
        self.apply(_initialise)

    def forward(self, batch: TokenBatch) -> Tensor:
        """Return the vectors of all tokens, (T, d), in the batch's packed order."""
        x = self.embeddings(batch)
        bias = self._bias(batch, x)
        with without_plans(x.device):
            for block in self.blocks[: self.active_blocks]:
                x = block(x, batch, bias=bias)
        return self._scaled(x)

    def first(self, batch: TokenBatch) -> Tensor:
        """Return the vector of each text's first token, (n, d).

        The last block computes no other token.
        """
        x = self.embeddings(batch)
        blocks = self.blocks[: self.active_blocks]
        if not blocks:
            return self._scaled(layers.first(x, batch))
        bias = self._bias(batch, x)
        with without_plans(x.device):
            for block in blocks[:-1]:
                x = block(x, batch, bias=bias)
            return self._scaled(blocks[-1](x, batch, first=True, bias=bias))

    def _scaled(self, x: Tensor) -> Tensor:
        return x if self.output_scale == 1.0 else x * self.output_scale

    def _bias(self, batch: TokenBatch, x: Tensor) -> Tensor | None:
        if self.relative is None and reads_packed(batch, x, self.head_size):
            return None
        relative = None if self.relative is None else self.relative(batch.longest)
        padding = padding_scores(batch, compute_dtype(x))
        if relative is None or padding is None:
            return padding if relative is None else relative
        return relative.to(padding.dtype) + padding

    def table_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters below the blocks: embeddings and relative positions."""
        yield from self.embeddings.parameters()
        if self.relative is not None:
            yield from self.relative.parameters()

    def set_active_blocks(self, count: int) -> None:
        """Compute only the first `count` blocks; the others cost nothing and get no gradient."""
        self.active_blocks = switch_blocks(self.blocks, count)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


class TransformerModel(nn.Module):
    """Interface to training of a model made of one or two transformers, and heads on them.

    There are two for two sides.
    """

    padding_id = 0  # any id would do: padding has no part in anything
    history: HistoryText | None = None
    group: ClassVar[str] = "head"  # what recipes call the parameters that are not the transformers'

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    @property
    def transformers(self) -> list[Transformer]:
        """All transformers; pretrained weights go into each."""
        return [child for child in self.children() if isinstance(child, Transformer)]

    @property
    def embedding(self) -> nn.ModuleList:
        """The token tables."""
        return nn.ModuleList(transformer.embeddings.tokens for transformer in self.transformers)

    @property
    def blocks(self) -> nn.ModuleList:
        """The blocks of all transformers, by their depth."""
        layers = zip(*(transformer.blocks for transformer in self.transformers), strict=True)
        return nn.ModuleList(nn.ModuleList(layer) for layer in layers)

    @property
    def active_blocks(self) -> int:
        """Blocks that are computed."""
        return self.transformers[0].active_blocks

    def set_active_blocks(self, count: int) -> None:
        """Compute and train only the first `count` blocks."""
        for transformer in self.transformers:
            transformer.set_active_blocks(count)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Return all parameters, each once, by the part they belong to.

        Recipes give each part a rate of its own.
        """
        all_of_them = self.transformers
        theirs = {
            parameter for transformer in all_of_them for parameter in transformer.parameters()
        }
        return {
            "embedding": [p for transformer in all_of_them for p in transformer.table_parameters()],
            "blocks": [p for transformer in all_of_them for p in transformer.blocks.parameters()],
            self.group: [p for p in self.parameters() if p not in theirs],
        }

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Return what weight decay leaves out: layer norms and biases, as is usual for BERT."""
        biases = {parameter for name, parameter in self.named_parameters() if name.endswith("bias")}
        return set(norm_parameters(self)) | biases
