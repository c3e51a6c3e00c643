"""Layers that several models share, reductions of token vectors, and scores (POLY, section 4).

Shapes: T tokens of a batch (see `networks`), d embedding size, n texts, L their length. Reductions
take token vectors x (T, d) of a packed batch and give rows in the caller's order, without padding's
part. A text with fewer than m tokens has fewer than m vectors: the missing rows are zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, TypeAlias

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.errors import InputError
from rejoinder.networks.packing import Segment, TokenBatch
from rejoinder.networks.products import multiply_each
from rejoinder.networks.rectangles import in_order, segment_parts

Encodings: TypeAlias = Mapping[str, Tensor]
"""Encodings of K pairs: float32 matrices by name, whose rows follow the pairs. In training
each one but "response" ranks the responses; "context" is the one that ranks in use."""

DropoutShare: TypeAlias = Annotated[float, Field(ge=0, lt=1)]

MASKED = -3e4
"""Score of a pair that must not attend. Finite also in half precision: a query with no key in reach
gives no NaN."""

TRAINING_PREFIX = "training_"
"""Of the names of a network's parts that only its training needs: no model folder holds them."""

GATE = 1.702  # ConveRT's activation is x * sigmoid(1.702 x), the fast form of GELU


class Dropout(nn.Dropout):
    """Dropout whose mask costs a quarter of PyTorch's on a CPU.

    Each 64-bit random number decides about four values.
    """

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

    r_head = n^(-1/2) Σ_i Σ_j a_ij x_j, with a the attention of each of the n tokens to every other.
    As in the original code there is no value or output projection and no 1/sqrt(64) inside the
    softmax. r has heads · size numbers.
    """

    def __init__(self, size: int, heads: int, head_size: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key = nn.Linear(size, 2 * heads * head_size, bias=False)
        # nearly even weights at the start
        nn.init.normal_(self.query_key.weight, std=0.1 / math.sqrt(size))

    def forward(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """x (T, d) -> r (n, heads · d), the texts in the batch's own order."""
        query_key = self.query_key(x)
        pairs = zip(segment_parts(batch, x), segment_parts(batch, query_key), strict=True)
        parts = [self._reduce(tokens, part, segment) for (tokens, segment), (part, _) in pairs]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _reduce(self, tokens: Tensor, part: Tensor, segment: Segment) -> Tensor:
        """Attend over the tokens of a segment, and sum them by the weights: (n, heads·d)."""
        n = segment.count
        length = segment.length
        heads = self.heads
        q, k = split_heads(part, n, length, 2, heads)
        scores = multiply_each(q, k.transpose(1, 2)).view(n, heads, length, length)
        if segment.real is None:  # the length may be a tensor here, while `inference` records
            weights = torch.softmax(scores, dim=-1, dtype=torch.float32).sum(dim=2) / length**0.5
        else:
            attention = torch.softmax(
                scores.masked_fill(~segment.real[:, None, None, :], MASKED),
                dim=-1,
                dtype=torch.float32,
            )
            # rows of padded queries count as zero
            real = segment.real[:, None, :, None].to(attention.dtype)
            weights = (attention * real).sum(dim=2) / real.sum(dim=2).clamp(min=1).sqrt()
        rows = tokens.view(n, length, tokens.shape[1])
        return multiply_each(weights.to(tokens.dtype), rows).view(n, -1)


class GatedLinear(nn.Linear):
    """A linear layer and 1.702 times ConveRT's activation.

    It is silu(1.702 (W x + b)) = 1.702 · y sigmoid(1.702 y). The factor inside goes into the
    weights, where it costs a thousandth; callers do the same with the one in front.
    """

    def forward(self, x: Tensor) -> Tensor:
        """x (n, in) -> (n, out)."""
        return F.silu(
            F.linear(x, self.weight * GATE, None if self.bias is None else self.bias * GATE)
        )


class NearGate(nn.Module):
    """The weight of a history, learned as a gate.

    It is sigmoid(slope · (cos(h_x, h) - threshold) - √d · v·h_x). A newest message that has little
    to do with it, or that reads like the first one of a conversation (v, zero at the start), begins
    a new subject, and is read alone.
    """

    def __init__(self, size: int, slope: float) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(slope))
        self.threshold = nn.Parameter(torch.tensor(0.1))
        self.opens = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        """h_x and h (n, d), rows of unit length or zero -> (n, 1)."""
        opens = math.sqrt(x.shape[-1]) * (x * self.opens).sum(dim=-1, keepdim=True)
        return torch.sigmoid(
            self.slope * ((x * h).sum(dim=-1, keepdim=True) - self.threshold) - opens
        )


class HistoryGate(NearGate):
    """Weight of a history that was read as one text; see `NearGate`."""

    def __init__(self, size: int) -> None:
        super().__init__(size, 10.0)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        """h_x and h_z (n, d), rows of unit length or zero -> what counts of h_z."""
        return h * super().forward(x, h)


class MessageGates(nn.Module):
    """Weights of earlier messages: of h_k, in slot k, w_k times its `NearGate`.

    The w_k are learnt.
    """

    def __init__(self, size: int, slots: int) -> None:
        super().__init__()
        # numbers, not a tensor's: built `on_meta_device` that would import PyTorch's compiler
        self.weights = nn.Parameter(torch.tensor([0.25 * 0.8**slot for slot in range(slots)]))
        self.near = NearGate(size, 5.0)

    def forward(self, x: Tensor, messages: Tensor, histories: Tensor) -> Tensor:
        """Sum the messages' h (m, d), weighted by h_x (n, d), into (n, d).

        The context and the slot of each are the first two rows of `histories`, int64 (2 or 3, m).
        """
        owners = histories[0]
        slots = histories[1]
        # index_select: the backward pass of x[owners] would sort them
        near = self.near(x.index_select(0, owners), messages)
        counted = messages * near * self.weights.index_select(0, slots)[:, None]
        return torch.zeros_like(x).index_add(0, owners, counted)


def split_heads(x: Tensor, texts: int, length: int, kinds: int, heads: int) -> tuple[Tensor, ...]:
    """Split projections into `kinds` of (texts * heads, length, size).

    They come as (texts * length, kinds * heads * size).
    """
    # no -1: there may be no tokens
    x = x.view(texts, length, kinds, heads, x.shape[-1] // (kinds * heads))
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


def set_dropout(module: nn.Module, share: float) -> None:
    """Change the dropout of a model that exists (fine-tuning has another than pretraining)."""
    for child in module.modules():
        if isinstance(child, nn.Dropout):
            child.p = share


AT_ONCE = 1 << 24  # numbers l that are in memory together where no gradient is needed: 64 MB


def first(x: Tensor, batch: TokenBatch) -> Tensor:
    """Return the first token's vector of each text: (n, d)."""
    starts, _ = batch.places()
    return x.index_select(0, starts)


def mean(x: Tensor, batch: TokenBatch, *, with_first: bool = True) -> Tensor:
    """Return the mean over each text's tokens, (n, d).

    It has the first one (POLY's text) or not (its Table 7).
    """
    rows = []
    for part, segment in segment_parts(batch, x):
        tokens = part.view(segment.count, segment.length, -1)
        real = segment.real
        if not with_first and segment.length > 1:
            tokens = tokens[:, 1:]
            real = None if real is None else real[:, 1:]
        if real is None:
            rows.append(tokens.mean(dim=1))
            continue
        share = real.to(x.dtype)
        alone = share.sum(dim=1, keepdim=True) == 0  # nothing but the first token
        summed = multiply_each(share[:, None], tokens)[:, 0] / share.sum(dim=1, keepdim=True).clamp(
            min=1
        )
        rows.append(torch.where(alone, part.view(segment.count, segment.length, -1)[:, 0], summed))
    return in_order(batch, torch.cat(rows))


def segment_means(x: Tensor, batch: TokenBatch) -> tuple[Tensor, Tensor]:
    """Return means over each text's tokens of segments 0 and 1, (n, d) both.

    They are zero where it has none.
    """
    types = torch.zeros_like(batch.ids) if batch.types is None else batch.types
    rows = []
    for (part, segment), (kinds, _) in zip(
        segment_parts(batch, x), segment_parts(batch, types), strict=True
    ):
        kind = kinds.view(segment.count, segment.length)
        real = torch.ones_like(kind, dtype=torch.bool) if segment.real is None else segment.real
        # (n, 2, L)
        shares = torch.stack([real & (kind == 0), real & (kind == 1)], dim=1).to(x.dtype)
        summed = multiply_each(shares, part.view(segment.count, segment.length, -1))
        rows.append(summed / shares.sum(dim=2, keepdim=True).clamp(min=1))
    before, behind = in_order(batch, torch.cat(rows)).unbind(dim=1)
    return before, behind


def first_m(x: Tensor, batch: TokenBatch, m: int) -> Tensor:
    """Return the vectors of the first m tokens of each text, (n, m, d).

    They are zero where a text has fewer.
    """
    starts, lengths = batch.places()
    return _take(x, starts, lengths, m)


def last_m(x: Tensor, batch: TokenBatch, m: int) -> Tensor:
    """Return the vectors of the last m tokens of each text, (n, m, d).

    They are zero where a text has fewer.
    """
    starts, lengths = batch.places()
    skipped = (lengths - m).clamp(min=0)
    return _take(x, starts + skipped, lengths - skipped, m)


def last_m_and_first(x: Tensor, batch: TokenBatch, m: int) -> Tensor:
    """Return those of the last m tokens and of the first: (n, m + 1, d).

    If that is among the last m it counts once.
    """
    starts, lengths = batch.places()
    apart = (lengths > m)[:, None]
    return torch.cat([last_m(x, batch, m), (x[starts] * apart)[:, None]], dim=1)


def mean_of_first_m(x: Tensor, batch: TokenBatch, m: int) -> Tensor:
    """Return the mean over the first m tokens of each text, (n, d).

    Where it has fewer, it is over all.
    """
    _, lengths = batch.places()
    return first_m(x, batch, m).sum(dim=1) / lengths.clamp(max=m)[:, None].to(x.dtype)


def _take(x: Tensor, starts: Tensor, lengths: Tensor, m: int) -> Tensor:
    """Return m rows from each start on, zero from each length on."""
    offsets = torch.arange(m, device=x.device)
    real = offsets < lengths[:, None]
    rows = (starts[:, None] + offsets).clamp(max=len(x) - 1)
    return x[rows] * real[:, :, None]


class Codes(nn.Module):
    """m learnt codes, each of which attends over all tokens of a text (POLY 4.4, "learnt").

    The attention is by plain dot products.
    """

    def __init__(self, m: int, size: int, highest: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(m, size).uniform_(0, highest))

    def forward(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """x (T, d) -> (n, m, d)."""
        rows = []
        codes = self.weight.to(x.dtype)
        for part, segment in segment_parts(batch, x):
            tokens = part.view(segment.count, segment.length, -1)
            queries = codes.expand(segment.count, -1, -1)
            scores = multiply_each(queries, tokens.transpose(1, 2))  # (n, m, L)
            if segment.real is not None:
                scores = scores.masked_fill(~segment.real[:, None], MASKED)
            shares = torch.softmax(scores, dim=-1, dtype=torch.float32).to(tokens.dtype)
            rows.append(multiply_each(shares, tokens))
        return in_order(batch, torch.cat(rows))


def attended_scores(contexts: Tensor, responses: Tensor) -> Tensor:
    """Return the scores of responses for contexts, float32 (k, j) (POLY, section 4.4).

    Responses are (j, d) or (k, j, d), contexts (k, m, d). A response y attends over the context's
    vectors c_i by dot products l_i, and is multiplied with what it attended to:

        score = y · Σ_i softmax(l)_i c_i = Σ_i softmax(l)_i l_i

    so the attended vector never has to be built. Rows of a context that are zero are not vectors.
    """
    m = contexts.shape[1]
    j = responses.shape[-2]
    if torch.is_grad_enabled() or len(contexts) * m * j <= AT_ONCE:
        return _scores(contexts, responses)
    size = max(1, AT_ONCE // (m * j))
    own = responses.dim() == 3
    parts = [
        _scores(contexts[i : i + size], responses[i : i + size] if own else responses)
        for i in range(0, len(contexts), size)
    ]
    return torch.cat(parts)


def _scores(contexts: Tensor, responses: Tensor) -> Tensor:
    products = torch.matmul(contexts, responses.transpose(-1, -2)).float()  # (k, m, j)
    missing = (contexts == 0).all(dim=-1)
    lowest = torch.finfo(products.dtype).min
    weights = torch.softmax(products.masked_fill(missing[:, :, None], lowest), dim=1)
    return (weights * products).sum(dim=1)


def scores_of(contexts: Tensor, responses: Tensor) -> Tensor:
    """Return the scores of any encoder.

    They are dot products of (k, d) with (j, d), or `attended_scores` of (k, m, d).
    """
    return attended_scores(contexts, responses) if contexts.dim() == 3 else contexts @ responses.T


def own_scores(contexts: Tensor, responses: Tensor) -> Tensor:
    """Return the scores of each context for candidates of its own, (k, j).

    Contexts are (k, d) or (k, m, d), candidates (k, j, d).
    """
    if contexts.dim() == 3:
        return attended_scores(contexts, responses)
    return torch.bmm(responses, contexts[:, :, None])[:, :, 0]
