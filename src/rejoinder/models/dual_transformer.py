"""What bi-encoder and poly-encoder have in common: two transformers, one for contexts, one for responses.

Both start from the same weights and are trained apart (POLY, section 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from rejoinder.models import reductions
from rejoinder.models.convert import Encodings
from rejoinder.models.dialogue import Dialogue
from rejoinder.models.layers import norm_parameters
from rejoinder.models.packing import SidesBatch, TokenBatch
from rejoinder.models.transformer import Transformer, TransformerShape, check
from rejoinder.text.pretrained import Pretrained


@dataclass(frozen=True)
class DialogueShape(TransformerShape):
    """A transformer that reads conversations."""

    context_length: int = 360
    """Tokens of a context that are read, the newest ones (POLY: 360; a response has text.max_length, POLY: 72)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        most = self.positions
        check(8 <= self.context_length <= most, "context_length", self.context_length, f"8 to {most}, the positions")

    history_text = None
    """Earlier messages are read as a part of the context, not as a text of their own."""


@dataclass(frozen=True)
class DualShape(DialogueShape):
    """Two transformers whose outputs are reduced to vectors."""

    reduction: Literal["first", "mean", "mean-of-first-m"] = "first"
    """How a text's token vectors become one: the first ([S]), the mean of all, or the mean of the first few."""
    mean_with_first: bool = True
    """Whether the mean of all counts the first [S] (POLY's text), or not (its Table 7)."""
    reduced_tokens: int = 64
    """Tokens of which "mean-of-first-m" takes the mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.reduced_tokens > 0, "reduced_tokens", self.reduced_tokens, "a positive number")


def dialogue(config: DialogueShape, tokenizer: Pretrained, max_length: int) -> Dialogue:
    """How a model of this structure reads conversations, with responses of at most `max_length` tokens."""
    check(3 <= max_length <= config.positions, "text.max_length", max_length, f"3 to {config.positions}, the positions")
    start, end, turn = tokenizer.start_id, tokenizer.end_id, tokenizer.turn_id
    return Dialogue(tokenizer, config.context_length, max_length, (start,), (end,), (turn,))


class DualTransformer(nn.Module):
    """Two transformers; a subclass says what becomes of a context's token vectors.

    Args:
        config: its structure.
        rows: rows of the token tables.
    """

    padding_id = 0  # any id would do: padding has no part in anything
    history = None

    def __init__(self, config: DualShape, rows: int) -> None:
        super().__init__()
        self.config: DualShape = config
        self.output_size = config.hidden_size
        self.context = Transformer(config, rows)
        self.response = Transformer(config, rows)
        self.response.load_state_dict(self.context.state_dict())

    @property
    def transformers(self) -> list[Transformer]:
        """All transformers; pretrained weights go into each."""
        return [self.context, self.response]

    @property
    def embedding(self) -> nn.ModuleList:
        """The token tables."""
        return nn.ModuleList(each.embeddings.tokens for each in self.transformers)

    @property
    def blocks(self) -> nn.ModuleList:
        """The blocks of both sides, a pair for each depth."""
        pairs = zip(self.context.blocks, self.response.blocks, strict=True)
        return nn.ModuleList(nn.ModuleList(pair) for pair in pairs)

    @property
    def active_blocks(self) -> int:
        """Blocks that are computed."""
        return self.context.active_blocks

    def set_active_blocks(self, count: int) -> None:
        """Compute and train only the first `count` blocks of both sides."""
        for transformer in self.transformers:
            transformer.set_active_blocks(count)

    def reduce(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """One vector of each text: (T, d) -> (n, d)."""
        config = self.config
        if config.reduction == "first":
            return reductions.first(x, batch)
        if config.reduction == "mean":
            return reductions.mean(x, batch, with_first=config.mean_with_first)
        return reductions.mean_of_first_m(x, batch, config.reduced_tokens)

    def reduce_context(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """What a context becomes: (T, d) -> (n, d) or (n, m, d)."""
        return self.reduce(x, batch)

    def finish(self, vectors: Tensor) -> Tensor:
        """The last touch to all vectors, float32."""
        return vectors.float()

    def encode(self, batch: TokenBatch, side: str) -> Tensor:
        """Vectors of the texts of a batch as "context" or "response"."""
        if side == "response":
            return self.finish(self.reduce(self.response(batch), batch))
        return self.finish(self.reduce_context(self.context(batch), batch))

    def encode_pairs(self, batch: SidesBatch, pairs: int, histories: Tensor) -> Encodings:  # noqa: ARG002
        """What training asks for: "context" (K, d) or (K, m, d), and "response" (K + M, d).

        Args:
            batch: K contexts, and the responses: those of the K pairs, then any further ones.
            pairs: K.
            histories: empty; earlier messages are a part of the contexts.
        """
        return {"context": self.encode(batch.contexts, "context"), "response": self.encode(batch.responses, "response")}

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """All parameters, each once, by the part they belong to: recipes give each part a rate of its own."""
        return {
            "embedding": [p for each in self.transformers for p in each.embeddings.parameters()],
            "blocks": [p for each in self.transformers for p in each.blocks.parameters()],
        }

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Layer norms and biases, as is usual for BERT."""
        return no_decay(self)


def no_decay(module: nn.Module) -> set[nn.Parameter]:
    """Parameters of layer norms, and biases."""
    biases = {parameter for name, parameter in module.named_parameters() if name.endswith("bias")}
    return set(norm_parameters(module)) | biases
