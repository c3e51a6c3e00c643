"""Dual encoders on a shared trunk, as ConveRT's, and the n-gram model among them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.networks.layers import (
    Dropout,
    DropoutShare,
    Encodings,
    HistoryGate,
    Reduction,
    norm_parameters,
    switch_blocks,
)
from rejoinder.networks.packing import Segment, TokenBatch
from rejoinder.networks.pair_batches import AnchoredBatch, TrunkBatch, VectorBatch
from rejoinder.networks.rectangles import in_order, segment_parts
from rejoinder.settings import Count, Natural
from rejoinder.text.history import HistoryText


class SharedTrunk(nn.Module):
    """A dual encoder whose sides share one trunk, which reduces any text to r.

    A head of each side makes h of r.
    """

    output_size: int  # of h
    reduction_size: int  # of r
    history: HistoryText | None = None
    """Reading of earlier messages; None: the newest message alone."""
    # cosine with the earlier messages below which the newest begins a new subject
    subject_threshold = 0.0
    # of r's direction, added to the encoding of a conversation's first message
    opening_weight = 0.0
    input_weight = 0.0  # of h_x in the combined encoding, added to what `mix` makes
    gate: HistoryGate | None  # without a default here: it would hide the module of that name

    def reduce(self, batch: TokenBatch) -> Tensor:
        """Return r of each text, in the caller's order: what transfers to other tasks."""
        raise NotImplementedError

    def head(self, side: str) -> Callable[[Tensor], Tensor]:
        """Return the network of a side ("context", "response", "history"), r -> h.

        h is float32 with rows of unit length.
        """
        return cast("Callable[[Tensor], Tensor]", getattr(self, f"{side}_head"))

    def pool_history(self, x: Tensor, texts: Tensor, histories: Tensor) -> Tensor:
        """Pool the histories' h (m, d) into h_z (n, d), zero without a history.

        h_x is (n, d), the context and slot of each text (2, m).
        """
        return torch.zeros_like(x).index_copy(0, histories[0], texts)

    def combine(self, x: Tensor, z: Tensor) -> Tensor:
        """Combine h_x and h_z (n, d_out), zero without a history, into one encoding (n, d_out)."""
        c = self.mix(x, z if self.gate is None else self.gate(x, z))
        return F.normalize(c + self.input_weight * x, dim=-1) if self.input_weight else c

    def mix(self, x: Tensor, z: Tensor) -> Tensor:
        """Do what `combine` does behind the gate."""
        raise NotImplementedError

    def forward(self, batch: TokenBatch, contexts: int) -> tuple[Tensor, Tensor]:
        """Encode the first `contexts` texts as inputs, the others as responses.

        The result is h_x and h_y (n, d_out).
        """
        r = self.reduce(batch)
        return self.head("context")(r[:contexts]), self.head("response")(r[contexts:])

    def encode(self, batch: TokenBatch, side: str) -> Tensor:
        """Return the vectors of all texts of a batch: h of a side, or r ("reduction")."""
        r = self.reduce(batch)
        return r if side == "reduction" else self.head(side)(r)

    def encode_conversations(
        self, inputs: TokenBatch, histories: TokenBatch, there: Tensor
    ) -> Tensor:
        """Return the combined encodings; `there`, (n,), is False where one has no history."""
        return self.combine(
            self.encode(inputs, "context"), self.encode(histories, "history") * there[:, None]
        )

    def encode_pairs(self, batch: TrunkBatch, pairs: int, histories: Tensor) -> Encodings:
        """Encode a training batch of K pairs: h_x as "context" and h_y as "response".

        With a history h_x is "input", h_z "history", and the combined encoding "context". The batch
        holds K inputs, the texts of histories, whose pairs and slots are in `histories`, int64 (2,
        m), and the responses, those of the K pairs first. Of an anchored batch "drift" says how far
        r has moved from the start.
        """
        if self.history is None:
            x, y = self(batch, pairs)
            return {"context": x, "response": y}
        first = pairs + histories.shape[1]
        r, drift = self._reduced(batch, pairs, first)
        x = self.head("context")(r[:pairs])
        y = self.head("response")(r[first:])
        z = self.pool_history(x, self.head("history")(r[pairs:first]), histories)
        unit = F.normalize(z, dim=-1) if self.history.apart else z
        return {"input": x, "history": unit, "context": self.combine(x, z), "response": y, **drift}

    def _reduced(self, batch: TrunkBatch, pairs: int, first: int) -> tuple[Tensor, Encodings]:
        """Return r of all texts, and how far anchored pairs have moved, (pairs,).

        The distance is 1 - cos, the mean of both sides.
        """
        if isinstance(batch, VectorBatch):
            return batch.vectors, {}
        if not isinstance(batch, AnchoredBatch):
            return self.reduce(batch), {}
        live = self.reduce(batch.tokens).float()
        histories = batch.start[pairs:first]
        start = torch.cat([batch.start[:pairs], batch.start[first : first + pairs]])
        moved = 1 - F.cosine_similarity(live[: 2 * pairs], start)
        return torch.cat([live[:pairs], histories, live[pairs:]]), {
            "drift": moved.view(2, pairs).mean(dim=0)
        }

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Return what weight decay leaves out.

        That is layer norms (CONVERT 3.4), and the gate's two numbers.
        """
        gate = getattr(self, "gate", None)
        return {*norm_parameters(self), *([] if gate is None else gate.parameters())}


# The n-gram dual encoder: from the ids of words and pairs of words to the encodings of both sides.
#
# Henderson et al. 2019b, section 3. Unigrams and bigrams are embedded, weighed by self-attention,
# and summed; the mean of the two sums is r, which hidden layers of each side turn into h, of unit
# length.

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
    """Of one side, from r to h: hidden layers and a linear layer (ACL19, section 3)."""

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
