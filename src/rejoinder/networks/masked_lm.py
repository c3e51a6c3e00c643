"""Pretraining of a transformer (POLY, section 4.1; heads as in BERT, Devlin et al. 2019).

It guesses masked tokens of a context joined with its response, and whether a response followed.
The result is a start for rankers (`[init] transformer`, after `rejoinder export --to
transformers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.errors import InputError
from rejoinder.networks import layers
from rejoinder.networks.layers import (
    Encodings,
)
from rejoinder.networks.pair_batches import BesideTokens
from rejoinder.networks.transformer import DialogueShape, GeluLinear, Transformer, TransformerModel


@dataclass(frozen=True)
class MaskedLmConfig(DialogueShape):
    """Every structural choice of a transformer that is pretrained. The defaults are BERT-base's."""

    kind: Literal["masked-lm"] = "masked-lm"


@dataclass(frozen=True, slots=True)
class MaskedBatch(BesideTokens):
    """Joined texts, and what is to be guessed of them: tokens, or whether the response follows.

    `places`, int64 (M,), are the packed tokens that were `targets`; `follows`, float32 (n,), is 1.0
    or 0.0.
    """

    places: Tensor
    targets: Tensor
    follows: Tensor | None = None


class MaskedLm(TransformerModel):
    """A transformer with heads for masked tokens and for the next text.

    The first one's last layer is the token table.
    """

    output_size = 1

    def __init__(self, config: MaskedLmConfig, rows: int) -> None:
        super().__init__(config)
        d = config.hidden_size
        self.transformer = Transformer(config, rows)
        self.transform = GeluLinear(d, d, config.activation)
        self.transform_norm = nn.LayerNorm(d, config.norm_epsilon)
        self.token_bias = nn.Parameter(torch.zeros(rows))
        self.follows = nn.Linear(d, 1)
        for layer in (self.transform, self.follows):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)

    def token_scores(self, x: Tensor) -> Tensor:
        """Return scores of all tokens of the vocabulary for token vectors (M, d): (M, rows)."""
        table = self.transformer.embeddings.tokens.weight
        return F.linear(self.transform_norm(self.transform(x)), table, self.token_bias)

    def encode_pairs(self, batch: MaskedBatch, pairs: int, histories: Tensor) -> Encodings:  # noqa: ARG002
        """Return "losses" of each guess, and "hits", 1.0 where it is right.

        Both are float32, (M,) or (n,).
        """
        x = self.transformer(batch.tokens)
        if batch.follows is None:
            scores = self.token_scores(x.index_select(0, batch.places)).float()
            losses = F.cross_entropy(scores, batch.targets, reduction="none")
            hits = scores.detach().argmax(dim=1) == batch.targets
        else:
            scores = self.follows(layers.first(x, batch.tokens))[:, 0].float()
            losses = F.binary_cross_entropy_with_logits(scores, batch.follows, reduction="none")
            hits = (scores.detach() > 0) == (batch.follows > 0)
        return {"losses": losses, "hits": hits.float()}


def refuse_to_rank(*_: object, name: str = "", **__: object) -> NoReturn:
    """Refuse to open a pretrained transformer to rank with; the error says what it is for."""
    raise InputError(
        f"{name or 'this model'} is a pretrained transformer, which ranks nothing yet:"
        " rejoinder export --to transformers writes a checkpoint,"
        " from which another encoder starts (init.transformer)"
    )
