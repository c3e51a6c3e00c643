"""ConveRT (Henderson et al. 2020, "ConveRT"), single-context: from subword ids to the encodings of both sides.

Read with section 3 of the paper: one trunk (embedding, blocks, reduction) turns a text into r; a feed-forward
network of each side ("feed-forward 2") turns r into h, a vector of unit length. The score of a response for a
context is the cosine of their h.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.errors import InputError
from rejoinder.models.history import HistoryText
from rejoinder.models.layers import (
    GATE,
    Block,
    FeedForward,
    GatedLinear,
    Reduction,
    SelfAttention,
    TokenEmbedding,
    norm_parameters,
)
from rejoinder.models.packing import TokenBatch

Encodings: TypeAlias = Mapping[str, Tensor]
"""What a model makes of K pairs: matrices by name, float32, whose rows follow the pairs. "response" holds responses; in
training each other one, of contexts (K, d), ranks them; "context" is the one that ranks in use."""


@dataclass(frozen=True)
class ConvertConfig:
    """Every structural choice of ConveRT. The defaults are the paper's (CONVERT, section 3 and Table 4)."""

    kind: Literal["convert"] = "convert"
    """Which model this is."""
    embedding_size: int = 512
    """Size of the subword and position embeddings, and of everything between the blocks."""
    positions: tuple[int, ...] = (47, 11)
    """Rows of the position tables; position i has the sum of row i mod each."""
    blocks: int = 6
    """Number of transformer blocks."""
    attention_spans: tuple[int, ...] = (3, 5, 48, 48, 48, 48)
    """Largest relative position each block attends to. Ablation "no growing attention span": all 48."""
    heads: int = 1
    """Attention heads of a block. Ablation: 8."""
    head_size: int = 64
    """Size of queries, keys and values of a head."""
    relative_bias: bool = True
    """Whether each block learns a bias by relative position. Ablation: false."""
    feed_forward_size: int = 2048
    """Hidden size of a block's feed-forward part."""
    reduction_heads: int = 2
    """Heads of the reduction; r has this many times embedding_size numbers. Ablation: 1."""
    feed_forward_2: Literal["paper", "original"] = "paper"
    """"paper": a skip connection around each layer; "original": the released code's layout, with one skip
    projection of the input that both sides share."""
    feed_forward_2_layers: int = 3
    """Hidden layers of feed-forward 2."""
    feed_forward_2_size: int = 1024
    """Size of those layers."""
    skip_connections: bool = True
    """Whether feed-forward 2 has skip connections. Ablation: false."""
    output_size: int = 512
    """Size of the final encodings h."""
    norm_placement: Literal["after", "before"] = "after"
    """Layer norm after each sub-layer's residual sum (the paper) or before each sub-layer, with one more at the end
    of the trunk."""
    initialisation: Literal["paper", "unit"] = "paper"
    """Subword embeddings uniform in ±0.01 and multiplied by sqrt(embedding_size) at look-up, or of unit variance."""
    zero_residual: bool = False
    """Start the residual branches of the blocks, and feed-forward 2's hidden layers, at zero: an untrained trunk is
    then exactly its embeddings and its reduction."""
    token_norm: bool = True
    """Layer norm of the embedded tokens, and with norm_placement = "before" at the end of the trunk. False: a token's
    vector keeps its length, which then weighs the words of a text."""
    aligned_start: bool = False
    """Start feed-forward 2 of both sides as the same map, the mean of r's heads; needs zero_residual and skips. An
    untrained model is then the mean of its embeddings on both sides, which embeddings from elsewhere make useful."""
    dropout: float = 0.0
    """Dropout after the embedding and after each self-attention (0.2 in the paper's fine-tuning)."""
    history: int = 0
    """Earlier messages that are read as extra contexts (paper: 10; see `multi_context`). 0: single-context."""
    numbered_history: bool = False
    """Put "0: ", "1: ", ... before the earlier messages, 0 for the newest of them (the paper's DSTC7)."""
    persona_first: bool = False
    """Read messages that begin "your persona: " (ConvAI2) before all other earlier ones, without these words, so that a
    long history does not push them out of what is read."""

    def __post_init__(self) -> None:
        for name in ("embedding_size", "head_size", "heads", "feed_forward_size", "reduction_heads", "output_size"):
            _check(getattr(self, name) > 0, name, getattr(self, name), "a positive number")
        _check(self.blocks >= 0, "blocks", self.blocks, "0 or more")
        _check(
            len(self.attention_spans) == self.blocks and all(span > 0 for span in self.attention_spans),
            "attention_spans",
            list(self.attention_spans),
            f"one positive number for each of the {self.blocks} blocks",
        )
        _check(
            len(self.positions) > 0 and all(p > 0 for p in self.positions),
            "positions",
            list(self.positions),
            "positive numbers",
        )
        _check(0 <= self.dropout < 1, "dropout", self.dropout, "at least 0 and below 1")
        layers, size = self.feed_forward_2_layers, self.feed_forward_2_size
        _check(layers >= 1 and size > 0, "feed_forward_2_layers/_size", (layers, size), "positive numbers")
        _check(self.history >= 0, "history", self.history, "0 or more")
        aligned = self.zero_residual and self.skip_connections and self.feed_forward_2 == "paper"
        _check(
            aligned or not self.aligned_start,
            "aligned_start",
            True,
            'false without zero_residual = true, skip_connections = true and feed_forward_2 = "paper"',
        )
        for name in ("numbered_history", "persona_first"):
            _check(not getattr(self, name) or self.history > 0, name, True, "false where history = 0")

    @property
    def history_text(self) -> HistoryText | None:
        """How earlier messages become the text that the model reads, or None if it reads the newest message alone."""
        return HistoryText(self.history, self.numbered_history, self.persona_first) if self.history else None


class FeedForward2(nn.Module):
    """From r to h for one side: hidden layers, a linear layer, unit length (CONVERT 3.2).

    Layout "paper": each layer is x + act(linear(x)), normalised (after the sum or before the linear layer, like the
    blocks); where the first one changes the size, its skip connection is a projection. Layout "original": layer norm
    of the input, layers of bias-free linear, activation and layer norm, a linear layer, plus a projection of the
    input that all sides share, layer norm.

    Args:
        config: the model's.
        input_skip: the projection of the input in the layout "original", or None.
        in_size: size of the input; None: that of r.
    """

    def __init__(self, config: ConvertConfig, input_skip: nn.Linear | None, in_size: int | None = None) -> None:
        super().__init__()
        self.original = config.feed_forward_2 == "original"
        self.norm_first = not self.original and config.norm_placement == "before"
        self.skip = config.skip_connections and not self.original
        in_size, size = in_size or config.reduction_heads * config.embedding_size, config.feed_forward_2_size
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
            for weight in (layer.weight for layer in self.linears() if layer not in (self.widen, self.output)):
                nn.init.zeros_(weight)

    def start_as_identity(self) -> None:
        """Let it give its input's direction back, as far as the sizes allow, once its hidden layers are at zero."""
        if self.skip and self.widen is None:
            nn.init.eye_(self.output.weight)
        elif self.widen is not None:  # its columns are orthonormal, so its transpose undoes it
            self.output.weight.data.copy_(self.widen.weight.data.T)

    def start_as_mean(self, heads: int) -> None:
        """Let it give the mean of its input's `heads` equal parts, as far as the sizes allow (see above)."""
        if self.output.weight.is_meta:  # a skeleton's; PyTorch would import its compiler to divide nothing
            return
        part = torch.eye(self.output.out_features, self.in_size // heads) / heads
        mean = part.repeat(1, heads)
        self.output.weight.data.copy_(mean if self.widen is None else mean @ self.widen.weight.data.T)

    def linears(self) -> Iterator[nn.Linear]:
        """All its linear layers, the shared one included."""
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


class Convert(nn.Module):
    """The dual encoder.

    Args:
        config: its structure.
        rows: rows of the subword table; the last one is the padding's.
    """

    def __init__(self, config: ConvertConfig, rows: int) -> None:
        super().__init__()
        self.config = config
        self.padding_id = rows - 1
        self.output_size = config.output_size
        self.reduction_size = config.reduction_heads * config.embedding_size
        self.active_blocks = config.blocks
        self.history: HistoryText | None = None
        d, before = config.embedding_size, config.norm_placement == "before"
        self.token_embedding = TokenEmbedding(
            rows, d, config.positions, config.initialisation, config.dropout, norm=config.token_norm
        )
        self.blocks = nn.ModuleList(
            Block(
                SelfAttention(
                    d,
                    config.heads,
                    config.head_size,
                    span,
                    relative_bias=config.relative_bias,
                    dropout=config.dropout,
                ),
                FeedForward(d, config.feed_forward_size),
                d,
                norm_first=before,
                zero_residual=config.zero_residual,
            )
            for span in config.attention_spans
        )
        self.final_norm = nn.LayerNorm(d) if before and config.blocks and config.token_norm else None
        self.reduction = Reduction(d, config.reduction_heads, config.head_size)
        original = config.feed_forward_2 == "original" and config.skip_connections
        self.shared_skip = nn.Linear(config.reduction_heads * d, config.output_size) if original else None
        self.context_head = FeedForward2(config, self.shared_skip)
        self.response_head = FeedForward2(config, self.shared_skip)
        if config.aligned_start:
            for head in (self.context_head, self.response_head):
                head.start_as_mean(config.reduction_heads)

    @property
    def embedding(self) -> nn.Embedding:
        """The subword table."""
        return self.token_embedding.subwords

    def tokens(self, batch: TokenBatch) -> Tensor:
        """Vectors of all tokens, (T, d), in the batch's packed order."""
        x = self.token_embedding(batch)
        for block in self._blocks(self.active_blocks):
            x = block(x, batch)
        return x if self.final_norm is None else self.final_norm(x)

    def reduce(self, batch: TokenBatch) -> Tensor:
        """r of each text, (n, reduction_heads · d), in the caller's order: what transfers to other tasks."""
        r = self.reduction(self.tokens(batch), batch)
        return r if r.shape[0] == 1 else r[batch.restore]  # not len(r), which an export would take for a constant

    def forward(self, batch: TokenBatch, contexts: int) -> tuple[Tensor, Tensor]:
        """Encode both sides at once: the first `contexts` texts are inputs, the others responses.

        Returns:
            h_x (contexts, d_out) and h_y (others, d_out), float32, rows of unit length.
        """
        r = self.reduce(batch)
        return self.context_head(r[:contexts]), self.response_head(r[contexts:])

    def encode_pairs(self, batch: TokenBatch, pairs: int, histories: Tensor) -> Encodings:  # noqa: ARG002
        """What training asks for: h_x as "context" and h_y as "response".

        Args:
            batch: K inputs, then the responses: those of the K pairs, then any further ones.
            pairs: K.
            histories: empty; this model reads none.
        """
        x, y = self(batch, pairs)
        return {"context": x, "response": y}

    def encode(self, batch: TokenBatch, side: str) -> Tensor:
        """Vectors of all texts of a batch: their h as "context" or "response", or their r ("reduction")."""
        r = self.reduce(batch)
        return r if side == "reduction" else self.heads()[side](r)

    def heads(self) -> dict[str, FeedForward2]:
        """The network of each side, by the side's name."""
        return {"context": self.context_head, "response": self.response_head}

    def set_active_blocks(self, count: int) -> None:
        """Compute only the first `count` blocks; the others cost nothing and get no gradient."""
        if not 0 <= count <= self.config.blocks:
            raise InputError(f"active blocks: {count} given, allowed is 0 to {self.config.blocks}")
        self.active_blocks = count
        for i, block in enumerate(self.blocks):
            block.requires_grad_(i < count)

    def _blocks(self, count: int) -> list[Block]:
        return cast("list[Block]", list(self.blocks[:count]))

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """All parameters, each once, by the part they belong to: recipes give each part a rate of its own."""
        trunk_norms = [] if self.final_norm is None else list(self.final_norm.parameters())
        heads = [*self.context_head.parameters(), *self.response_head.parameters()]
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

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Layer norms: the paper's L2 leaves them out (CONVERT 3.4)."""
        return set(norm_parameters(self))

    def multiplications_per_token(self) -> int:
        """Multiply-adds of the matrix products over weights that one token costs in the trunk."""
        layers = [self.reduction.query_key]
        for block in self._blocks(self.active_blocks):
            layers += [block.attention.qkv, block.attention.output]
            layers += [block.feed_forward.expand, block.feed_forward.contract]
        return sum(layer.weight.numel() for layer in layers)

    def multiplications_per_text(self) -> int:
        """Multiply-adds of the matrix products over weights that one text costs after the trunk."""
        head = self.context_head
        return sum(layer.weight.numel() for layer in head.linears())


def _check(fine: bool, name: str, given: object, allowed: str) -> None:
    if not fine:
        raise InputError(f"{name} = {given} is not allowed; it must be {allowed}")


def count_parameters(module: nn.Module) -> int:
    """Number of trainable numbers, shared ones once."""
    return sum(p.numel() for p in dict.fromkeys(module.parameters()))


def set_dropout(module: nn.Module, share: float) -> None:
    """Change the dropout of a model that exists (fine-tuning has another than pretraining)."""
    for child in module.modules():
        if isinstance(child, nn.Dropout):
            child.p = share


