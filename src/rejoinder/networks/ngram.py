"""The n-gram dual encoder: words and pairs of words to the encodings of both sides.

Henderson et al. 2019b, section 3. Unigrams and bigrams are embedded, weighed by self-attention,
and summed; the mean of the two sums is r, which hidden layers of each side turn into h, of unit
length.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.networks.dual import SharedTrunk
from rejoinder.networks.layers import (
    Dropout,
    DropoutShare,
    Reduction,
    switch_blocks,
)
from rejoinder.networks.packing import Segment, TokenBatch
from rejoinder.networks.rectangles import in_order, segment_parts
from rejoinder.settings import Count, Natural

ACTIVATIONS = {"swish": nn.SiLU, "tanh": nn.Tanh}


@dataclass(frozen=True)
class NGramConfig:
    """Every structural choice of the n-gram dual encoder.

    The defaults are the paper's (ACL19, section 3).
    """

    kind: Literal["ngram"] = "ngram"
    embedding_size: Count = 320  # size of the embeddings of unigrams, bigrams and positions
    positions: Natural = 128
    """Rows of each of the two position tables; place i has row i mod this. Table 2: 0, none."""
    self_attention: bool = True
    """Weigh the embeddings by self-attention before they are summed. Table 2: false."""
    head_size: Count = 64  # size of its queries and keys
    bigrams: bool = True  # Whether bigrams are read, not unigrams alone. Table 2: false.
    hidden_layers: Natural = 3  # Hidden layers of each side. Table 2: 2.
    hidden_size: Count = 1024  # Their size. Table 2: 2048, 750, 512.
    activation: Literal["swish", "tanh"] = "swish"
    """Their activation; swish is x·sigmoid(x). Table 2: tanh."""
    output_size: Count = 512  # size of the final encodings h
    initial_embedding: PositiveFloat = 1.0
    """Deviation of the embeddings at the start; of the positions a tenth."""
    dropout: DropoutShare = 0.0  # dropout of the embeddings (TARGET-ONLY tunes it)
    skip_connections: bool = False
    """Put a skip connection around each hidden layer, which then normalises its input and starts at
    zero. Both sides then start alike, with r's direction (not the paper's; for short trainings)."""
    token_norm: bool = False  # normalise each n-gram, position added (not the paper's)

    history_text = None  # the newest message alone is read


class Sum(nn.Module):
    """`Reduction` without self-attention: the sum over a text over the root of its length."""

    def forward(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """x (T, d) -> (n, d), the texts in the batch's own order."""
        sums = []
        for part, segment in segment_parts(batch, x):
            tokens = part.view(segment.count, segment.length, x.shape[1])
            if segment.real is None:
                sums.append(tokens.sum(dim=1) / max(segment.length, 1) ** 0.5)
            else:
                real = segment.real[:, :, None].to(x.dtype)
                sums.append((tokens * real).sum(dim=1) / real.sum(dim=1).clamp(min=1).sqrt())
        return sums[0] if len(sums) == 1 else torch.cat(sums)


class Head(nn.Sequential):
    """The head of one side, from r to h: hidden layers and a linear layer (ACL19, section 3)."""

    def __init__(self, config: NGramConfig) -> None:
        layers: list[nn.Module] = []
        sizes = [config.embedding_size, *[config.hidden_size] * config.hidden_layers]
        for size, following in itertools.pairwise(sizes):
            layers += [nn.Linear(size, following), ACTIVATIONS[config.activation]()]
        super().__init__(*layers, nn.Linear(sizes[-1], config.output_size))
        for layer in self:
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, r: Tensor) -> Tensor:
        """r (n, embedding_size) -> h (n, output_size), float32, rows of unit length."""
        for layer in self:
            r = layer(r)
        return F.normalize(r.float(), dim=-1)


class SkippingHead(nn.Module):
    """The head of a side, from r to h, with skip connections.

    Each hidden layer is x + act(linear(norm(x))). Hidden layers start at zero, and the output layer
    as the transpose of `widen`: h then is r's direction.
    """

    def __init__(self, config: NGramConfig) -> None:
        super().__init__()
        d = config.embedding_size
        size = config.hidden_size
        layers = config.hidden_layers
        self.widen = nn.Linear(d, size, bias=False) if layers and size != d else None
        self.layers = nn.ModuleList(nn.Linear(size, size) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(layers))
        self.activation = ACTIVATIONS[config.activation]()
        self.output = nn.Linear(size if layers else d, config.output_size)
        start = torch.eye(config.output_size, d)
        if self.widen is not None:
            nn.init.orthogonal_(self.widen.weight)
            start = start @ self.widen.weight.data.T
        self.output.weight.data.copy_(start)
        nn.init.zeros_(self.output.bias)
        for parameter in self.layers.parameters():
            nn.init.zeros_(parameter)

    def forward(self, r: Tensor) -> Tensor:
        """r (n, embedding_size) -> h (n, output_size), float32, rows of unit length."""
        x = r if self.widen is None else self.widen(r)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + self.activation(layer(norm(x)))
        return F.normalize(self.output(x).float(), dim=-1)


def every_other(batch: TokenBatch, first: int) -> TokenBatch:
    """Return the tokens at places `first`, `first` + 2, ... of each text as a batch.

    `real_tokens` stay those of all.
    """
    ids = [_every_other(part, segment, first) for part, segment in segment_parts(batch, batch.ids)]
    places = [
        _every_other(part, segment, first)
        for part, segment in segment_parts(batch, batch.positions)
    ]
    segments = []
    start = 0
    for segment in batch.segments:
        length = (segment.length + 1 - first) // 2
        real = None if segment.real is None else segment.real[:, first::2]
        segments.append(Segment(start, segment.count, length, real))
        start += segment.count * length
    return replace(
        batch,
        ids=_joined(ids),
        positions=_joined(places) // 2,
        segments=tuple(segments),
        padding=None,  # the rectangle itself is the batch
    )


def _every_other(values: Tensor, segment: Segment, first: int) -> Tensor:
    return values.view(segment.count, segment.length)[:, first::2].reshape(-1)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


class NGramDual(SharedTrunk):
    """The dual encoder.

    The gradient of `embedding` is sparse: a step costs the rows of its batch alone.
    """

    def __init__(self, config: NGramConfig, rows: int) -> None:
        super().__init__()
        self.config = config
        self.padding_id = rows - 1
        self.output_size = config.output_size
        self.reduction_size = config.embedding_size
        self.blocks = nn.ModuleList()  # there are none to be skipped
        self.active_blocks = 0
        d = config.embedding_size
        kinds = 2 if config.bigrams else 1
        self.embedding = nn.Embedding(rows, d, sparse=True)
        nn.init.normal_(self.embedding.weight, std=config.initial_embedding)
        tables = kinds if config.positions else 0
        self.positions = nn.ModuleList(nn.Embedding(config.positions, d) for _ in range(tables))
        for table in self.positions:
            nn.init.normal_(cast("nn.Embedding", table).weight, std=config.initial_embedding / 10)
        self.reductions = nn.ModuleList(
            Reduction(d, 1, config.head_size) if config.self_attention else Sum()
            for _ in range(kinds)
        )
        self.norms = nn.ModuleList(
            nn.LayerNorm(d) if config.token_norm else nn.Identity() for _ in range(kinds)
        )
        self.dropout = Dropout(config.dropout)
        head: type[Head | SkippingHead] = SkippingHead if config.skip_connections else Head
        self.context_head = head(config)
        self.response_head = head(config)

    def reduce(self, batch: TokenBatch) -> Tensor:
        """Return r of each text, (n, d), in the caller's order.

        It is the mean of its unigrams' and its bigrams' sums.
        """
        # Unigrams and bigrams stand in turn (see `text.ngrams`). All are looked up at once: one
        # sparse gradient.
        kinds = [every_other(batch, first) for first in range(len(self.reductions))]
        ids = torch.cat([kind.ids for kind in kinds])
        embedded = torch.split(self.embedding(ids), [kind.computed_tokens for kind in kinds])
        parts = zip(self._placed(embedded, kinds), kinds, self.norms, self.reductions, strict=True)
        sums = [reduction(self.dropout(norm(x)), kind) for x, kind, norm, reduction in parts]
        r = sums[0] if len(sums) == 1 else (sums[0] + sums[1]) / 2
        return in_order(batch, r)

    def _placed(self, embedded: Sequence[Tensor], kinds: Sequence[TokenBatch]) -> Sequence[Tensor]:
        """Add the positions, if the model has any."""
        if not self.positions:
            return embedded
        rows = self.config.positions
        parts = zip(embedded, kinds, self.positions, strict=True)
        return [x + table(kind.positions % rows) for x, kind, table in parts]

    def set_active_blocks(self, count: int) -> None:
        """There are no blocks; this is what training asks of every model."""
        switch_blocks(self.blocks, count)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Return all parameters, each once, by ConveRT's names of the parts they belong to."""
        return {
            "embedding": list(self.embedding.parameters()),
            "position": [*self.positions.parameters(), *self.norms.parameters()],
            "reduction": list(self.reductions.parameters()),
            "feed_forward_2": [*self.context_head.parameters(), *self.response_head.parameters()],
        }
