"""Weighted combination of two dual encoders.

A vector is theirs side by side, each of unit length times the root of its share, so the cosine of
two such vectors is (1 - share)·cos_first + share·cos_second: one index, one search, one product
serve both. A conversation's first message may give the second another share: the two parts of its
vector are weighted so, and it is of unit length again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NoReturn, Self

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.checks import check_number
from rejoinder.conversations import Context, ContextPart, Conversation, read_contexts
from rejoinder.encoders.bundled import PARTS
from rejoinder.encoders.conversation import TextEncoder, TruncationCounter
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import InputError
from rejoinder.progress import Advance
from rejoinder.settings import Share
from rejoinder.text.history import is_opening
from rejoinder.text.tokenizer import Tokenizer

KIND = "joined"
CARD = """\
# {first} and {second}

A joined model for conversational response selection, made by \
[Rejoinder](https://github.com/rejoinder/rejoinder):
the cosine of two of its vectors is {rest:g} times that of {first} and {share:g} times that of \
{second}, whose cards are
in the folders `first` and `second`.{opening}
"""
OPENING = " Where nothing was said before, the second one's share is {share:g}."


@dataclass(frozen=True)
class JoinedConfig:
    """Configuration of a joined model's folder."""

    share: Share
    """Of the second part in the cosine."""
    opening_share: Share | None = None
    """The same where nothing was said before; None: no other."""
    kind: Literal["joined"] = "joined"


class JoinedEncoder(TruncationCounter, DualEncoder):
    """Encodes contexts and responses by two encoders. `load` opens one.

    Messages are truncated as the first part truncates them, and counted there.
    """

    name: str = ""
    fingerprint: str = ""

    def __init__(
        self,
        first: Any,
        second: Any,
        share: float = 0.5,
        opening_share: float | None = None,
        *,
        name: str = "",
        fingerprint: str = "",
        reopen: Any = None,
    ) -> None:
        for part in (first, second):
            if not isinstance(part, TextEncoder):
                raise InputError(
                    f"{part!r} cannot be joined; only models that read each message apart can"
                )
        for called, value in (("share", share), ("opening_share", opening_share)):
            if value is not None:
                check_number(called, value, "a share goes from 0 to 1", 0, 1)
        if opening_share is not None and not 0 < share < 1:
            raise InputError(
                f"share {share:g} leaves responses one part;"
                " openings have another share only above 0 and below 1"
            )
        self.parts: tuple[TextEncoder, TextEncoder] = first, second
        self.config = JoinedConfig(share, opening_share)
        self.name = name
        self.reopen = reopen
        self._part: ContextPart = "all"
        known = [
            first.fingerprint,
            second.fingerprint,
            share,
            *([] if opening_share is None else [opening_share]),
        ]
        self.fingerprint = (
            fingerprint or hashlib.sha256(" ".join(map(str, known)).encode()).hexdigest()
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if self.reopen is None:
            raise InputError(
                "only a model that `rejoinder.load` opened can be pickled;"
                " save this one and load it"
            )
        return _reopened, (self.reopen, self._part)

    def facts(self) -> Mapping[str, object]:
        """Return what the model is shown by."""
        kinds = " + ".join(str(part.facts()["kind"]) for part in self.parts)
        shares = {
            name: share
            for name, share in asdict(self.config).items()
            if name != "kind" and share is not None
        }
        return {"name": self.name, "kind": f"joined, {kinds}", **shares, "size": self.size}

    def card(self) -> str:
        """Return README.md of its folder."""
        first, second = (part.name for part in self.parts)
        share = self.config.share
        opening = self.config.opening_share
        opening_text = "" if opening is None else OPENING.format(share=opening)
        return CARD.format(
            first=first, second=second, share=share, rest=round(1 - share, 6), opening=opening_text
        )

    @property
    def size(self) -> int:
        """Size d of the vectors."""
        return sum(part.size for part in self.parts)

    @property
    def reduction_size(self) -> int:
        """Size of what `transfer` returns."""
        return self.parts[0].reduction_size

    @property
    def reads_history(self) -> bool:
        """Return whether a context's earlier messages count, not the newest one alone."""
        return all(part.reads_history for part in self.parts)

    @property
    def subject_threshold(self) -> float:
        """The first part's; see `encoders.protocol.DualEncoder`."""
        return self.parts[0].subject_threshold

    @property
    def tokenizer(self) -> Tokenizer:  # type: ignore[override]  # the part's cannot be replaced here
        """The first part's, by which messages are measured."""
        return self.parts[0].tokenizer

    @property
    def message_length(self) -> int:
        """Tokens of a message that the first part reads at most."""
        return self.parts[0].message_length

    @property
    def max_length(self) -> int:  # type: ignore[override]
        """The same, as the other models call it."""
        return self.parts[0].max_length

    @property
    def truncated(self) -> set[int] | None:
        """Hashes of the messages that the first part has truncated, if they are counted."""
        return self.parts[0].truncated

    @truncated.setter
    def truncated(self, hashes: set[int] | None) -> None:
        self.parts[0].truncated = hashes

    def with_share(self, share: float) -> Self:
        """Return a model of the same parts with another share of the second."""
        first, second = self.parts
        return type(self)(first, second, share, self.config.opening_share)

    def by(self, part: ContextPart) -> Self:
        """Return an encoder of contexts by their input alone or their history alone.

        The input (h_x) has the share of openings.
        """
        other = self._of(self.parts[0].by(part), self.parts[1].by(part))
        other._part = part
        return other

    def with_cache(self) -> Self:
        """Return the same encoder, whose parts encode no text twice."""
        return self._of(self.parts[0].with_cache(), self.parts[1].with_cache())

    def with_recent(self) -> Self:
        """See `DualEncoder.with_recent`."""
        return self._of(self.parts[0].with_recent(), self.parts[1].with_recent())

    def read_ahead(self, contexts: Sequence[Context]) -> None:
        """See `DualEncoder.read_ahead`."""
        for part in self.parts:
            part.read_ahead(contexts)

    def encode_contexts(
        self, contexts: Sequence[Conversation], advance: Advance | None = None
    ) -> FloatArray:
        """Encode conversations: (n, d), rows of unit length."""
        first, second = self.parts
        left = first.encode_contexts(contexts, advance)
        right = second.encode_contexts(contexts)
        return self._join(left, right, self._context_roots(contexts))

    def encode_queries(self, contexts: Sequence[Conversation]) -> FloatArray | ContextVectors:
        """Encode conversations as what responses are scored by.

        See `conversation.TextEncoder.encode_queries`.
        """
        first = self.parts[0].encode_queries(contexts)
        second = self.parts[1].encode_queries(contexts)
        several = next((part for part in (first, second) if isinstance(part, ContextVectors)), None)
        rows = [
            part.vectors if isinstance(part, ContextVectors) else part for part in (first, second)
        ]
        roots = self._context_roots(contexts)
        if several is None:
            return self._join(rows[0], rows[1], roots)
        n, m = several.vectors.shape[:2]
        rows = [
            np.broadcast_to(part if part.ndim == 3 else part[:, None], (n, m, part.shape[-1]))
            for part in rows
        ]
        return replace(several, vectors=self._join(rows[0], rows[1], roots[:, None]))

    def encode_responses(
        self, responses: Sequence[str], advance: Advance | None = None
    ) -> FloatArray:
        """Encode responses: (n, d), rows of unit length."""
        first, second = self.parts
        left = first.encode_responses(responses, advance)
        right = second.encode_responses(responses)
        return self._join(left, right, self._roots())

    def transfer(self, texts: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """Return r of each text by the first part.

        To classifiers the second part's adds nothing.
        """
        return self.parts[0].transfer(texts, advance)

    def _roots(self) -> FloatArray:
        """Return what the vectors of the parts are multiplied by: (2,), of unit length."""
        return np.sqrt(np.array([1 - self.config.share, self.config.share], dtype=np.float32))

    def _context_roots(self, contexts: Sequence[Conversation]) -> FloatArray:
        """Return the weights of both parts for each context, (n, 2).

        Times a response's, those of an opening are in the ratio of its shares.
        """
        usual = self._roots()
        share = self.config.opening_share
        roots = np.tile(usual, (len(contexts), 1))
        if share is not None and self._part != "history":
            opening = np.array([1 - share, share], dtype=np.float32) / usual
            alone = [
                self._part == "input" or is_opening(context) for context in read_contexts(contexts)
            ]
            roots[alone] = opening / np.linalg.norm(opening)
        return roots

    @staticmethod
    def _join(first: FloatArray, second: FloatArray, roots: FloatArray) -> FloatArray:
        return np.concatenate([first * roots[..., :1], second * roots[..., 1:]], axis=-1)

    def _of(self, first: TextEncoder, second: TextEncoder) -> Self:
        other = type(self)(
            first,
            second,
            self.config.share,
            self.config.opening_share,
            name=self.name,
            fingerprint=self.fingerprint,
            reopen=self.reopen,
        )
        other._part = self._part
        return other


def _reopened(reopen: Callable[[], JoinedEncoder], part: ContextPart) -> JoinedEncoder:
    """Return an encoder that was pickled; its caches are empty."""
    encoder = reopen()
    return encoder if part == "all" else encoder.by(part)


def refuse(*_: object, name: str = "MODEL", **__: object) -> NoReturn:
    """Refuse what needs one network, and one tokenizer, of a joined model."""
    parts = " and ".join(f"{name}/{part}" for part in PARTS)
    raise InputError(
        f"{name} is a joined model: take a part of it, {parts}; `rejoinder join` joins them again"
    )
