"""A dual encoder's two sides on a shared trunk, as ConveRT's."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.networks.layers import (
    Encodings,
    HistoryGate,
    norm_parameters,
)
from rejoinder.networks.packing import TokenBatch
from rejoinder.networks.pair_batches import AnchoredBatch, TrunkBatch, VectorBatch
from rejoinder.text.history import HistoryText


class SharedTrunk(nn.Module):
    """A dual encoder whose sides share one trunk, which reduces any text to r.

    A head of each side makes h of r.
    """

    output_size: int  # of h
    reduction_size: int  # of r
    history: HistoryText | None = None
    """Reading of earlier messages; None: the newest message alone."""
    # cosine with the earlier messages below which the newest begins a new subject
    subject_threshold = 0.0
    # of r's direction, added to the encoding of a conversation's first message
    opening_weight = 0.0
    input_weight = 0.0  # of h_x in the combined encoding, added to what `mix` makes
    gate: HistoryGate | None  # without a default here: it would hide the module of that name

    def reduce(self, batch: TokenBatch) -> Tensor:
        """Return r of each text, in the caller's order: what transfers to other tasks."""
        raise NotImplementedError

    def head(self, side: str) -> Callable[[Tensor], Tensor]:
        """Return the network of a side ("context", "response", "history"), r -> h.

        h is float32 with rows of unit length.
        """
        return cast("Callable[[Tensor], Tensor]", getattr(self, f"{side}_head"))

    def pool_history(self, x: Tensor, texts: Tensor, histories: Tensor) -> Tensor:
        """Pool the histories' h (m, d) into h_z (n, d), zero without a history.

        h_x is (n, d), the context and slot of each text (2, m), or (3, m), see `encode_pairs`.
        """
        return torch.zeros_like(x).index_add(0, histories[0], texts)

    def combine(self, x: Tensor, z: Tensor) -> Tensor:
        """Combine h_x and h_z (n, d_out), zero without a history, into one encoding (n, d_out)."""
        c = self.mix(x, z if self.gate is None else self.gate(x, z))
        return F.normalize(c + self.input_weight * x, dim=-1) if self.input_weight else c

    def mix(self, x: Tensor, z: Tensor) -> Tensor:
        """Do what `combine` does behind the gate."""
        raise NotImplementedError

    def forward(self, batch: TokenBatch, contexts: int) -> tuple[Tensor, Tensor]:
        """Encode the first `contexts` texts as inputs, the others as responses.

        The result is h_x and h_y (n, d_out).
        """
        r = self.reduce(batch)
        return self.head("context")(r[:contexts]), self.head("response")(r[contexts:])

    def encode(self, batch: TokenBatch, side: str) -> Tensor:
        """Return the vectors of all texts of a batch: h of a side, or r ("reduction")."""
        r = self.reduce(batch)
        return r if side == "reduction" else self.head(side)(r)

    def encode_conversations(
        self, inputs: TokenBatch, histories: TokenBatch, there: Tensor
    ) -> Tensor:
        """Return the combined encodings; `there`, (n,), is False where one has no history."""
        return self.combine(
            self.encode(inputs, "context"), self.encode(histories, "history") * there[:, None]
        )

    def encode_pairs(self, batch: TrunkBatch, pairs: int, histories: Tensor) -> Encodings:
        """Encode a training batch of K pairs: h_x as "context" and h_y as "response".

        With a history h_x is "input", h_z "history", and the combined encoding "context". The batch
        holds K inputs, the texts of histories, whose pairs and slots are in `histories`, int64 (2,
        m), and the responses, those of the K pairs first. A third row of `histories` is 0 where a
        text counts for nothing, else 1. Of an anchored batch "drift" says how far r has moved from
        the start.
        """
        if self.history is None:
            x, y = self(batch, pairs)
            return {"context": x, "response": y}
        first = pairs + histories.shape[1]
        r, drift = self._reduced(batch, pairs, first)
        x = self.head("context")(r[:pairs])
        y = self.head("response")(r[first:])
        texts = self.head("history")(r[pairs:first])
        if len(histories) == 3:
            texts = texts * histories[2][:, None]
        z = self.pool_history(x, texts, histories)
        unit = F.normalize(z, dim=-1) if self.history.apart else z
        return {"input": x, "history": unit, "context": self.combine(x, z), "response": y, **drift}

    def _reduced(self, batch: TrunkBatch, pairs: int, first: int) -> tuple[Tensor, Encodings]:
        """Return r of all texts, and how far anchored pairs have moved, (pairs,).

        The distance is 1 - cos, the mean of both sides.
        """
        if isinstance(batch, VectorBatch):
            return batch.vectors, {}
        if not isinstance(batch, AnchoredBatch):
            return self.reduce(batch), {}
        live = self.reduce(batch.tokens).float()
        histories = batch.start[pairs:first]
        start = torch.cat([batch.start[:pairs], batch.start[first : first + pairs]])
        moved = 1 - F.cosine_similarity(live[: 2 * pairs], start)
        return torch.cat([live[:pairs], histories, live[pairs:]]), {
            "drift": moved.view(2, pairs).mean(dim=0)
        }

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Return what weight decay leaves out.

        That is layer norms (CONVERT 3.4), and the gate's two numbers.
        """
        gate = getattr(self, "gate", None)
        return {*norm_parameters(self), *([] if gate is None else gate.parameters())}
