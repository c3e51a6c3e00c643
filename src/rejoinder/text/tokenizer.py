"""Text to ids of tokens: what every tokenizer has, and messages that are too long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import ranges
from rejoinder.errors import InputError

T = TypeVar("T")
Ids = npt.NDArray[np.int32]

Cut: TypeAlias = Literal["end", "middle"]
"""Part that a message too long loses: its end (CONVERT), or its middle, since mails say at the end
what they want."""

Read: TypeAlias = Callable[[Sequence[str]], tuple[Ids, Ids]]
"""Texts to all their ids, one text's after the other's, and the number of each one's."""

BLOCK_TEXTS = 8192  # read at once: a card computes them while the next are read
# characters a token; what is further from both ends of a message is never looked at
LONGEST_TOKEN = 32


class Tokenizer(Protocol):
    """Text to ids of tokens."""

    padding_id: int  # stands where there is no token
    rows: int  # number of ids in all, and so of rows in an embedding table
    cut: Cut  # see `encode_messages`
    unit: str  # what a `max_length` counts: "tokens"

    @property
    def fingerprint(self) -> str:
        """SHA-256: two tokenizers with the same one give the same ids."""

    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """Return all ids in sequence and the number of ids of each text, int32.

        Texts are cut at `max_length` tokens.
        """

    def save(self, path: str | Path) -> None:
        """Write it as one JSON file, whole or not at all."""


def encode_messages(tokenizer: Tokenizer, texts: Sequence[str], max_length: int) -> tuple[Ids, Ids]:
    """Return the ids of messages as `Tokenizer.encode_ragged` does.

    One too long loses what the tokenizer cuts.
    """
    if tokenizer.cut == "end":
        return tokenizer.encode_ragged(texts, max_length)
    room = LONGEST_TOKEN * max_length
    if max(map(len, texts), default=0) > 2 * room:
        texts = [t if len(t) <= 2 * room else f"{t[:room]} {t[-room:]}" for t in texts]
    ids, lengths = tokenizer.encode_ragged(texts)
    long = np.flatnonzero(lengths > max_length)
    ends = np.cumsum(lengths, dtype=np.int64)[long]
    # the middles are few, so that most ids are copied as they are
    extra = lengths[long] - max_length
    middles = ranges(ends - max_length // 2 - extra, extra)
    return np.delete(ids, middles), np.minimum(lengths, max_length)


def in_blocks(
    read: Callable[[Sequence[T]], tuple[Ids, Ids]], texts: Sequence[T]
) -> Iterator[tuple[Ids, Ids]]:
    """Read texts or conversations, some thousands at once."""
    for start in range(0, len(texts), BLOCK_TEXTS):
        yield read(texts[start : start + BLOCK_TEXTS])


def too_long(
    tokenizer: Tokenizer, texts: Sequence[str], lengths: Ids, max_length: int
) -> list[str]:
    """Return those of some texts, encoded to these `lengths`, that were cut at `max_length`."""
    full = np.flatnonzero(lengths >= max_length)
    if not len(full):
        return []
    long_texts = [texts[row] for row in full.tolist()]
    more = tokenizer.encode_ragged(long_texts, max_length + 1)[1] > lengths[full]
    return [text for text, cut in zip(long_texts, more, strict=True) if cut]


def check_cut(cut: Any) -> Cut:
    """Return what is cut; anything unknown is an InputError."""
    if cut not in get_args(Cut):
        raise InputError(f"'cut' must be one of {', '.join(get_args(Cut))}, not {cut!r}")
    return cut


def check_texts(texts: object, max_length: int | None) -> None:
    """Refuse one string for `texts`, and a `max_length` below 1."""
    if isinstance(texts, str):
        raise InputError("texts is one string; give a list of texts, [text] for one")
    if max_length is not None and max_length < 1:
        raise InputError(f"max_length is {max_length}; at least 1 is needed")
