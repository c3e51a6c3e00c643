"""Tokens of a packed batch as rectangles (texts, length), and back; see `packing`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from rejoinder.networks.packing import Padding, Segment, TokenBatch


def segment_parts(batch: TokenBatch, x: Tensor) -> Iterator[tuple[Tensor, Segment]]:
    """Cut values of a batch's tokens (T, ...) into those of its segments (count · length, ...).

    What is computed of padding must not count: it gets no gradient.
    """
    if batch.padding is not None:
        padded: Tensor = _Pad.apply(x, batch.padding)  # type: ignore[no-untyped-call]
        return iter([(padded, batch.segments[0])])
    if len(batch.segments) == 1:
        return iter([(x, batch.segments[0])])
    # One split rather than slices: in the backward pass each slice fills a whole (T, ...) tensor.
    sizes = [segment.count * segment.length for segment in batch.segments]
    return zip(torch.split(x, sizes), batch.segments, strict=True)


def join_parts(batch: TokenBatch, parts: Sequence[Tensor]) -> Tensor:
    """Join values of the segments, (count · length, ...) each, into those of all tokens."""
    if batch.padding is not None:
        tokens: Tensor = _Unpad.apply(parts[0], batch.padding)  # type: ignore[no-untyped-call]
        return tokens
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def in_order(batch: TokenBatch, rows: Tensor) -> Tensor:
    """Return rows of the texts (n, ...), which are in the batch's order, in the caller's."""
    # not len(rows), which an export would take for a constant
    return rows if batch.restore is None or rows.shape[0] == 1 else rows[batch.restore]


class _Pad(torch.autograd.Function):
    """Copies packed tokens into the rectangle; gradients of padding are left out."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, padding: Padding) -> Tensor:
        ctx.padding = padding
        return x.index_select(0, padding.source)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.index_select(0, ctx.padding.inside), None


class _Unpad(torch.autograd.Function):
    """Copies the tokens of the rectangle back; padding gets no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, padding: Padding) -> Tensor:
        ctx.padding = padding
        return x.index_select(0, padding.inside)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        places = ctx.padding.source.shape[0]
        whole = gradient.new_zeros((places, *gradient.shape[1:]))
        return whole.index_copy_(0, ctx.padding.inside, gradient), None
