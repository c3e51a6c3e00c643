"""The cross-encoder (Humeau et al. 2020, "Poly-encoders", section 4.3): "cross-encoder".

One transformer reads a context and a response as one text, [S] context [S] response [S] with segments 0 and 1, and a
linear layer makes a score of its first output. Nothing can be computed ahead of time, so it ranks few candidates.

Weights of a sentence encoder know how near two texts are by the means of their outputs, and a new linear layer on the
first output knows nothing. `mean_match` adds what they know: the cosine of the means over the context's and over the
response's outputs, of tokens that have read each other, times a learnt factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.models import reductions
from rejoinder.models.convert import Encodings
from rejoinder.models.cross_ranker import CrossRanker
from rejoinder.models.dual_transformer import DialogueShape, dialogue
from rejoinder.models.families import Family
from rejoinder.models.inference import pack_linears
from rejoinder.models.packing import TokenBatch
from rejoinder.models.single_transformer import SingleTransformer
from rejoinder.models.transformer import check
from rejoinder.text.pretrained import Pretrained


@dataclass(frozen=True)
class CrossEncoderConfig(DialogueShape):
    """Every structural choice of a cross-encoder. The defaults are POLY's."""

    kind: Literal["cross-encoder"] = "cross-encoder"
    """Which model this is."""
    mean_match: float = 0.0
    """First value of the learnt factor of the cosine between the means of the context's and of the response's outputs,
    which is added to the score; 0: there is no such part (POLY)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.mean_match >= 0, "mean_match", self.mean_match, "0 or more")


class CrossEncoder(SingleTransformer):
    """The ranker that reads context and response together.

    Args:
        config: its structure.
        rows: rows of the token table.
    """

    def __init__(self, config: CrossEncoderConfig, rows: int) -> None:
        super().__init__(config, rows)
        self.head = nn.Linear(config.hidden_size, 1)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)
        self.match = nn.Parameter(torch.tensor(float(config.mean_match))) if config.mean_match else None

    def score(self, batch: TokenBatch) -> Tensor:
        """Scores of joined texts, float32 (n,)."""
        x = self.transformer(batch)
        scores = self.head(reductions.first(x, batch))[:, 0].float()
        if self.match is None:
            return scores
        before, behind = reductions.segment_means(x, batch)
        return scores + self.match.float() * F.cosine_similarity(before.float(), behind.float())

    def encode_pairs(self, batch: TokenBatch, pairs: int, histories: Tensor) -> Encodings:  # noqa: ARG002
        """What training asks for: "scores" (K, C) of each context's own candidates, the right one first.

        Args:
            batch: K · C joined texts, those of a context one after the other.
            pairs: K.
            histories: empty; earlier messages are a part of the contexts.
        """
        return {"scores": self.score(batch).view(pairs, -1)}

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Layer norms and biases, as is usual for BERT, and the factor of the match."""
        return super().no_decay_parameters() | (set() if self.match is None else {self.match})


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
