"""A poly-encoder on ConveRT's trunk: "poly-convert".

The trunk of ConveRT reads both sides. A response goes on as in ConveRT, to y, a vector of unit length. Of a context, m
learnt codes attend over the trunk's token vectors (POLY, section 4.4), and a feed-forward network 2 turns each of the m
results into a unit vector; all of them are multiplied by one learnt magnitude a. So l_i = a · cos, and a score lies
between -a and a. Contexts are read whole, oldest message first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from rejoinder.models.convert import Convert, ConvertConfig, FeedForward2
from rejoinder.models.dialogue import Dialogue
from rejoinder.models.dialogue_encoder import PolyDialogueEncoder
from rejoinder.models.families import Family
from rejoinder.models.inference import pack_linears
from rejoinder.models.packing import TokenBatch
from rejoinder.models.reductions import Codes
from rejoinder.models.transformer import check
from rejoinder.text.subwords import Subwords


@dataclass(frozen=True)
class PolyConvertConfig(ConvertConfig):
    """ConveRT's choices, and those of the poly-encoder on top."""

    kind: Literal["poly-convert"] = "poly-convert"  # type: ignore[assignment]  # another kind than its trunk's
    """Which model this is."""
    m: int = 16
    """Vectors of a context."""
    code_range: float = 0.01
    """Codes start uniform from 0 to this: near 0 each attends to all tokens alike. POLY's code has 1, by which each of
    them would see one token, since this trunk's vectors are large."""
    context_length: int = 120
    """Tokens of a context that are read, the newest ones."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.m > 0, "m", self.m, "a positive number")
        check(self.code_range > 0, "code_range", self.code_range, "a positive number")
        check(self.context_length > 0, "context_length", self.context_length, "a positive number")
        check(self.history == 0, "history", self.history, "0: the context is read whole")
        check(self.feed_forward_2 == "paper", "feed_forward_2", self.feed_forward_2, '"paper"')


class PolyConvert(Convert):
    """The dual encoder whose contexts are m vectors of ConveRT's trunk."""

    def __init__(self, config: PolyConvertConfig, rows: int) -> None:
        super().__init__(config, rows)
        self.codes = Codes(config.m, config.embedding_size, config.code_range)
        self.context_head = FeedForward2(config, None, in_size=config.embedding_size)
        self.magnitude = nn.Parameter(torch.tensor(math.sqrt(config.output_size)))

    def context_vectors(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """Token vectors (T, e) -> the vectors of each context (n, m, d)."""
        attended = self.codes(x, batch)
        vectors = self.context_head(attended.flatten(0, 1)).view(*attended.shape[:2], -1)
        return vectors * self.magnitude.float()

    def forward(self, batch: TokenBatch, contexts: int) -> tuple[Tensor, Tensor]:
        """Encode both sides at once: the first `contexts` texts are contexts, the others responses.

        Returns:
            (contexts, m, d) and (others, d), float32.
        """
        x = self.tokens(batch)
        y = self.response_head(self.reduction(x, batch)[batch.restore])
        return self.context_vectors(x, batch)[:contexts], y[contexts:]

    def encode(self, batch: TokenBatch, side: str) -> Tensor:
        """Vectors of the texts of a batch as "context" (n, m, d) or "response" (n, d), or their r ("reduction")."""
        return self.context_vectors(self.tokens(batch), batch) if side == "context" else super().encode(batch, side)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """All parameters, each once, by the part they belong to: recipes give each part a rate of its own."""
        return super().parameter_groups() | {"codes": [self.codes.weight, self.magnitude]}

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Layer norms and the magnitude."""
        return super().no_decay_parameters() | {self.magnitude}


def dialogue(config: PolyConvertConfig, tokenizer: Subwords, max_length: int) -> Dialogue:
    """How conversations are read: ConveRT's vocabulary has no marks, so the messages follow each other."""
    return Dialogue(tokenizer, config.context_length, max_length)


FAMILY = Family(
    config=PolyConvertConfig,
    build=PolyConvert,
    vocabulary="subwords",
    load_tokenizer=Subwords.load,
    prepare=pack_linears,
    open=PolyDialogueEncoder,
    dialogue=dialogue,
)
