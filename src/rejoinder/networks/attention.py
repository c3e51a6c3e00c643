"""Attention inside each text of a packed batch: views on a processor, one call on a card.

On a card flash attention reads the texts as they are packed, in 16 bits and without a bias.
Anything else is computed in the one rectangle, whose backend is chosen here: cuDNN's, which PyTorch
prefers on some cards, builds a plan for every new shape, and batches of texts have a new shape in
every step.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

from rejoinder.networks.packing import Segment, TokenBatch
from rejoinder.networks.products import compute_dtype, multiply_each

PLANLESS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Backends that take any shape as it comes."""


LARGEST_HEAD = 192  # of flash attention with dropout, which also needs a multiple of 8


def without_plans(device: torch.device) -> AbstractContextManager[object]:
    """Let attention inside use backends that need no preparation for a shape."""
    return sdpa_kernel(PLANLESS) if device.type == "cuda" else nullcontext()


def reads_packed(batch: TokenBatch, x: Tensor, head_size: int) -> bool:
    """Return whether attention without a bias reads the texts of a batch as they are packed."""
    if batch.padding is None or not batch.computed_tokens or x.device.type != "cuda":
        return False
    return (
        compute_dtype(x) in (torch.bfloat16, torch.float16)
        and head_size % 8 == 0
        and head_size <= LARGEST_HEAD
        and torch.backends.cuda.is_flash_attention_available()
        and torch.cuda.get_device_capability(x.device) >= (8, 0)
    )


def attend_packed(qkv: Tensor, batch: TokenBatch, first: bool, dropout: float) -> Tensor:
    """Return what all tokens attend to, (T, heads, size), or each text's `first`, (n, heads, size).

    `qkv` (T, 3, heads, size) are those of packed texts, which `reads_packed` takes.
    """
    assert batch.padding is not None
    q, k, v = qkv.unbind(1)
    ends = batch.padding.ends
    if not first:
        return _flash(q, k, v, ends, ends, batch.longest, batch.longest, dropout)
    starts = batch.padding.source.view(-1, batch.longest)[:, 0]
    # one token of each text, none of the packed padding
    single = torch.arange(len(ends), dtype=ends.dtype, device=ends.device).clamp_(max=len(starts))
    return _flash(q.index_select(0, starts), k, v, single, ends, 1, batch.longest, dropout)


def _flash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_ends: Tensor,
    key_ends: Tensor,
    most_queries: int,
    most_keys: int,
    dropout: float,
) -> Tensor:
    # what nested tensors call; `torch.nn.attention.varlen` has no dropout
    attended: Tensor = torch.ops.aten._flash_attention_forward(
        q, k, v, query_ends, key_ends, most_queries, most_keys, dropout, False, False
    )[0]
    return attended


def padding_scores(batch: TokenBatch, dtype: torch.dtype) -> Tensor | None:
    """Return what is added to the scores of the one rectangle, (n, 1, 1, L).

    It is 0 for tokens and -inf for padding. None: the batch has segments.
    """
    if batch.padding is None:
        return None
    blank = batch.padding.blank
    scores = torch.zeros(blank.shape, dtype=dtype, device=blank.device)
    return scores.masked_fill_(blank, -torch.inf)[:, None, None, :]


def segment_mask(segment: Segment, bias: Tensor | None, queries: int) -> Tensor | None:
    """Return the mask of a segment's first `queries` tokens: bool, or added to the scores.

    `bias` is that of all distances, (heads, longest, longest), or of the one rectangle with its
    padding, (n, heads or 1, L or 1, L).
    """
    if bias is not None and bias.dim() == 4:
        return bias[:, :, :queries]
    mask = None if segment.real is None else segment.real[:, None, None, :]
    if bias is None:
        return mask
    # four dimensions: PyTorch's fused attention takes no three
    own = bias[None, :, :queries, : segment.length]
    return own if mask is None else own.masked_fill(~mask, -torch.inf)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """Return what queries attend to: (n, heads, queries, size) of keys (n, heads, L, size)."""
    if not (q.requires_grad and q.dtype == torch.bfloat16 and q.device.type == "cpu"):
        return F.scaled_dot_product_attention(q, k, v, mask, dropout)
    # There PyTorch's fused attention takes up to six times as long, forward and back
    # (workshop/pretraining-log.md). Without gradients it takes as long as what follows.
    scores = multiply_each(q / math.sqrt(q.shape[-1]), k.transpose(-1, -2))
    if mask is not None:
        boolean = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, -torch.inf) if boolean else scores + mask
    return multiply_each(F.dropout(torch.softmax(scores, dim=-1, dtype=q.dtype), dropout), v)
