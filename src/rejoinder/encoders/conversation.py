"""A dual encoder that reads a context's newest message and its history apart.

Its parts may compute the vectors in any way. PyTorch does in `torch.Encoder`, onnxruntime in
`onnx.encoder.OnnxEncoder`; nothing here imports either.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Literal, Self, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.conversations import Context, ContextPart, Conversation, read_contexts, read_texts
from rejoinder.documents import Described
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.vector_cache import RecentVectors, VectorCache
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import InputError
from rejoinder.progress import Advance
from rejoinder.text.history import HistoryText, is_opening
from rejoinder.text.tokenizer import Ids, Tokenizer, encode_messages, in_blocks, too_long

T = TypeVar("T")
# of the attention over statements; a power of 2, so that multiplying by it rounds nothing
INVERSE_TEMPERATURE = 16.0
CHUNK_CONTEXTS = 1024  # contexts with their histories encoded between two steps of a progress bar
# what a text is encoded as
Side: TypeAlias = Literal["context", "opening", "history", "response", "reduction"]


class TruncationCounter(Described):
    """A model that records hashes of the messages it truncates if `truncated` is set."""

    name: str = ""
    tokenizer: Tokenizer
    max_length: int  # in tokens
    truncated: set[int] | None = None

    @property
    def message_length(self) -> int:
        """Longest message that is read, in tokens."""
        return self.max_length

    def _count_truncated(self, texts: Sequence[str], lengths: Ids) -> None:
        if self.truncated is not None:
            self.truncated.update(
                map(hash, too_long(self.tokenizer, texts, lengths, self.message_length))
            )


def track_truncation(model: T) -> T:
    """Let a model count the messages it truncates, if it can; return it."""
    if isinstance(model, TruncationCounter):
        model.truncated = set()
    return model


class TextEncoder(TruncationCounter, DualEncoder):
    """Encodes contexts and responses, and scores responses by the cosine.

    A context is encoded from the vectors of texts: its input, those of its history, its persona's
    statements.
    """

    name: str = ""
    fingerprint: str = ""
    subject_threshold: float = 0.0
    opening_weight: float = 0.0
    """Above 0, a context without a history is encoded as an "opening"."""
    _part: ContextPart = "all"
    _cache: VectorCache | None = None
    _recent: RecentVectors | None = None

    @property
    @abstractmethod
    def history(self) -> HistoryText | None:
        """Reading of earlier messages; None: the newest one alone."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Size d of the vectors."""

    @property
    @abstractmethod
    def reduction_size(self) -> int:
        """Size of r, which `transfer` returns."""

    @abstractmethod
    def _encode_blocks(
        self,
        blocks: Iterator[tuple[Ids, Ids]],
        count: int,
        side: Side,
        advance: Advance | None,
    ) -> FloatArray:
        """Return the vectors of n = `count` texts, (n, d).

        A block of them is all its ids and the number of each one's.
        """

    @abstractmethod
    def _head(self, r: FloatArray, side: Side) -> FloatArray:
        """Return the vectors of a side (n, d), given r (n, `reduction_size`)."""

    @abstractmethod
    def _combine(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Combine h_x and h_z (n, d), zero without a history, into the encodings (n, d)."""

    def _pool_history(
        self, x: FloatArray, texts: FloatArray, histories: npt.NDArray[np.int64]
    ) -> FloatArray:
        """Pool the histories' h (m, d) into h_z (n, d), given h_x (n, d).

        The context and the slot of each text are in (2, m). Here each history is one text, whose h
        it is.
        """
        z = np.zeros_like(x)
        z[histories[0]] = texts
        return z

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    @property
    def reads_history(self) -> bool:
        """Return whether a context's earlier messages count, not the newest one alone."""
        return self.history is not None

    def by(self, part: ContextPart) -> Self:
        """Return an encoder of contexts by their input alone (h_x) or their history alone (h_z)."""
        if part not in get_args(ContextPart):
            raise InputError(
                f"{part!r} is not a part of a context; allowed are "
                f"{', '.join(get_args(ContextPart))}"
            )
        if part != "all" and not self.reads_history:
            raise InputError(
                f"{self.name or 'this model'} reads the newest message alone,"
                f" so it has no part {part!r}"
            )
        other = copy.copy(self)
        other._part = part
        return other

    def with_cache(self) -> Self:
        """Return the same encoder with a cache, which it shares with `by`.

        It reads no text twice, whatever it is to a conversation, and keeps r of each: 4 bytes a
        number.
        """
        other = copy.copy(self)
        other._cache = VectorCache(self._recent)
        return other

    def with_recent(self) -> Self:
        """See `DualEncoder.with_recent`."""
        other = copy.copy(self)
        other._recent = RecentVectors()
        return other

    def read_ahead(self, contexts: Sequence[Context]) -> None:
        """See `DualEncoder.read_ahead`."""
        if self._cache is None:
            return
        texts = [context[-1] for context in contexts]
        if (history := self.history) is not None and history.apart:
            texts += [text for context in contexts for _, text in history.texts(context)]
        self._reduce(texts, "reduction", None)

    def encode_contexts(
        self, contexts: Sequence[Conversation], advance: Advance | None = None
    ) -> FloatArray:
        """Encode conversations: (n, d), rows of unit length.

        A multi-context model gives the combined encoding, or the part that `by` chose (zero where
        it is missing).
        """
        read = read_contexts(contexts)
        inputs = [context[-1] for context in read]
        history = self.history
        if history is None or self._part == "input":
            return self._encode(inputs, "context", advance)
        vectors = np.empty((len(contexts), self.size), dtype=np.float32)
        for start in range(0, len(contexts), CHUNK_CONTEXTS):
            chunk = slice(start, start + CHUNK_CONTEXTS)
            vectors[chunk] = self._with_history(history, inputs[chunk], read[chunk])
            if advance is not None:
                advance(len(inputs[chunk]))
        return vectors

    def _with_history(
        self, history: HistoryText, inputs: list[str], contexts: Sequence[Context]
    ) -> FloatArray:
        """Encode contexts, and each distinct text of their histories once."""
        numbers: dict[str, int] = {}
        rows = [
            (owner, slot, numbers.setdefault(text, len(numbers)))
            for owner, context in enumerate(contexts)
            for slot, text in history.texts(context)
        ]
        owners, slots, texts = np.array(rows, np.int64).reshape(-1, 3).T
        opening = np.zeros(len(inputs), dtype=bool)
        if self.opening_weight and self._part == "all":
            opening = np.fromiter(map(is_opening, contexts), bool, len(inputs))
        x = np.empty((len(inputs), self.size), dtype=np.float32)
        sides: tuple[tuple[Side, npt.NDArray[np.bool_]], ...] = (
            ("context", ~opening),
            ("opening", opening),
        )
        for side, chosen in sides:
            x[chosen] = self._encode([inputs[row] for row in np.flatnonzero(chosen)], side, None)
        z = self._pool_history(
            x, self._encode(list(numbers), "history", None)[texts], np.stack([owners, slots])
        )
        if self._part == "history":
            return unit_rows(z)
        if not opening.all():
            x[~opening] = self._combine(x[~opening], z[~opening])
        return x

    def encode_queries(self, contexts: Sequence[Conversation]) -> FloatArray | ContextVectors:
        """Encode conversations as what responses are scored by.

        Without a persona that is what `encode_contexts` gives. Of a conversation c with a persona
        whose statements, as history, have h_i, the vectors are c + w·h_i, w being
        `HistoryText.persona_weight`: a response y scores c·y and w times the mean of the h_i·y,
        each weighted by the softmax of `INVERSE_TEMPERATURE`·w·h_i·y. So the statement counts that
        the response is about (POLY 4.4's attention, here over statements).
        """
        vectors = self.encode_contexts(contexts)
        history = self.history
        if history is None or self._part != "all":
            return vectors
        stated = [history.statements(context) for context in read_contexts(contexts)]
        texts = dict.fromkeys(text for statements in stated for text in statements)
        if not texts:
            return vectors
        h = dict(
            zip(
                texts,
                np.float32(history.persona_weight) * self._encode([*texts], "history", None),
                strict=True,
            )
        )
        counts = np.array([max(1, len(statements)) for statements in stated])
        several = np.repeat(vectors[:, None], counts.max(), axis=1)
        for row, statements in enumerate(stated):
            for column, text in enumerate(statements):
                several[row, column] += h[text]
        return ContextVectors(
            several, np.arange(counts.max()) < counts[:, None], INVERSE_TEMPERATURE
        )

    def encode_responses(
        self, responses: Sequence[str], advance: Advance | None = None
    ) -> FloatArray:
        """Encode responses: (n, d), rows of unit length."""
        return self._encode(read_texts(responses), "response", advance)

    def transfer(self, texts: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """Return r of each text, (n, reduction heads · embedding size).

        It is the input of other tasks (CONVERT 3.1).
        """
        return self._encode(read_texts(texts), "reduction", advance)

    def _encode(self, texts: list[str], side: Side, advance: Advance | None) -> FloatArray:
        if self._cache is None:
            return self._encode_blocks(self._blocks(texts, side), len(texts), side, advance)
        r = self._reduce(texts, side, advance)
        if side == "reduction":
            return r
        vectors = np.empty((len(r), self.size), dtype=np.float32)
        for start in range(0, len(r), CHUNK_CONTEXTS):
            chunk = slice(start, start + CHUNK_CONTEXTS)
            vectors[chunk] = self._head(r[chunk], side)
        return vectors

    def _reduce(self, texts: list[str], side: Side, advance: Advance | None) -> FloatArray:
        """Return r of texts, of those in the cache what it holds."""
        assert self._cache is not None
        is_joined = side == "history" and self.history is not None and not self.history.apart
        return self._cache.encode(
            texts,
            "history" if is_joined else "message",
            lambda new: self._encode_blocks(
                self._blocks(new, side), len(new), "reduction", advance
            ),
            advance,
        )

    def _blocks(self, texts: Sequence[str], side: Side) -> Iterator[tuple[Ids, Ids]]:
        """Yield texts as their ids and the number of each one's, a block at a time."""

        def read(some: Sequence[str]) -> tuple[Ids, Ids]:
            if side == "history" and self.history is not None:
                return self.history.encode(self.tokenizer, some, self.max_length)
            ids, lengths = encode_messages(self.tokenizer, some, self.max_length)
            self._count_truncated(some, lengths)
            return ids, lengths

        return in_blocks(read, texts)
