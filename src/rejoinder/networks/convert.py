"""ConveRT (Henderson et al. 2020, "ConveRT"): from subword ids to the encodings of both sides.

One trunk turns a text into r, and a feed-forward network of each side ("feed-forward 2") turns r
into h, of unit length. Shapes: T tokens of a batch (see `networks`), d the embedding size, n the
texts of a segment, L their length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import torch
from pydantic import Field, NonNegativeFloat
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.networks.attention import without_plans
from rejoinder.networks.dual import SharedTrunk
from rejoinder.networks.layers import (
    GATE,
    MASKED,
    Dropout,
    DropoutShare,
    GatedLinear,
    HistoryGate,
    Reduction,
    check,
    split_heads,
    switch_blocks,
)
from rejoinder.networks.packing import Segment, TokenBatch
from rejoinder.networks.products import add_to_each, multiply_each
from rejoinder.networks.rectangles import in_order, join_parts, segment_parts
from rejoinder.settings import Count, Natural, Share
from rejoinder.text.history import HistoryText


@dataclass(frozen=True)
class ConvertConfig:
    """Every structural choice of ConveRT.

    The defaults are the paper's (CONVERT, section 3 and Table 4).
    """

    kind: Literal["convert"] = "convert"
    embedding_size: Count = 512
    """Size of the subword and position embeddings, and of everything between the blocks."""
    positions: Annotated[tuple[Count, ...], Field(min_length=1)] = (47, 11)
    """Rows of the tables; i has row i mod each."""
    blocks: Natural = 6  # number of transformer blocks
    attention_spans: tuple[Count, ...] = (3, 5, 48, 48, 48, 48)
    """Largest relative position; ablation: all 48."""
    heads: Count = 1  # Attention heads of a block. Ablation: 8.
    head_size: Count = 64  # size of queries, keys and values of a head
    relative_bias: bool = True
    """Learn a bias by relative position in each block. Ablation: false."""
    feed_forward_size: Count = 2048  # hidden size of a block's feed-forward part
    reduction_heads: Count = 2
    """Heads of the reduction; r has this many times embedding_size numbers. Ablation: 1."""
    feed_forward_2: Literal["paper", "original"] = "paper"
    """"paper": a skip connection around each layer; "original": the released code's, one that both
    sides share."""
    feed_forward_2_layers: Count = 3  # hidden layers of feed-forward 2
    feed_forward_2_size: Count = 1024  # size of those layers
    skip_connections: bool = True  # Whether feed-forward 2 has skip connections. Ablation: false.
    output_size: Count = 512  # size of the final encodings h
    norm_placement: Literal["after", "before"] = "after"
    """Layer norm after each sub-layer's residual sum, or before each sub-layer and at the end of
    the trunk."""
    initialisation: Literal["paper", "unit"] = "paper"
    """Subword embeddings uniform in ±0.01 and multiplied by sqrt(embedding_size) at look-up, or of
    unit variance."""
    zero_residual: bool = False
    """Start the residual branches of the blocks, and feed-forward 2's hidden layers, at zero: an
    untrained trunk is then exactly its embeddings and its reduction."""
    token_norm: bool = True
    """Layer norm of the embedded tokens, and at the trunk's end. False: a vector's length weighs a
    text's words."""
    aligned_start: bool = False
    """Start feed-forward 2 of both sides as the same map, the mean of r's heads; needs
    zero_residual and skips. An untrained model is then the mean of its embeddings on both sides,
    which embeddings from elsewhere make useful."""
    dropout: DropoutShare = 0.0
    """After the embedding and each self-attention (0.2 in the paper's fine-tuning)."""
    history: Natural = 0
    """Earlier messages that are read as extra contexts (paper: 10). 0: single-context."""
    numbered_history: bool = False
    """Put "0: ", "1: ", ... before the earlier messages, newest first (DSTC7)."""
    persona_first: bool = False
    """Read messages that begin "your persona: " (ConvAI2) first, without these words."""
    persona_weight: NonNegativeFloat = 0.0
    """Weight of what a response finds by attending over a persona's statements."""
    input_weight: NonNegativeFloat = 0.0
    """Weight of the newest message's own encoding, added to that of a conversation."""
    subject_threshold: Share = 0.0
    """Cosine with the earlier messages below which the newest begins a new subject."""
    history_gate: bool = False
    """Let a history count as far as it has to do with the newest message (`HistoryGate`)."""

    def __post_init__(self) -> None:
        spans = self.attention_spans
        allowed = f"one positive number for each of the {self.blocks} blocks"
        check(len(spans) == self.blocks, "attention_spans", list(spans), allowed)
        needed = 'zero_residual = true, skip_connections = true and feed_forward_2 = "paper"'
        aligned = self.zero_residual and self.skip_connections and self.feed_forward_2 == "paper"
        check(aligned or not self.aligned_start, "aligned_start", True, f"false without {needed}")
        for name in ("numbered_history", "persona_first", "history_gate"):
            check(
                not getattr(self, name) or self.history > 0, name, True, "false where history = 0"
            )
        for name in ("input_weight", "persona_weight", "subject_threshold"):
            check(
                not getattr(self, name) or self.history > 0,
                name,
                getattr(self, name),
                "0 where history = 0",
            )

    @property
    def history_text(self) -> HistoryText | None:
        """Reading of earlier messages as the model's text.

        None if it reads the newest message alone.
        """
        if not self.history:
            return None
        return HistoryText(
            self.history, self.numbered_history, self.persona_first, False, self.persona_weight
        )


class TokenEmbedding(nn.Module):
    """Subword embedding plus two learned position tables, then layer norm (CONVERT 3.1).

    Row i mod 47 of one table and row i mod 11 of the other: 58 rows tell 517 positions apart.
    """

    def __init__(self, config: ConvertConfig, rows: int) -> None:
        super().__init__()
        d = config.embedding_size
        paper = config.initialisation == "paper"
        self.subwords = nn.Embedding(rows, d)
        self.positions = nn.ModuleList(nn.Embedding(count, d) for count in config.positions)
        self.norm = nn.LayerNorm(d) if config.token_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.scale = math.sqrt(d) if paper else 1.0
        self.fixed_positions: Tensor | None = None  # `inference` computes them once
        for table in (self.subwords, *self.positions):
            if paper:
                nn.init.uniform_(table.weight, -0.01, 0.01)
            else:
                nn.init.normal_(table.weight, std=1.0 if table is self.subwords else 0.1)

    def forward(self, batch: TokenBatch) -> Tensor:
        """Embed all tokens: (T, d)."""
        x = self.subwords(batch.ids)
        if self.scale != 1.0:
            x = x * self.scale
        table = self.fixed_positions
        if table is None or batch.longest > len(table):
            table = self.position_table(batch.longest)
        return self.dropout(self.norm(x + F.embedding(batch.positions, table)))

    def position_table(self, length: int) -> Tensor:
        """Return what is added at each place of a text: (length, d)."""
        tables = cast("list[nn.Embedding]", list(self.positions))
        position = torch.arange(length, device=tables[0].weight.device)
        return torch.stack([table(position % table.num_embeddings) for table in tables]).sum(dim=0)


class SelfAttention(nn.Module):
    """Self-attention within reach, with a learned bias by relative position (CONVERT 3.1).

    Scores are q·k / sqrt(64) plus the bias of j - i; pairs further apart than `span` are masked,
    and so is padding.
    """

    def __init__(self, config: ConvertConfig, span: int) -> None:
        super().__init__()
        self.heads = config.heads
        self.head_size = config.head_size
        self.span = span
        size = self.heads * self.head_size
        self.qkv = nn.Linear(config.embedding_size, 3 * size, bias=False)
        self.output = nn.Linear(size, config.embedding_size)
        self.bias = (
            nn.Parameter(torch.zeros(self.heads, 2 * span + 1)) if config.relative_bias else None
        )
        self.fixed_score_bias: Tensor | None = None  # `inference` computes it once
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """x (T, d) -> (T, d)."""
        qkv = self.qkv(x)
        if batch.padding is not None:
            [(part, _)] = segment_parts(batch, qkv)
            attended = self._attend_at_once(part, batch.padding.blank)
            return self.dropout(self.output(join_parts(batch, [attended])))
        bias = self.fixed_score_bias
        if bias is None or batch.longest > bias.shape[1]:
            bias = self.score_bias(batch.longest, qkv)
        parts = [self._attend(part, segment, bias) for part, segment in segment_parts(batch, qkv)]
        return self.dropout(self.output(join_parts(batch, parts)))

    def score_bias(self, length: int, like: Tensor) -> Tensor:
        """Return what is added to the scores of each pair (i, j): (heads, length, length)."""
        position = torch.arange(length, device=like.device)
        distance = position[None, :] - position[:, None]
        reach = distance.clamp(-self.span, self.span)
        far = distance != reach
        if self.bias is None:
            return like.new_zeros(self.heads, length, length).masked_fill(far, MASKED)
        return self.bias[:, reach + self.span].to(like.dtype).masked_fill(far, MASKED)

    def _attend(self, part: Tensor, segment: Segment, bias: Tensor) -> Tensor:
        n = segment.count
        length = segment.length
        heads = self.heads
        q, k, v = split_heads(part, n, length, 3, heads)
        added = bias[:, :length, :length]
        if n > 1:
            added = added.expand(n, -1, length, length).reshape(n * heads, length, length)
        scores = add_to_each(added, q, k.transpose(1, 2), 1.0 / math.sqrt(self.head_size))
        if segment.real is not None:
            unreal = ~segment.real[:, None, :].expand(n, heads, length).reshape(
                n * heads, 1, length
            )
            scores = scores.masked_fill(unreal, MASKED)
        attended = multiply_each(torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype), v)
        return attended.view(n, heads, length, -1).transpose(1, 2).reshape(n * length, -1)

    def _attend_at_once(self, part: Tensor, blank: Tensor) -> Tensor:
        """Do the same in one call, for a card; `blank` (n, L) is padding."""
        n, length = blank.shape
        q, k, v = part.view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind()
        bias = self._diagonals(length, part)
        mask = bias.masked_fill(blank[:, None, None, :], MASKED)
        with without_plans(part.device):
            attended = F.scaled_dot_product_attention(q, k, v, mask)
        return attended.transpose(1, 2).reshape(n * length, -1)

    def _diagonals(self, length: int, like: Tensor) -> Tensor:
        """Return `score_bias` as views of one row of numbers, without looking up each pair's."""
        bias: Tensor | None = self.bias
        if bias is None:
            bias = like.new_zeros(self.heads, 2 * self.span + 1)
        room = length - 1 - self.span  # distances out of reach on each side; below 0: not needed
        row = F.pad(bias.to(like.dtype), (room, room), value=MASKED)
        return row.unfold(1, length, 1).flip(1)


class FeedForward(nn.Module):
    """Linear, x * sigmoid(1.702 x), linear (CONVERT 3.1), token by token."""

    def __init__(self, config: ConvertConfig) -> None:
        super().__init__()
        self.expand = GatedLinear(config.embedding_size, config.feed_forward_size)
        self.contract = nn.Linear(config.feed_forward_size, config.embedding_size)

    def forward(self, x: Tensor) -> Tensor:
        """x (T, d) -> (T, d)."""
        return F.linear(self.expand(x), self.contract.weight / GATE, self.contract.bias)


class Block(nn.Module):
    """A transformer block: attention and feed-forward.

    Each has a residual connection and layer norm.
    """

    def __init__(self, config: ConvertConfig, span: int) -> None:
        super().__init__()
        d = config.embedding_size
        self.attention = SelfAttention(config, span)
        self.feed_forward = FeedForward(config)
        self.attention_norm = nn.LayerNorm(d)
        self.feed_forward_norm = nn.LayerNorm(d)
        self.norm_first = config.norm_placement == "before"
        for layer in (self.attention.output, self.feed_forward.contract):
            if config.zero_residual:
                nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """x (T, d) -> (T, d)."""
        if self.norm_first:
            x = x + self.attention(self.attention_norm(x), batch)
            return x + self.feed_forward(self.feed_forward_norm(x))
        x = self.attention_norm(x + self.attention(x, batch))
        return self.feed_forward_norm(x + self.feed_forward(x))


class FeedForward2(nn.Module):
    """From r, or another input of `in_size`, to h for one side (CONVERT 3.2).

    Layout "paper": each hidden layer is x + act(linear(x)), normalised like the blocks; where the
    first one changes the size, its skip connection is a projection. Layout "original": layer norm,
    layers of bias-free linear, activation and layer norm, a linear layer plus `input_skip`, a
    projection of the input that all sides share, layer norm. `config` is a `ConvertConfig`.
    """

    def __init__(
        self, config: Any, input_skip: nn.Linear | None, in_size: int | None = None
    ) -> None:
        super().__init__()
        self.original = config.feed_forward_2 == "original"
        self.norm_first = not self.original and config.norm_placement == "before"
        self.skip = config.skip_connections and not self.original
        in_size = in_size or config.reduction_heads * config.embedding_size
        size = config.feed_forward_2_size
        self.in_size = in_size
        self.input_norm = nn.LayerNorm(in_size) if self.original else None
        self.widen = nn.Linear(in_size, size, bias=False) if self.skip and in_size != size else None
        sizes = [in_size] + [size] * (config.feed_forward_2_layers - 1)
        self.layers = nn.ModuleList(GatedLinear(s, size, bias=not self.original) for s in sizes)
        self.norms = nn.ModuleList(nn.LayerNorm(s if self.norm_first else size) for s in sizes)
        self.output = nn.Linear(size, config.output_size)
        self.input_skip = input_skip
        self.output_norm = nn.LayerNorm(config.output_size) if self.original else None
        for layer in self.linears():
            nn.init.orthogonal_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        if config.zero_residual and self.skip:
            for weight in (
                layer.weight for layer in self.linears() if layer not in (self.widen, self.output)
            ):
                nn.init.zeros_(weight)

    def start_as_identity(self) -> None:
        """Give the input's direction back while the hidden layers are at zero.

        It does so as far as the sizes allow.
        """
        if self.skip and self.widen is None:
            nn.init.eye_(self.output.weight)
        elif self.widen is not None:  # its columns are orthonormal, so its transpose undoes it
            self.output.weight.data.copy_(self.widen.weight.data.T)

    def start_as_mean(self, heads: int) -> None:
        """Give the mean of the input's `heads` equal parts, as far as the sizes allow."""
        # built `on_meta_device`: PyTorch would import its compiler to divide nothing
        if self.output.weight.is_meta:
            return
        part = torch.eye(self.output.out_features, self.in_size // heads) / heads
        mean = part.repeat(1, heads)
        self.output.weight.data.copy_(
            mean if self.widen is None else mean @ self.widen.weight.data.T
        )

    def linears(self) -> Iterator[nn.Linear]:
        """Yield all linear layers, the shared one included."""
        for child in (self.widen, *self.layers, self.output, self.input_skip):
            if isinstance(child, nn.Linear):
                yield child

    def forward(self, r: Tensor) -> Tensor:
        """r (n, in_size) -> h (n, output_size), rows of unit length."""
        x = r if self.input_norm is None else self.input_norm(r)
        skipped = None if self.input_skip is None else self.input_skip(x)
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            gated = layer(norm(x) if self.norm_first else x)
            skip = x if self.widen is None or number else self.widen(x)
            x = torch.add(skip, gated, alpha=1 / GATE) if self.skip else gated / GATE
            x = x if self.norm_first else norm(x)
        h = self.output(x)
        if skipped is not None:
            h = h + skipped
        if self.output_norm is not None:
            h = self.output_norm(h)
        return F.normalize(h.float(), dim=-1)


class Convert(SharedTrunk):
    """The dual encoder, whose contexts may have a history (CONVERT, section 3, multi-context).

    A feed-forward network 2 of its own turns r of the joined history into h_z. What ranks responses
    then is the mean of h_x and h_z, through one more such network.
    """

    def __init__(self, config: ConvertConfig, rows: int) -> None:
        super().__init__()
        self.config = config
        self.padding_id = rows - 1
        self.output_size = config.output_size
        self.reduction_size = config.reduction_heads * config.embedding_size
        self.active_blocks = config.blocks
        d = config.embedding_size
        before = config.norm_placement == "before"
        self.token_embedding = TokenEmbedding(config, rows)
        self.blocks = nn.ModuleList(Block(config, span) for span in config.attention_spans)
        self.final_norm = (
            nn.LayerNorm(d) if before and config.blocks and config.token_norm else None
        )
        self.reduction = Reduction(d, config.reduction_heads, config.head_size)
        original = config.feed_forward_2 == "original" and config.skip_connections
        self.shared_skip = nn.Linear(self.reduction_size, config.output_size) if original else None
        self.context_head = FeedForward2(config, self.shared_skip)
        self.response_head = FeedForward2(config, self.shared_skip)
        heads = [self.context_head, self.response_head]
        self.history = config.history_text
        self.gate = HistoryGate(config.output_size) if config.history_gate else None
        self.input_weight = config.input_weight
        self.subject_threshold = config.subject_threshold
        if self.history is not None:
            self.history_head = FeedForward2(config, self.shared_skip)
            # What the sides share takes an r, not an h: the combining network has a projection of
            # its own.
            size = config.output_size
            self.combined_head = FeedForward2(
                config, nn.Linear(size, size) if original else None, in_size=size
            )
            if config.zero_residual:
                self.combined_head.start_as_identity()
            heads.append(self.history_head)
        if config.aligned_start:
            for head in heads:
                head.start_as_mean(config.reduction_heads)

    @property
    def embedding(self) -> nn.Embedding:
        """The subword table."""
        return self.token_embedding.subwords

    def tokens(self, batch: TokenBatch) -> Tensor:
        """Return the vectors of all tokens, (T, d), in the batch's packed order."""
        x = self.token_embedding(batch)
        for block in self.blocks[: self.active_blocks]:
            x = block(x, batch)
        return x if self.final_norm is None else self.final_norm(x)

    def reduce(self, batch: TokenBatch) -> Tensor:
        """Return r of each text, (n, reduction_heads · d), in the caller's order.

        It is what transfers to other tasks.
        """
        r = self.reduction(self.tokens(batch), batch)
        return in_order(batch, r)

    def mix(self, x: Tensor, z: Tensor) -> Tensor:
        """See `SharedTrunk.mix`."""
        # A norm's data type: linear layers may be packed and have no weight to look at.
        dtype = cast("nn.LayerNorm", self.combined_head.norms[0]).weight.dtype
        return self.combined_head(((x + z) / 2).to(dtype))

    def set_active_blocks(self, count: int) -> None:
        """Compute only the first `count` blocks; the others cost nothing and get no gradient."""
        self.active_blocks = switch_blocks(self.blocks, count)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Return all parameters, each once, by the part they belong to.

        Recipes give each part a rate of its own.
        """
        trunk_norms = [] if self.final_norm is None else list(self.final_norm.parameters())
        kinds = (
            child for child in self.children() if isinstance(child, FeedForward2 | HistoryGate)
        )
        heads = [parameter for child in kinds for parameter in child.parameters()]
        return {
            "embedding": list(self.embedding.parameters()),
            "position": [
                *self.token_embedding.positions.parameters(),
                *self.token_embedding.norm.parameters(),
            ],
            "blocks": [*self.blocks.parameters(), *trunk_norms],
            "reduction": list(self.reduction.parameters()),
            "feed_forward_2": list(dict.fromkeys(heads)),
        }
