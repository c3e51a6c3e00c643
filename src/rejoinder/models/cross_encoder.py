"""The cross-encoder (Humeau et al. 2020, "Poly-encoders", section 4.3): "cross-encoder".

One transformer reads a context and a response as one text, [S] context [S] response [S] with segments 0 and 1, and a
linear layer makes a score of its first output. Nothing can be computed ahead of time, so it ranks few candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from rejoinder.models import reductions
from rejoinder.models.convert import Encodings
from rejoinder.models.cross_ranker import CrossRanker
from rejoinder.models.dual_transformer import DialogueShape, dialogue, no_decay
from rejoinder.models.families import Family
from rejoinder.models.inference import pack_linears
from rejoinder.models.packing import TokenBatch
from rejoinder.models.transformer import Transformer
from rejoinder.text.pretrained import Pretrained


@dataclass(frozen=True)
class CrossEncoderConfig(DialogueShape):
    """Every structural choice of a cross-encoder. The defaults are POLY's."""

    kind: Literal["cross-encoder"] = "cross-encoder"
    """Which model this is."""


class CrossEncoder(nn.Module):
    """The ranker that reads context and response together.

    Args:
        config: its structure.
        rows: rows of the token table.
    """

    padding_id = 0
    history = None
    output_size = 1

    def __init__(self, config: CrossEncoderConfig, rows: int) -> None:
        super().__init__()
        self.config = config
        self.transformer = Transformer(config, rows)
        self.head = nn.Linear(config.hidden_size, 1)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    @property
    def transformers(self) -> list[Transformer]:
        """All transformers; pretrained weights go into each."""
        return [self.transformer]

    @property
    def embedding(self) -> nn.Embedding:
        """The token table."""
        return self.transformer.embeddings.tokens

    @property
    def blocks(self) -> nn.ModuleList:
        """The blocks."""
        return self.transformer.blocks

    @property
    def active_blocks(self) -> int:
        """Blocks that are computed."""
        return self.transformer.active_blocks

    def set_active_blocks(self, count: int) -> None:
        """Compute and train only the first `count` blocks."""
        self.transformer.set_active_blocks(count)

    def score(self, batch: TokenBatch) -> Tensor:
        """Scores of joined texts, float32 (n,)."""
        return self.head(reductions.first(self.transformer(batch), batch))[:, 0].float()

    def encode_pairs(self, batch: TokenBatch, pairs: int, histories: Tensor) -> Encodings:  # noqa: ARG002
        """What training asks for: "scores" (K, C) of each context's own candidates, the right one first.

        Args:
            batch: K · C joined texts, those of a context one after the other.
            pairs: K.
            histories: empty; earlier messages are a part of the contexts.
        """
        return {"scores": self.score(batch).view(pairs, -1)}

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """All parameters, each once, by the part they belong to: recipes give each part a rate of its own."""
        return {
            "embedding": list(self.transformer.embeddings.parameters()),
            "blocks": list(self.transformer.blocks.parameters()),
            "head": list(self.head.parameters()),
        }

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Layer norms and biases, as is usual for BERT."""
        return no_decay(self)


FAMILY = Family(
    config=CrossEncoderConfig,
    build=CrossEncoder,
    vocabulary="bpe",
    load_tokenizer=Pretrained.load,
    prepare=pack_linears,
    open=CrossRanker,
    packing="joined",
    dialogue=dialogue,
)
