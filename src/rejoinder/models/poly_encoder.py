"""The poly-encoder (Humeau et al. 2020, "Poly-encoders", section 4.4): "poly-encoder".

A response is one vector, as in a bi-encoder, so that candidates can be encoded ahead of time. A context is m vectors:
m learnt codes that attend over its token vectors, or the vectors of its first or last tokens. A response attends over
them; how a score follows is told in `attended`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from rejoinder.models import reductions
from rejoinder.models.dialogue_encoder import PolyDialogueEncoder
from rejoinder.models.dual_transformer import DualShape, DualTransformer, dialogue
from rejoinder.models.families import Family
from rejoinder.models.inference import pack_linears
from rejoinder.models.packing import TokenBatch
from rejoinder.models.reductions import Codes
from rejoinder.models.transformer import check
from rejoinder.text.pretrained import Pretrained


@dataclass(frozen=True)
class PolyEncoderConfig(DualShape):
    """Every structural choice of a poly-encoder. The defaults are POLY's."""

    kind: Literal["poly-encoder"] = "poly-encoder"
    """Which model this is."""
    m: int = 64
    """Vectors of a context (POLY: 16, 64, 360)."""
    codes: Literal["learnt", "first", "last", "last-and-first"] = "learnt"
    """What they are: learnt codes' attention, the first m outputs, the last m, or the last m and the first (m + 1)."""
    code_range: float = 1.0
    """Learnt codes start uniform from 0 to this (original code: 1). Near 0 they attend to all tokens alike, so that
    every vector starts as the mean, and the model as a bi-encoder that takes the mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.m > 0, "m", self.m, "a positive number")
        check(self.code_range > 0, "code_range", self.code_range, "a positive number")


class PolyEncoder(DualTransformer):
    """The dual encoder whose contexts are m vectors."""

    config: PolyEncoderConfig

    def __init__(self, config: PolyEncoderConfig, rows: int) -> None:
        super().__init__(config, rows)
        self.codes = Codes(config.m, config.hidden_size, config.code_range) if config.codes == "learnt" else None

    def reduce_context(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """(T, d) -> (n, m, d), zero rows where a context has fewer vectors."""
        if self.codes is not None:
            return self.codes(x, batch)
        take = {"first": reductions.first_m, "last": reductions.last_m, "last-and-first": reductions.last_m_and_first}
        return take[self.config.codes](x, batch, self.config.m)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """All parameters, each once, by the part they belong to; without learnt codes that part is empty."""
        return super().parameter_groups() | {"codes": [] if self.codes is None else list(self.codes.parameters())}


FAMILY = Family(
    config=PolyEncoderConfig,
    build=PolyEncoder,
    vocabulary="bpe",
    load_tokenizer=Pretrained.load,
    prepare=pack_linears,
    open=PolyDialogueEncoder,
    packing="apart",
    dialogue=dialogue,
)
