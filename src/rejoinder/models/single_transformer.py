"""What models of one transformer have in common: the cross-encoder, the multi-context bi-encoder, pretraining."""

from __future__ import annotations

from typing import Any

from torch import nn

from rejoinder.models.dual_transformer import no_decay
from rejoinder.models.history import HistoryText
from rejoinder.models.transformer import Transformer, TransformerShape


class SingleTransformer(nn.Module):
    """One transformer; a subclass puts heads on it.

    Args:
        config: its structure.
        rows: rows of the token table.
    """

    padding_id = 0  # any id would do: padding has no part in anything
    history: HistoryText | None = None
    output_size = 1

    def __init__(self, config: TransformerShape, rows: int) -> None:
        super().__init__()
        self.config: Any = config
        self.transformer = Transformer(config, rows)

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

    def head_parameters(self) -> list[nn.Parameter]:
        """Those of the heads: all that are not the transformer's."""
        own = set(self.transformer.parameters())
        return [parameter for parameter in self.parameters() if parameter not in own]

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """All parameters, each once, by the part they belong to: recipes give each part a rate of its own."""
        return {
            "embedding": list(self.transformer.embeddings.parameters()),
            "blocks": list(self.transformer.blocks.parameters()),
            "head": self.head_parameters(),
        }

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Layer norms and biases, as is usual for BERT."""
        return no_decay(self)
