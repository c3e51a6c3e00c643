"""A bi-encoder that reads conversations as multi-context ConveRT does: "multi-context-bi-encoder".

One transformer reads newest message, history and response (POLY's two copies are "bi-encoder"); the mean of its token
vectors is a text's r. A linear head for each kind of text makes h of it, and two more combine h_x and h_z, as CONVERT,
section 3, has it. All heads start as the identity, so that an untrained model ranks as its transformer does by the
cosine, with the mean of the vectors of newest message and history for a context.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.models import reductions
from rejoinder.models.convert import Encodings
from rejoinder.models.encoder import Encoder
from rejoinder.models.families import Family
from rejoinder.models.history import HistoryText
from rejoinder.models.inference import pack_linears
from rejoinder.models.packing import TokenBatch
from rejoinder.models.single_transformer import SingleTransformer
from rejoinder.models.transformer import TransformerShape, check
from rejoinder.text.pretrained import MarkedPretrained


@dataclass(frozen=True)
class MultiContextBiEncoderConfig(TransformerShape):
    """Every structural choice of a multi-context bi-encoder."""

    kind: Literal["multi-context-bi-encoder"] = "multi-context-bi-encoder"
    """Which model this is."""
    history: int = 10
    """Earlier messages that are read, the newest ones (CONVERT: 10)."""
    numbered_history: bool = False
    """Put "0: ", "1: ", ... before the earlier messages, 0 for the newest of them (CONVERT's DSTC7)."""
    persona_first: bool = False
    """Read messages that begin "your persona: " (ConvAI2) before all other earlier ones, without these words."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.history > 0, "history", self.history, "a positive number; without one take a bi-encoder")

    @property
    def history_text(self) -> HistoryText:
        """How earlier messages become the text that the model reads."""
        return HistoryText(self.history, self.numbered_history, self.persona_first)


class MultiContextBiEncoder(SingleTransformer):
    """The dual encoder of one transformer and five linear heads.

    Args:
        config: its structure.
        rows: rows of the token table.
    """

    def __init__(self, config: MultiContextBiEncoderConfig, rows: int) -> None:
        super().__init__(config, rows)
        self.history = config.history_text
        self.output_size = self.reduction_size = d = config.hidden_size
        names = ("context", "history", "response", "combined_input", "combined_history")
        self.heads = nn.ModuleDict({name: nn.Linear(d, d, bias=False) for name in names})
        for weight in self.heads.parameters():
            nn.init.eye_(weight)

    def reduce(self, batch: TokenBatch) -> Tensor:
        """r of each text (n, d), the mean of its token vectors, in the caller's order: what transfers."""
        return reductions.mean(self.transformer(batch), batch)

    def encode_pairs(self, batch: TokenBatch, pairs: int, histories: Tensor) -> Encodings:
        """h_x as "input", h_z as "history", the combined encoding as "context", h_y as "response".

        Args:
            batch: K inputs, then the histories of those pairs that have one, then the responses: those of the K
                pairs, then any further ones.
            pairs: K.
            histories: the pairs that have a history, int64 (H,); h_z of the others is zero.
        """
        r = self.reduce(batch)
        inputs, earlier, responses = r[:pairs], r[pairs : pairs + len(histories)], r[pairs + len(histories) :]
        x = self._head("context", inputs)
        z = torch.zeros_like(x).index_copy(0, histories, self._head("history", earlier))
        return {"input": x, "history": z, "context": self.combine(x, z), "response": self._head("response", responses)}

    def encode(self, batch: TokenBatch, side: str) -> Tensor:
        """Vectors of all texts of a batch: their h as "context", "history" or "response", or their r ("reduction")."""
        r = self.reduce(batch)
        return r if side == "reduction" else self._head(side, r)

    def combine(self, x: Tensor, z: Tensor) -> Tensor:
        """h_x and h_z (n, d), h_z zero where there is no history -> the combined encoding (n, d)."""
        dtype = self.transformer.embeddings.norm.weight.dtype
        combined = self.heads["combined_input"](x.to(dtype)) + self.heads["combined_history"](z.to(dtype))
        return F.normalize(combined.float(), dim=-1)

    def _head(self, name: str, r: Tensor) -> Tensor:
        return F.normalize(self.heads[name](r).float(), dim=-1)

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Layer norms and biases, as is usual for BERT, and the heads, which decay would draw from the identity."""
        return super().no_decay_parameters() | set(self.heads.parameters())


FAMILY = Family(
    config=MultiContextBiEncoderConfig,
    build=MultiContextBiEncoder,
    vocabulary="bpe",
    load_tokenizer=MarkedPretrained.load,
    prepare=pack_linears,
    open=Encoder,
)
