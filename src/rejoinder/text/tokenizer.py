"""What every tokenizer offers, and what those of the papers have in common."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import ranges
from rejoinder.errors import InputError
from rejoinder.files import atomic_file

Ids = npt.NDArray[np.int32]
Cut: TypeAlias = Literal["end", "middle"]
"""What a message too long loses: its end (CONVERT), or its middle, since mails say at the end what
they want."""
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
    ids, lengths = tokenizer.encode_ragged(
        [text if len(text) <= 2 * room else f"{text[:room]} {text[-room:]}" for text in texts]
    )
    kept = np.minimum(lengths, max_length)
    tails = np.where(lengths > max_length, max_length // 2, 0)
    ends = np.cumsum(lengths, dtype=np.int64)
    starts = np.stack([ends - lengths, ends - tails], axis=1)
    return ids[ranges(starts.ravel(), np.stack([kept - tails, tails], axis=1).ravel())], kept


def too_long(
    tokenizer: Tokenizer, texts: Sequence[str], lengths: Ids, max_length: int
) -> list[str]:
    """Return those of some texts, encoded to these `lengths`, that were cut at `max_length`."""
    full = np.flatnonzero(lengths >= max_length)
    if not len(full):
        return []
    found = [texts[place] for place in full.tolist()]
    more = tokenizer.encode_ragged(found, max_length + 1)[1] > lengths[full]
    return [text for text, cut in zip(found, more, strict=True) if cut]


class Vocabulary(ABC):
    """A vocabulary that is a JSON object with a `format`, and its way from text to ids."""

    FORMAT: ClassVar[str]
    INDENT: ClassVar[int | None] = None
    cut: Cut = "end"
    unit: str = "words"

    @abstractmethod
    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """See `Tokenizer.encode_ragged`."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return everything that makes this vocabulary, as plain JSON values."""

    @classmethod
    @abstractmethod
    def from_json(cls, data: Any) -> Self:
        """Make a vocabulary of what `to_json` returned; anything else is an InputError."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of one text."""
        ids: list[int] = self.encode_ragged([text])[0].tolist()
        return ids

    def save(self, path: str | Path) -> None:
        """Write the vocabulary as JSON, whole or not at all."""
        content = json.dumps(self.to_json(), ensure_ascii=False, indent=self.INDENT)
        with atomic_file(path) as part:
            part.write_text(content + "\n", encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; anything else is an InputError."""
        try:
            data = json.loads(Path(path).read_bytes().decode("utf-8"))
            if not isinstance(data, dict) or data.get("format") != cls.FORMAT:
                raise InputError(
                    f"not a vocabulary: an object with format '{cls.FORMAT}' is needed"
                )
            return cls.from_json(data)
        except OSError as error:
            raise InputError(f"{path}: cannot read the vocabulary: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}: not a vocabulary, since not JSON in UTF-8: {error}"
            ) from error
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that makes the vocabulary, in hexadecimal."""
        content = json.dumps(
            self.to_json(), ensure_ascii=True, sort_keys=True, separators=(",", ":")
        )
        return hashlib.sha256(content.encode("ascii")).hexdigest()


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


class IdCache(dict[str, bytes]):
    """Ids, int32 in memory, of at most `entries` short pieces of text seen lately.

    `encode` makes what is missing.
    """

    LONGEST = 32

    def __init__(self, encode: Callable[[str], bytes], entries: int) -> None:
        super().__init__()
        self._encode = encode
        self._entries = entries

    def __missing__(self, piece: str) -> bytes:
        ids = self._encode(piece)
        if len(piece) <= self.LONGEST:
            if len(self) >= self._entries:
                # the frequent pieces are back soon; ranking them would cost every look-up
                self.clear()
            self[piece] = ids
        return ids
