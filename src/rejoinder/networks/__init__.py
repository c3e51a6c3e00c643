"""Packed batches of tokens, which the papers' networks turn into vectors.

Texts are sorted by length, so that almost nothing is computed on padding. The tokens of a batch lie
one after the other, (T,). Texts of one length stand together in a *segment*, viewed as
(texts, length). Padding appears only where a few slightly shorter texts would cost more as a
segment of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rejoinder.arrays import by_length, take

IntArray = npt.NDArray[np.int32]

SEGMENT_COST = 16  # tokens that could be computed in the time that one more segment costs
# the same for the blocks of `transformer`, which compute more for a token
TRANSFORMER_SEGMENT_COST = 2


@dataclass(frozen=True, slots=True)
class Segment:
    """Texts that are computed as a rectangle (count, length), from the batch's token `start` on."""

    start: int
    count: int
    length: int
    real: Tensor | None = None
    """Bool (count, length): which tokens are not padding; None: all are real."""


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Tokens of n texts, ordered by length."""

    ids: Tensor  # token ids, int64 (T,)
    positions: Tensor  # place of each token in its text, int64 (T,)
    segments: tuple[Segment, ...]  # together they cover all T tokens
    restore: Tensor  # int64 (n,): `ordered[restore]` has the caller's order
    real_tokens: int  # tokens that are not padding, at most T
    types: Tensor | None = None  # segment id of each token, int64 (T,); None: all 0
    longest: int = field(init=False)  # length of the longest text

    def __post_init__(self) -> None:
        longest = max((segment.length for segment in self.segments), default=0)
        object.__setattr__(self, "longest", longest)

    @property
    def computed_tokens(self) -> int:
        """All tokens, padding included."""
        return self.ids.shape[0]

    def to(self, device: torch.device | str) -> TokenBatch:
        """Return the same batch on another device."""
        segments = tuple(
            segment if segment.real is None else replace(segment, real=segment.real.to(device))
            for segment in self.segments
        )
        move = {name: getattr(self, name).to(device) for name in ("ids", "positions", "restore")}
        types = None if self.types is None else self.types.to(device)
        return replace(self, segments=segments, types=types, **move)

    def places(self) -> tuple[Tensor, Tensor]:
        """Return each text's first token and its number of real tokens, int64 (n,) both.

        They are in the caller's order.
        """
        device = self.ids.device
        starts = []
        lengths = []
        for segment in self.segments:
            starts.append(
                segment.start + segment.length * torch.arange(segment.count, device=device)
            )
            whole = torch.full((segment.count,), segment.length, device=device)
            lengths.append(whole if segment.real is None else segment.real.sum(dim=1))
        return torch.cat(starts)[self.restore], torch.cat(lengths)[self.restore]


@dataclass(frozen=True, slots=True)
class SidesBatch:
    """Contexts and responses packed apart, for models with a network for each side."""

    contexts: TokenBatch
    responses: TokenBatch

    @property
    def real_tokens(self) -> int:
        """Tokens that are not padding."""
        return self.contexts.real_tokens + self.responses.real_tokens

    @property
    def computed_tokens(self) -> int:
        """All tokens, padding included."""
        return self.contexts.computed_tokens + self.responses.computed_tokens

    def to(self, device: torch.device | str) -> SidesBatch:
        """Return the same batch on another device."""
        return SidesBatch(self.contexts.to(device), self.responses.to(device))


@dataclass(frozen=True, slots=True)
class VectorBatch:
    """Texts that a trunk which learns nothing has read before: r of each (n, d)."""

    vectors: Tensor
    real_tokens: int

    @property
    def computed_tokens(self) -> int:
        """Tokens that are still read: none."""
        return 0

    def to(self, device: torch.device | str) -> VectorBatch:
        """Return the same batch on another device."""
        return replace(self, vectors=self.vectors.to(device))


@dataclass(frozen=True, slots=True)
class BesideTokens:
    """Texts of which training needs more than their tokens."""

    tokens: TokenBatch

    @property
    def real_tokens(self) -> int:
        """Tokens that are not padding."""
        return self.tokens.real_tokens

    @property
    def computed_tokens(self) -> int:
        """All tokens, padding included."""
        return self.tokens.computed_tokens


@dataclass(frozen=True, slots=True)
class AnchoredBatch(BesideTokens):
    """Tokens of newest messages and responses, and `start` (n, d) of all texts.

    That is r before the trunk learns.
    """

    start: Tensor

    def to(self, device: torch.device | str) -> AnchoredBatch:
        """Return the same batch on another device."""
        return AnchoredBatch(self.tokens.to(device), self.start.to(device))


TrunkBatch: TypeAlias = TokenBatch | VectorBatch | AnchoredBatch
"""Batches of a network whose sides share a trunk (`ngram.SharedTrunk`)."""


def pack(
    ids: IntArray,
    lengths: IntArray,
    padding_id: int,
    segment_cost: int = SEGMENT_COST,
    types: IntArray | None = None,
) -> TokenBatch:
    """Order n texts by length and cut them into segments.

    Their ids and segment ids (T,) follow each other. `segment_cost` padding tokens are accepted to
    save a segment. A text without tokens is computed as one padding token: it gets a vector like
    any other.
    """
    order = np.argsort(lengths, kind="stable")
    shown = np.maximum(lengths[order], 1).astype(np.int64)  # tokens that count as real
    widths = _widths(shown, segment_cost)
    out_starts = np.cumsum(widths) - widths
    positions = np.arange(int(widths.sum())) - np.repeat(out_starts, widths)
    stored = np.repeat(lengths[order].astype(np.int64), widths)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    source = np.repeat(starts[order], widths) + positions
    inside = positions < stored
    packed = np.full(len(positions), padding_id, dtype=np.int64)
    packed[inside] = ids[source[inside]]
    packed_types = None
    if types is not None:
        packed_types = np.zeros(len(positions), dtype=np.int64)
        packed_types[inside] = types[source[inside]]
    restore = np.empty(len(order), dtype=np.int64)
    restore[order] = np.arange(len(order))
    return TokenBatch(
        ids=torch.from_numpy(packed),
        positions=torch.from_numpy(positions),
        segments=_segments(shown, widths),
        restore=torch.from_numpy(restore),
        real_tokens=int(shown.sum()),
        types=None if packed_types is None else torch.from_numpy(packed_types),
    )


def chunks(
    ids: IntArray, lengths: IntArray, padding_id: int, tokens: int, segment_cost: int = SEGMENT_COST
) -> Iterator[tuple[IntArray, TokenBatch]]:
    """Yield texts, as `pack` takes them, in batches of `by_length`.

    Each batch has its places among all texts.
    """
    if 0 < len(ids) + len(lengths) <= tokens:
        yield np.arange(len(lengths), dtype=np.int32), pack(ids, lengths, padding_id, segment_cost)
        return
    for chosen in by_length(lengths, tokens):
        some_ids, some_lengths = take(ids, lengths, chosen)
        yield chosen, pack(some_ids, some_lengths, padding_id, segment_cost)


def rectangle(ids: Tensor, mask: Tensor) -> TokenBatch:
    """Make a batch of the usual padded form: ids (n, L) and a mask (n, L), True where a token is.

    A text without tokens counts as one padding token, as in `pack`; `real_tokens` are all n · L.
    """
    count, length = ids.shape
    place = torch.arange(length, device=ids.device)
    real = mask | ((place == 0) & ~mask.any(dim=1, keepdim=True))
    return TokenBatch(
        ids=ids.reshape(-1),
        positions=place.repeat(count),
        segments=(Segment(0, count, length, real),),
        restore=torch.arange(count, device=ids.device),
        # a count would be a number, which a recording of this function cannot have
        real_tokens=count * length,
    )


def _widths(shown: npt.NDArray[np.int64], segment_cost: int) -> npt.NDArray[np.int64]:
    """Return the length at which each text is computed.

    Texts are ordered by length; it is their own, or the next longer segment's.
    """
    distinct, counts = np.unique(shown, return_counts=True)
    width_of = distinct.copy()
    for i in range(len(distinct) - 2, -1, -1):  # from long to short
        if counts[i] * (width_of[i + 1] - distinct[i]) < segment_cost:
            width_of[i] = width_of[i + 1]
    return np.repeat(width_of, counts)


def _segments(shown: npt.NDArray[np.int64], widths: npt.NDArray[np.int64]) -> tuple[Segment, ...]:
    segments = []
    start = 0
    distinct, firsts, counts = np.unique(widths, return_index=True, return_counts=True)
    for width, first, count in zip(
        distinct.tolist(), firsts.tolist(), counts.tolist(), strict=True
    ):
        real = None
        if shown[first] < width:  # ordered by length, so the first is the shortest
            real = torch.from_numpy(np.arange(width)[None, :] < shown[first : first + count, None])
        segments.append(Segment(start, count, width, real))
        start += width * count
    return tuple(segments)
