"""What several models share. Shapes: T tokens of a batch (see `packing`), d embedding size, n texts, L their length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, TypeAlias

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.errors import InputError
from rejoinder.networks.packing import AnchoredBatch, Segment, TokenBatch, VectorBatch
from rejoinder.text.dialogue import HistoryText

Encodings: TypeAlias = Mapping[str, Tensor]
"""What a model makes of K pairs: float32 matrices by name, whose rows follow the pairs. In training each one but
"response" ranks the responses; "context" is the one that ranks in use."""

DropoutShare: TypeAlias = Annotated[float, Field(ge=0, lt=1)]

MASKED = -3e4
"""Score of a pair that must not attend. Finite also in half precision: a query with no key in reach gives no NaN."""


class Dropout(nn.Dropout):
    """Dropout whose mask costs a quarter of PyTorch's on a CPU: each 64-bit random number decides about four values."""

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape -> the same shape."""
        if not self.training or self.p == 0.0 or x.device.type != "cpu":
            return super().forward(x)
        dropped = round(self.p * 2**16)
        drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        keep = drawn.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - 2**15
        return x * keep.to(x.dtype).mul_(1 / (1 - dropped / 2**16))


class Reduction(nn.Module):
    """From the token vectors of a text to one vector r (CONVERT 3.1), a head at a time.

    r_head = n^(-1/2) Σ_i Σ_j a_ij x_j, with a the attention of each of the n tokens to every other. As in the original
    code there is no value or output projection and no 1/sqrt(64) inside the softmax. r has heads · size numbers.
    """

    def __init__(self, size: int, heads: int, head_size: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key = nn.Linear(size, 2 * heads * head_size, bias=False)
        nn.init.normal_(self.query_key.weight, std=0.1 / math.sqrt(size))  # nearly even weights at the start

    def forward(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """x (T, d) -> r (n, heads · d), the texts in the batch's own order."""
        query_key = self.query_key(x)
        parts = [
            self._reduce(tokens, part, segment)
            for (tokens, segment), (part, _) in zip(batch.parts(x), batch.parts(query_key), strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _reduce(self, tokens: Tensor, part: Tensor, segment: Segment) -> Tensor:
        n, length, heads = segment.count, segment.length, self.heads
        q, k = split_heads(part, n, length, 2, heads)
        scores = torch.bmm(q, k.transpose(1, 2)).view(n, heads, length, length)
        if segment.real is None:  # the length may be a tensor here, while `inference` records
            weights = torch.softmax(scores, dim=-1, dtype=torch.float32).sum(dim=2) / length**0.5
        else:
            attention = torch.softmax(
                scores.masked_fill(~segment.real[:, None, None, :], MASKED), dim=-1, dtype=torch.float32
            )
            real = segment.real[:, None, :, None].to(attention.dtype)  # rows of padded queries count as zero
            weights = (attention * real).sum(dim=2) / real.sum(dim=2).clamp(min=1).sqrt()
        return torch.bmm(weights.to(tokens.dtype), tokens.view(n, length, tokens.shape[1])).view(n, -1)


class NearGate(nn.Module):
    """How far what was said before counts: sigmoid(slope · (cos(h_x, h) - threshold) - √d · v·h_x), all learnt.

    A newest message that has little to do with it, or that reads like the first one of a conversation (v, zero at the
    start), begins a new subject, and is read alone.
    """

    def __init__(self, size: int, slope: float) -> None:
        super().__init__()
        self.slope, self.threshold = nn.Parameter(torch.tensor(slope)), nn.Parameter(torch.tensor(0.1))
        self.opens = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        """h_x and h (n, d), rows of unit length or zero -> (n, 1)."""
        opens = math.sqrt(x.shape[-1]) * (x * self.opens).sum(dim=-1, keepdim=True)
        return torch.sigmoid(self.slope * ((x * h).sum(dim=-1, keepdim=True) - self.threshold) - opens)


class HistoryGate(NearGate):
    """What counts of a history that was read as one text; see `NearGate`."""

    def __init__(self, size: int) -> None:
        super().__init__(size, 10.0)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        """h_x and h_z (n, d), rows of unit length or zero -> what counts of h_z."""
        return h * super().forward(x, h)


class MessageGates(nn.Module):
    """What counts of earlier messages: of h_k, in slot k, w_k times its `NearGate`; w_k are learnt."""

    def __init__(self, size: int, slots: int) -> None:
        super().__init__()
        self.weights, self.near = nn.Parameter(0.25 * 0.8 ** torch.arange(slots)), NearGate(size, 5.0)

    def forward(self, x: Tensor, messages: Tensor, histories: Tensor) -> Tensor:
        """h_x (n, d), h of all messages (m, d), the context and the slot of each, int64 (2, m) -> their sums (n, d)."""
        owners, slots = histories
        counted = messages * self.near(x[owners], messages) * self.weights[slots][:, None]
        return torch.zeros_like(x).index_add(0, owners, counted)


class SharedTrunk(nn.Module):
    """A dual encoder whose sides share one trunk, which reduces any text to r; a head of each side makes h of r."""

    history: HistoryText | None = None  # how earlier messages are read; None: the newest message alone
    subject_threshold = 0.0  # cosine with the earlier messages below which the newest begins a new subject
    opening_weight = 0.0  # of r's direction, added to the encoding of a conversation's first message
    input_weight = 0.0  # of h_x in the combined encoding, added to what `mix` makes
    gate: HistoryGate | None  # without a default here: it would hide the module of that name

    def reduce(self, batch: TokenBatch) -> Tensor:
        """Return r of each text, in the caller's order: what transfers to other tasks."""
        raise NotImplementedError

    def head(self, side: str) -> Callable[[Tensor], Tensor]:
        """Return the network of a side ("context", "response", "history"): r -> h, float32, rows of unit length."""
        found: Callable[[Tensor], Tensor] = getattr(self, f"{side}_head")
        return found

    def pool_history(self, x: Tensor, texts: Tensor, histories: Tensor) -> Tensor:
        """h_x (n, d), h of the histories' texts (m, d), the context and the slot of each (2, m) -> h_z (n, d).

        It is zero where there is no history. Here each has one text, whose h it is.
        """
        return torch.zeros_like(x).index_copy(0, histories[0], texts)

    def combine(self, x: Tensor, z: Tensor) -> Tensor:
        """h_x and h_z (n, d_out), h_z zero where there is no history -> the combined encoding (n, d_out)."""
        c = self.mix(x, z if self.gate is None else self.gate(x, z))
        return F.normalize(c + self.input_weight * x, dim=-1) if self.input_weight else c

    def mix(self, x: Tensor, z: Tensor) -> Tensor:
        """Do what `combine` does behind the gate."""
        raise NotImplementedError

    def forward(self, batch: TokenBatch, contexts: int) -> tuple[Tensor, Tensor]:
        """Encode the first `contexts` texts as inputs, the others as responses: h_x (contexts, d_out) and h_y."""
        r = self.reduce(batch)
        return self.head("context")(r[:contexts]), self.head("response")(r[contexts:])

    def encode(self, batch: TokenBatch, side: str) -> Tensor:
        """Return the vectors of all texts of a batch: h of a side, or r ("reduction")."""
        r = self.reduce(batch)
        return r if side == "reduction" else self.head(side)(r)

    def encode_conversations(self, inputs: TokenBatch, histories: TokenBatch, there: Tensor) -> Tensor:
        """Return the combined encodings; `there`, (n,), is False where one has no history."""
        return self.combine(self.encode(inputs, "context"), self.encode(histories, "history") * there[:, None])

    def encode_pairs(self, batch: TokenBatch | VectorBatch | AnchoredBatch, pairs: int, histories: Tensor) -> Encodings:
        """Encode a training batch of K pairs: h_x as "context" and h_y as "response".

        With a history h_x is "input", h_z "history", and the combined encoding "context". The batch holds K inputs, the
        texts of histories, whose pairs and slots are in `histories`, int64 (2, m), and the responses, those of the K
        pairs first. Of an anchored batch "drift" says how far r has moved from the start.
        """
        if self.history is None:
            x, y = self(batch, pairs)
            return {"context": x, "response": y}
        first = pairs + histories.shape[1]
        r, drift = self._reduced(batch, pairs, first)
        x, y = self.head("context")(r[:pairs]), self.head("response")(r[first:])
        z = self.pool_history(x, self.head("history")(r[pairs:first]), histories)
        unit = F.normalize(z, dim=-1) if self.history.apart else z
        return {"input": x, "history": unit, "context": self.combine(x, z), "response": y, **drift}

    def _reduced(
        self, batch: TokenBatch | VectorBatch | AnchoredBatch, pairs: int, first: int
    ) -> tuple[Tensor, Encodings]:
        """Return r of all texts, and how far anchored pairs have moved: 1 - cos, the mean of both sides (pairs,)."""
        if isinstance(batch, VectorBatch):
            return batch.vectors, {}
        if not isinstance(batch, AnchoredBatch):
            return self.reduce(batch), {}
        live, histories = self.reduce(batch.tokens).float(), batch.start[pairs:first]
        start = torch.cat([batch.start[:pairs], batch.start[first : first + pairs]])
        moved = 1 - F.cosine_similarity(live[: 2 * pairs], start)
        return torch.cat([live[:pairs], histories, live[pairs:]]), {"drift": moved.view(2, pairs).mean(dim=0)}

    def no_decay_parameters(self) -> set[nn.Parameter]:
        """Return what weight decay leaves out: layer norms (CONVERT 3.4), and the gate's two numbers."""
        gate = getattr(self, "gate", None)
        return {*norm_parameters(self), *([] if gate is None else gate.parameters())}


def split_heads(x: Tensor, texts: int, length: int, kinds: int, heads: int) -> tuple[Tensor, ...]:
    """Cut projections (texts * length, kinds * heads * size) into `kinds` of (texts * heads, length, size)."""
    x = x.view(texts, length, kinds, heads, x.shape[-1] // (kinds * heads))  # no -1: there may be no tokens
    if heads == 1:
        return x.squeeze(3).unbind(2)
    return x.permute(2, 0, 3, 1, 4).reshape(kinds, texts * heads, length, -1).unbind()


def norm_parameters(module: nn.Module) -> Iterator[nn.Parameter]:
    """Yield weights and biases of every layer norm inside `module`."""
    for child in module.modules():
        if isinstance(child, nn.LayerNorm):
            yield from child.parameters()


def switch_blocks(blocks: nn.ModuleList, count: int) -> int:
    """Let gradients reach the first `count` blocks alone, and return their number."""
    if not 0 <= count <= len(blocks):
        raise InputError(f"active blocks: {count} given, allowed is 0 to {len(blocks)}")
    for number, block in enumerate(blocks):
        block.requires_grad_(number < count)
    return count


def check(fine: bool, field: str, given: object, allowed: str) -> None:
    """Raise InputError unless the value of a configuration's field is fine."""
    if not fine:
        raise InputError(f"{field} = {given} is not allowed; it must be {allowed}")
