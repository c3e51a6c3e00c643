"""Packed batches of tokens, which the papers' networks turn into vectors.

The tokens of a batch lie one after the other, (T,), so that linear layers compute almost no
padding. What compares the tokens of a text, such as attention, sees them in rectangles
(texts, length), in one of two layouts:

- Segments, for processors. Texts are sorted by length, and those of one length are a *segment*, a
  view of their tokens. Padding appears only where a few slightly shorter texts would cost more as a
  segment of their own.
- One rectangle, for cards, where a call costs more than padding, and a new shape more than a call.
  Texts keep their order. Their tokens are copied into the rectangle and back (`rectangles`), so a
  step has the same number of calls whatever the lengths. Attention in 16 bits reads them as they
  are packed (`attention.attend_packed`). Some of the padding is packed too, so that few numbers of
  tokens occur and a step's shapes return (`training.graphs`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rejoinder.arrays import by_length, take

IntArray = npt.NDArray[np.int32]

SEGMENT_COST = 16  # tokens that could be computed in the time that one more segment costs
# the same for the blocks of `transformer`, which compute more for a token
TRANSFORMER_SEGMENT_COST = 2
# The length of the one rectangle is a multiple of this: kernels of attention take no other masks.
ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Segment:
    """Texts that are computed as a rectangle (count, length), from the batch's token `start` on."""

    start: int
    count: int
    length: int
    real: Tensor | None = None
    """Bool (count, length): which tokens are not padding; None: all are real."""


@dataclass(frozen=True, slots=True)
class Padding:
    """Places of packed tokens in the one rectangle (n, L), and back."""

    inside: Tensor
    """Place of each token in the rectangle, int64 (T,), all different. Those of packed padding are
    blank."""
    source: Tensor  # token at each place, at padding the text's last one, int64 (n · L,)
    blank: Tensor  # which places are padding, bool (n, L)
    ends: Tensor
    """Number of tokens before each text's end, after a zero, int32 (n + s + 1,). The packed padding
    counts as s more texts of at most L tokens."""


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Tokens of n texts."""

    ids: Tensor  # token ids, int64 (T,)
    positions: Tensor  # place of each token in its text, int64 (T,)
    segments: tuple[Segment, ...]  # together they cover all T tokens
    restore: Tensor | None
    """Int64 (n,): `ordered[restore]` has the caller's order; None: the batch has it."""
    real_tokens: int  # tokens that are not padding, at most T
    types: Tensor | None = None  # segment id of each token, int64 (T,); None: all 0
    padding: Padding | None = None  # of the one rectangle; None: segments are views of the tokens
    longest: int = field(init=False)  # length of the longest segment

    def __post_init__(self) -> None:
        longest = max((segment.length for segment in self.segments), default=0)
        object.__setattr__(self, "longest", longest)

    @property
    def computed_tokens(self) -> int:
        """All tokens of linear layers, padding included."""
        return self.ids.shape[0]

    def places(self) -> tuple[Tensor, Tensor]:
        """Return each text's first token and its number of real tokens, int64 (n,) both.

        They are in the caller's order.
        """
        if self.padding is not None:
            [segment] = self.segments
            assert segment.real is not None
            return self.padding.source.view(segment.real.shape)[:, 0], segment.real.sum(dim=1)
        device = self.ids.device
        starts = []
        lengths = []
        for segment in self.segments:
            starts.append(
                segment.start + segment.length * torch.arange(segment.count, device=device)
            )
            whole = torch.full((segment.count,), segment.length, device=device)
            lengths.append(whole if segment.real is None else segment.real.sum(dim=1))
        assert self.restore is not None
        return torch.cat(starts)[self.restore], torch.cat(lengths)[self.restore]


def pack(
    ids: IntArray,
    lengths: IntArray,
    padding_id: int,
    segment_cost: int | None = SEGMENT_COST,
    types: IntArray | None = None,
) -> TokenBatch:
    """Pack n texts: order them by length and cut them into segments, or lay out one rectangle.

    Their ids and segment ids (T,) follow each other. `segment_cost` padding tokens are accepted to
    save a segment; None: one rectangle. A text without tokens is computed as one padding token: it
    gets a vector like any other.
    """
    if segment_cost is None:
        return _pack_rectangle(ids, lengths, padding_id, types)
    order = np.argsort(lengths, kind="stable")
    shown = np.maximum(lengths[order], 1).astype(np.int64)  # tokens that count as real
    widths = _widths(shown, segment_cost)
    out_starts = np.cumsum(widths) - widths
    positions = np.arange(int(widths.sum())) - np.repeat(out_starts, widths)
    stored = np.repeat(lengths[order].astype(np.int64), widths)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    source = np.repeat(starts[order], widths) + positions
    inside = positions < stored
    source = source[inside]
    restore = np.empty(len(order), dtype=np.int64)
    restore[order] = np.arange(len(order))
    return TokenBatch(
        ids=_placed(ids, source, inside, padding_id),
        positions=torch.from_numpy(positions),
        segments=_segments(shown, widths),
        restore=torch.from_numpy(restore),
        real_tokens=int(shown.sum()),
        types=None if types is None else _placed(types, source, inside, 0),
    )


def _pack_rectangle(
    ids: IntArray, lengths: IntArray, padding_id: int, types: IntArray | None
) -> TokenBatch:
    """Pack texts into one rectangle, as a card computes them.

    Behind their tokens come some of the places that are blank. Nothing reads what is computed of
    these, so they change no vector and no gradient.
    """
    shown = np.maximum(lengths, 1).astype(np.int64)  # tokens that count as real
    ends = np.cumsum(shown)
    starts = ends - shown
    texts = np.repeat(np.arange(len(shown)), shown)
    positions = np.arange(len(texts)) - starts[texts]
    length = -(-int(shown.max(initial=1)) // ALIGNMENT) * ALIGNMENT
    places = np.arange(length)
    real = places < shown[:, None]
    source = np.minimum(starts[:, None] + places, ends[:, None] - 1)
    step = _padding_step(len(shown), length)
    spare = min(-len(texts) % step, real.size - len(texts))
    blank = np.flatnonzero(~real)[:spare]
    nothing = np.zeros(spare, np.int64)
    more = np.minimum(np.arange(length, step + length, length), spare)  # as many for each shape
    stored = np.concatenate([positions < lengths[texts], nothing.astype(np.bool_)])
    return TokenBatch(
        ids=_placed(ids, slice(None), stored, padding_id),
        positions=torch.from_numpy(np.concatenate([positions, nothing])),
        segments=(Segment(0, len(shown), length, torch.from_numpy(real)),),
        restore=None,
        real_tokens=len(texts),
        types=None if types is None else _placed(types, slice(None), stored, 0),
        padding=Padding(
            inside=torch.from_numpy(np.concatenate([texts * length + positions, blank])),
            source=torch.from_numpy(source.reshape(-1)),
            blank=torch.from_numpy(~real),
            ends=torch.from_numpy(np.concatenate([[0], ends, len(texts) + more]).astype(np.int32)),
        ),
    )


def _padding_step(texts: int, length: int) -> int:
    """Return of what the number of packed tokens is a multiple, if the rectangle is large enough.

    It is four standard deviations of the sum of texts whose lengths deviate by a quarter of the
    longest. So batches of one size have one or two numbers of tokens.
    """
    deviation = math.sqrt(max(texts, 1)) * length / 4
    return ALIGNMENT * math.ceil(4 * deviation / ALIGNMENT)


def _placed(
    values: IntArray,
    source: npt.NDArray[np.int64] | slice,
    inside: npt.NDArray[np.bool_],
    other: int,
) -> Tensor:
    """Return values at the places that are `inside` (T,), and another one at all others, int64."""
    placed = np.full(len(inside), other, dtype=np.int64)
    placed[inside] = values[source]
    return torch.from_numpy(placed)


def chunks(
    ids: IntArray,
    lengths: IntArray,
    padding_id: int,
    tokens: int,
    segment_cost: int | None = SEGMENT_COST,
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
    position = torch.arange(length, device=ids.device)
    real = mask | ((position == 0) & ~mask.any(dim=1, keepdim=True))
    return TokenBatch(
        ids=ids.reshape(-1),
        positions=position.repeat(count),
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
