"""Dual encoders whose sides share one trunk, and their heads: ConveRT and its kin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.networks.layers import (
    GATE,
    Encodings,
    GatedLinear,
    HistoryGate,
    norm_parameters,
)
from rejoinder.networks.packing import AnchoredBatch, TokenBatch, TrunkBatch, VectorBatch
from rejoinder.text.dialogue import HistoryText


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

        h_x is (n, d), the context and slot of each text (2, m).
        """
        return torch.zeros_like(x).index_copy(0, histories[0], texts)

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
        m), and the responses, those of the K pairs first. Of an anchored batch "drift" says how far
        r has moved from the start.
        """
        if self.history is None:
            x, y = self(batch, pairs)
            return {"context": x, "response": y}
        first = pairs + histories.shape[1]
        r, drift = self._reduced(batch, pairs, first)
        x = self.head("context")(r[:pairs])
        y = self.head("response")(r[first:])
        z = self.pool_history(x, self.head("history")(r[pairs:first]), histories)
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


class FeedForward2(nn.Module):
    """From r, or another input of `in_size`, to h for one side (CONVERT 3.2).

    Layout "paper": each hidden layer is x + act(linear(x)), normalised like the blocks; where the
    first one changes the size, its skip connection is a projection. Layout "original": layer norm,
    layers of bias-free linear, activation and layer norm, a linear layer plus `input_skip`, a
    projection of the input that all sides share, layer norm. `config` is a `ConvertConfig`.
    """

    def __init__(
        self, config: Any, input_skip: nn.Linear | None, in_size: int | None = None
    ) -> None:
        super().__init__()
        self.original = config.feed_forward_2 == "original"
        self.norm_first = not self.original and config.norm_placement == "before"
        self.skip = config.skip_connections and not self.original
        in_size = in_size or config.reduction_heads * config.embedding_size
        size = config.feed_forward_2_size
        self.in_size = in_size
        self.input_norm = nn.LayerNorm(in_size) if self.original else None
        self.widen = nn.Linear(in_size, size, bias=False) if self.skip and in_size != size else None
        sizes = [in_size] + [size] * (config.feed_forward_2_layers - 1)
        self.layers = nn.ModuleList(GatedLinear(s, size, bias=not self.original) for s in sizes)
        self.norms = nn.ModuleList(nn.LayerNorm(s if self.norm_first else size) for s in sizes)
        self.output = nn.Linear(size, config.output_size)
        self.input_skip = input_skip
        self.output_norm = nn.LayerNorm(config.output_size) if self.original else None
        for layer in self.linears():
            nn.init.orthogonal_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        if config.zero_residual and self.skip:
            for weight in (
                layer.weight for layer in self.linears() if layer not in (self.widen, self.output)
            ):
                nn.init.zeros_(weight)

    def start_as_identity(self) -> None:
        """Give the input's direction back while the hidden layers are at zero.

        It does so as far as the sizes allow.
        """
        if self.skip and self.widen is None:
            nn.init.eye_(self.output.weight)
        elif self.widen is not None:  # its columns are orthonormal, so its transpose undoes it
            self.output.weight.data.copy_(self.widen.weight.data.T)

    def start_as_mean(self, heads: int) -> None:
        """Give the mean of the input's `heads` equal parts, as far as the sizes allow."""
        # built `on_meta_device`: PyTorch would import its compiler to divide nothing
        if self.output.weight.is_meta:
            return
        part = torch.eye(self.output.out_features, self.in_size // heads) / heads
        mean = part.repeat(1, heads)
        self.output.weight.data.copy_(
            mean if self.widen is None else mean @ self.widen.weight.data.T
        )

    def linears(self) -> Iterator[nn.Linear]:
        """Yield all linear layers, the shared one included."""
        for child in (self.widen, *self.layers, self.output, self.input_skip):
            if isinstance(child, nn.Linear):
                yield child

    def forward(self, r: Tensor) -> Tensor:
        """r (n, in_size) -> h (n, output_size), rows of unit length."""
        x = r if self.input_norm is None else self.input_norm(r)
        skipped = None if self.input_skip is None else self.input_skip(x)
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            gated = layer(norm(x) if self.norm_first else x)
            skip = x if self.widen is None or number else self.widen(x)
            x = torch.add(skip, gated, alpha=1 / GATE) if self.skip else gated / GATE
            x = x if self.norm_first else norm(x)
        h = self.output(x)
        if skipped is not None:
            h = h + skipped
        if self.output_norm is not None:
            h = self.output_norm(h)
        return F.normalize(h.float(), dim=-1)
