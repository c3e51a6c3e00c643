"""The bi-encoder (Humeau et al. 2020, "Poly-encoders", section 4.2): "bi-encoder".

Two transformers start from the same weights and are trained apart. Each reduces its token vectors to one; the score of
a response for a context is the dot product of their vectors, or, where one prefers it, their cosine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from rejoinder.models.dialogue_encoder import DialogueEncoder
from rejoinder.models.dual_transformer import DualShape, DualTransformer, dialogue
from rejoinder.models.families import Family
from rejoinder.models.inference import pack_linears
from rejoinder.text.pretrained import Pretrained


@dataclass(frozen=True)
class BiEncoderConfig(DualShape):
    """Every structural choice of a bi-encoder. The defaults are POLY's."""

    kind: Literal["bi-encoder"] = "bi-encoder"
    """Which model this is."""
    similarity: Literal["dot", "cosine"] = "dot"
    """What scores: the dot product (POLY), or the cosine, which [scale] multiplies in training."""


class BiEncoder(DualTransformer):
    """The dual encoder with one vector a side."""

    config: BiEncoderConfig

    def finish(self, vectors: Tensor) -> Tensor:
        """The last touch to all vectors, float32: unit length where the cosine scores."""
        if self.config.similarity == "cosine":
            return F.normalize(vectors.float(), dim=-1)
        return super().finish(vectors)


FAMILY = Family(
    config=BiEncoderConfig,
    build=BiEncoder,
    vocabulary="bpe",
    load_tokenizer=Pretrained.load,
    prepare=pack_linears,
    open=DialogueEncoder,
    packing="apart",
    dialogue=dialogue,
)
