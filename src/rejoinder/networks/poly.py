"""Poly-encoders and their siblings (Humeau et al. 2020, "Poly-encoders", section 4).

A score comes from two vectors (bi-encoder), from several vectors of the context that the response
attends over (poly-encoder, on transformers of its own or on ConveRT's trunk), or from the two texts
read together (cross-encoder).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import NonNegativeFloat, PositiveFloat
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.networks import layers
from rejoinder.networks.convert import Convert, ConvertConfig, FeedForward2
from rejoinder.networks.dual import SharedTrunk
from rejoinder.networks.layers import DropoutShare, Encodings, MessageGates, check
from rejoinder.networks.packing import TokenBatch
from rejoinder.networks.pair_batches import SidesBatch
from rejoinder.networks.rectangles import in_order
from rejoinder.networks.transformer import (
    DialogueShape,
    GeluLinear,
    Transformer,
    TransformerModel,
    TransformerShape,
)
from rejoinder.settings import Count, Share
from rejoinder.text.dialogue import Dialogue
from rejoinder.text.history import HistoryText
from rejoinder.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class DualShape(DialogueShape):
    """Two transformers whose outputs are reduced to vectors."""

    reduction: Literal["first", "mean", "mean-of-first-m"] = "first"
    """Reduction of a text's token vectors to one: the first ([S]), the mean of all, or the mean of
    the first few."""
    mean_with_first: bool = True
    """Include the first [S] in the mean of all (POLY's text), or not (its Table 7)."""
    reduced_tokens: Count = 64  # tokens of which "mean-of-first-m" takes the mean


@dataclass(frozen=True)
class BiEncoderConfig(DualShape):
    """Every structural choice of a bi-encoder. The defaults are POLY's."""

    kind: Literal["bi-encoder"] = "bi-encoder"
    similarity: Literal["dot", "cosine"] = "dot"
    """POLY: the dot product; [scale] multiplies the cosine in training."""


class BiEncoder(TransformerModel):
    """The dual encoder with one vector a side (POLY 4.2).

    Its two transformers start alike and are trained apart.
    """

    config: BiEncoderConfig | PolyEncoderConfig

    def __init__(self, config: BiEncoderConfig | PolyEncoderConfig, rows: int) -> None:
        super().__init__(config)
        self.output_size = config.hidden_size
        self.context = Transformer(config, rows)
        self.response = Transformer(config, rows)
        self.response.load_state_dict(self.context.state_dict())

    def reduce(self, transformer: Transformer, batch: TokenBatch) -> Tensor:
        """Return one vector of each text: (n, d)."""
        config = self.config
        if config.reduction == "first":
            return transformer.first(batch)
        x = transformer(batch)
        if config.reduction == "mean":
            return layers.mean(x, batch, with_first=config.mean_with_first)
        return layers.mean_of_first_m(x, batch, config.reduced_tokens)

    def reduce_context(self, batch: TokenBatch) -> Tensor:
        """Return what a context becomes: (n, d), or (n, m, d) of a poly-encoder."""
        return self.reduce(self.context, batch)

    def encode(self, batch: TokenBatch, side: str) -> Tensor:
        """Return the vectors of the texts of a batch as "context" or "response", float32."""
        if side == "response":
            vectors = self.reduce(self.response, batch).float()
        else:
            vectors = self.reduce_context(batch).float()
        cosine = getattr(self.config, "similarity", "dot") == "cosine"
        return F.normalize(vectors, dim=-1) if cosine else vectors

    def encode_pairs(self, batch: SidesBatch, pairs: int, histories: Tensor) -> Encodings:  # noqa: ARG002
        """Encode K contexts and the responses of their pairs and M further ones.

        The shapes are (K, d) or (K, m, d), and (K + M, d).
        """
        return {
            "context": self.encode(batch.contexts, "context"),
            "response": self.encode(batch.responses, "response"),
        }


@dataclass(frozen=True)
class PolyEncoderConfig(DualShape):
    """Every structural choice of a poly-encoder. The defaults are POLY's."""

    kind: Literal["poly-encoder"] = "poly-encoder"
    m: Count = 64  # vectors of a context (POLY: 16, 64, 360)
    codes: Literal["learnt", "first", "last", "last-and-first"] = "learnt"
    """Vectors of a context: learnt codes' attention, the first m outputs, the last m, or the last m
    and the first (m + 1)."""
    code_range: PositiveFloat = 1.0
    """Learnt codes start uniform from 0 to this; near 0 each vector starts as the mean."""


class PolyEncoder(BiEncoder):
    """The dual encoder with m vectors a context, which a response attends over (POLY 4.4)."""

    config: PolyEncoderConfig
    group = "codes"

    def __init__(self, config: PolyEncoderConfig, rows: int) -> None:
        super().__init__(config, rows)
        learnt = config.codes == "learnt"
        self.codes = (
            layers.Codes(config.m, config.hidden_size, config.code_range) if learnt else None
        )

    def reduce_context(self, batch: TokenBatch) -> Tensor:
        """Return m vectors of each context: (n, m, d), zero rows where it has fewer."""
        x = self.context(batch)
        if self.codes is not None:
            return self.codes(x, batch)
        take = {
            "first": layers.first_m,
            "last": layers.last_m,
            "last-and-first": layers.last_m_and_first,
        }
        return take[self.config.codes](x, batch, self.config.m)


@dataclass(frozen=True)
class PolyConvertConfig(ConvertConfig):
    """ConveRT's choices, and those of the poly-encoder on top."""

    kind: Literal["poly-convert"] = "poly-convert"  # type: ignore[assignment]  # another kind than its trunk's
    m: Count = 16  # vectors of a context
    code_range: PositiveFloat = 0.01
    """See `PolyEncoderConfig`; with 1 each would see one token of this trunk's."""
    context_length: Count = 120  # tokens of a context that are read, the newest ones

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.history == 0, "history", self.history, "0: the context is read whole")
        check(self.feed_forward_2 == "paper", "feed_forward_2", self.feed_forward_2, '"paper"')

    def dialogue(self, tokenizer: Tokenizer, max_length: int) -> Dialogue:
        """Return how conversations are read.

        ConveRT's vocabulary has no marks, so messages follow each other.
        """
        return Dialogue(tokenizer, self.context_length, max_length)


class PolyConvert(Convert):
    """A poly-encoder on ConveRT's trunk, which reads both sides.

    It reads contexts whole, oldest message first. A response becomes a unit vector as in ConveRT.
    Of a context, m learnt codes attend over the token vectors, and a feed-forward network 2 turns
    each result into a unit vector, times one learnt magnitude a: scores lie in ±a.
    """

    def __init__(self, config: PolyConvertConfig, rows: int) -> None:
        super().__init__(config, rows)
        self.codes = layers.Codes(config.m, config.embedding_size, config.code_range)
        self.context_head = FeedForward2(config, None, in_size=config.embedding_size)
        self.magnitude = nn.Parameter(torch.tensor(math.sqrt(config.output_size)))

    def context_vectors(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """Token vectors (T, e) -> the vectors of each context (n, m, d)."""
        attended = self.codes(x, batch)
        vectors = self.context_head(attended.flatten(0, 1)).unflatten(0, attended.shape[:2])
        return vectors * self.magnitude.float()

    def forward(self, batch: TokenBatch, contexts: int) -> tuple[Tensor, Tensor]:
        """Encode the first `contexts` texts as contexts, the others as responses.

        The shapes are (contexts, m, d) and (others, d).
        """
        x = self.tokens(batch)
        y = self.response_head(in_order(batch, self.reduction(x, batch)))
        return self.context_vectors(x, batch)[:contexts], y[contexts:]

    def encode(self, batch: TokenBatch, side: str) -> Tensor:
        """Return the vectors of texts as a side.

        They are (n, m, d) of "context", (n, d) of "response", or r ("reduction").
        """
        return (
            self.context_vectors(self.tokens(batch), batch)
            if side == "context"
            else super().encode(batch, side)
        )

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Return all parameters, each once, by the part they belong to."""
        return super().parameter_groups() | {"codes": [self.codes.weight, self.magnitude]}

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Return what weight decay leaves out: layer norms and the magnitude."""
        return super().no_decay_parameters() | {self.magnitude}


@dataclass(frozen=True)
class CrossEncoderConfig(DialogueShape):
    """Every structural choice of a cross-encoder. The defaults are POLY's."""

    kind: Literal["cross-encoder"] = "cross-encoder"
    mean_match: NonNegativeFloat = 0.0
    """First value of the factor of `CrossEncoder.match`; 0: there is none (POLY)."""


class CrossEncoder(TransformerModel):
    """The ranker that reads [S] context [S] response [S] with segments 0 and 1 (POLY, section 4.3).

    A linear layer on the first output gives the score. `mean_match` adds what the weights of a
    sentence encoder know already: the cosine of the means over the context's and the response's
    outputs, times a learnt factor.
    """

    output_size = 1

    def __init__(self, config: CrossEncoderConfig, rows: int) -> None:
        super().__init__(config)
        self.transformer = Transformer(config, rows)
        self.head = nn.Linear(config.hidden_size, 1)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)
        self.match = (
            nn.Parameter(torch.tensor(float(config.mean_match))) if config.mean_match else None
        )

    def score(self, batch: TokenBatch) -> Tensor:
        """Return the scores of joined texts, float32 (n,)."""
        if self.match is None:
            return self.head(self.transformer.first(batch))[:, 0].float()
        x = self.transformer(batch)
        scores = self.head(layers.first(x, batch))[:, 0].float()
        before, behind = layers.segment_means(x, batch)
        return scores + self.match.float() * F.cosine_similarity(before.float(), behind.float())

    def encode_pairs(self, batch: TokenBatch, pairs: int, histories: Tensor) -> Encodings:  # noqa: ARG002
        """Return "scores" (K, C) of K · C joined texts.

        Each context has its own candidates, the right one first.
        """
        return {"scores": self.score(batch).view(pairs, -1)}

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Return what weight decay leaves out: layer norms, biases, and the factor of the match."""
        return super().no_decay_parameters() | (set() if self.match is None else {self.match})


@dataclass(frozen=True)
class MultiContextBiEncoderConfig(TransformerShape):
    """Every structural choice of a multi-context bi-encoder."""

    kind: Literal["multi-context-bi-encoder"] = "multi-context-bi-encoder"
    history: Count = 10
    """Earlier messages that are read, the newest ones (CONVERT: 10); without any take a
    bi-encoder."""
    persona_first: bool = False
    """Read any number of "your persona: " messages (ConvAI2), without these words."""
    persona_weight: NonNegativeFloat = 0.0
    """Weight of what a response finds by attending over a persona's statements."""
    input_weight: NonNegativeFloat = 0.0
    """Weight of the newest message's own encoding, added to that of a conversation."""
    opening_weight: NonNegativeFloat = 0.0
    """Weight of r's direction, added to the encoding of a conversation's first message."""
    subject_threshold: Share = 0.0
    """Cosine with the earlier messages below which the newest begins a new subject."""
    head_size: Count = 512  # hidden units of the heads
    head_dropout: DropoutShare = 0.0

    @property
    def history_text(self) -> HistoryText:
        """Reading of earlier messages as the model's texts."""
        return HistoryText(self.history, False, self.persona_first, True, self.persona_weight)


class MultiContextBiEncoder(TransformerModel, SharedTrunk):
    """A bi-encoder that reads conversations as multi-context ConveRT does.

    Each earlier message is a text of its own. One transformer reads all messages and responses; the
    mean of its token vectors is a text's r. A residual feed-forward head for newest messages,
    earlier ones and responses makes h of it. h_x, what counts of the earlier messages
    (`MessageGates`), and what a feed-forward network makes of both are added up. These networks
    start at zero, so that an untrained model ranks as its transformer does by the cosine. Where the
    transformer learns nothing, training reads each text once (`training.initialisation`).

    To a conversation's first message, of which heads that learned from conversations know less than
    the transformer does, `opening_weight` adds r's direction; training does not use it.
    """

    trunk_groups = ("embedding", "blocks")  # the parameters that r depends on

    def __init__(self, config: MultiContextBiEncoderConfig, rows: int) -> None:
        super().__init__(config)
        self.transformer = Transformer(config, rows)
        self.history = config.history_text
        self.output_size = self.reduction_size = d = config.hidden_size
        sides = ("context", "history", "response")
        self.heads = nn.ModuleDict(
            {side: Perceptron(d, config.head_size, d, config.head_dropout) for side in sides}
        )
        self.message_gates = MessageGates(d, config.history + 1)
        self.combined = Perceptron(2 * d, config.head_size, d, config.head_dropout)
        self.gate = None
        self.input_weight = config.input_weight
        self.opening_weight = config.opening_weight
        self.subject_threshold = config.subject_threshold

    def reduce(self, batch: TokenBatch) -> Tensor:
        """Return r of each text (n, d), the mean of its token vectors, in the caller's order.

        It is what transfers.
        """
        return layers.mean(self.transformer(batch), batch)

    def head(self, side: str) -> Callable[[Tensor], Tensor]:
        """Return the head of a side, or of an "opening": r -> h, float32, rows of unit length."""
        if side == "opening":
            return self._open

        def encode(r: Tensor) -> Tensor:
            u = F.normalize(r.float(), dim=-1)
            return F.normalize(u + self.heads[side](u.to(r.dtype)).float(), dim=-1)

        return encode

    def _open(self, r: Tensor) -> Tensor:
        x = self.head("context")(r)
        c = self.combine(x, torch.zeros_like(x))
        return F.normalize(c + self.opening_weight * F.normalize(r.float(), dim=-1), dim=-1)

    def pool_history(self, x: Tensor, texts: Tensor, histories: Tensor) -> Tensor:
        """See `SharedTrunk.pool_history`: the sum of what counts of each message.

        Its length says how much.
        """
        return self.message_gates(x, texts, histories)

    def mix(self, x: Tensor, z: Tensor) -> Tensor:
        """See `SharedTrunk.mix`."""
        # not made longer: what the gates shut stays out
        bounded = z / z.norm(dim=-1, keepdim=True).clamp(min=1)
        both = torch.cat([x, bounded], dim=1).to(self.message_gates.weights.dtype)
        return F.normalize(x + z + self.combined(both).float(), dim=-1)

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Return what weight decay leaves out: norms, biases, gates."""
        return super().no_decay_parameters() | set(self.message_gates.parameters())


class Perceptron(nn.Module):
    """FF(√n · v) / √n of vectors v of n numbers and about unit length, with one hidden layer.

    It starts at zero.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.expand = GeluLinear(inputs, hidden, "gelu")
        self.project = nn.Linear(hidden, outputs)
        self.dropout = nn.Dropout(dropout)
        self.scale = math.sqrt(inputs)
        nn.init.zeros_(self.project.weight)
        nn.init.zeros_(self.project.bias)

    def forward(self, v: Tensor) -> Tensor:
        """(k, inputs) -> (k, outputs)."""
        return self.project(self.dropout(self.expand(v * self.scale))) / self.scale
