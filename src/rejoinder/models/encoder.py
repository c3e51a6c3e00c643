"""A trained dual encoder as its users meet it: texts in, vectors or scores out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from rejoinder.errors import InputError
from rejoinder.models.convert import Convert
from rejoinder.models.packing import IntArray, TokenBatch, pack
from rejoinder.models.single import SingleTexts
from rejoinder.ranker import Context, FloatArray

CHUNK_TOKENS = 4096
"""Tokens computed at once: enough for full speed, few enough for the activations to stay in the cache."""

Advance = Callable[[int], None]
"""Called with the number of texts just done."""


class Tokenizer(Protocol):
    """What the encoder needs to know of a tokenizer."""

    @property
    def padding_id(self) -> int:
        """The id that stands where there is no token."""
        ...

    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[IntArray, IntArray]:
        """All ids one after the other and the number of ids of each text, cut at `max_length`."""
        ...


class Encoder:
    """Encodes contexts and responses, and scores responses by the cosine (fulfils `ranker.DualEncoder`).

    Args:
        module: the network, ready for encoding (see `persistence.load`).
        tokenizer: its tokenizer.
        max_length: longest text in tokens; the rest is cut off (CONVERT: 60).
        fingerprint: SHA-256 of configuration, weights and vocabulary: two encoders with the same one give the same
            vectors.
        name: where it was loaded from, to be shown to users.
    """

    def __init__(
        self, module: Convert, tokenizer: Tokenizer, *, max_length: int, fingerprint: str, name: str = ""
    ) -> None:
        self.module = module.eval()
        self._single_texts = SingleTexts(module)
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.fingerprint = fingerprint
        self.name = name

    @property
    def size(self) -> int:
        """Size d of the vectors."""
        return self.module.output_size

    def encode_contexts(self, contexts: Sequence[Context], advance: Advance | None = None) -> FloatArray:
        """Encode conversations by their newest message (single-context ConveRT): (n, d), rows of unit length.

        Raises:
            InputError: a context has no message.
        """
        return self._encode([newest_message(context) for context in contexts], "context", advance)

    def encode_responses(self, responses: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """Encode responses: (n, d), rows of unit length."""
        return self._encode(list(responses), "response", advance)

    def transfer(self, texts: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """r of each text, (n, reduction heads · embedding size): the input of other tasks (CONVERT 3.1)."""
        return self._encode(list(texts), "reduction", advance)

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """Cosine of each context with each of its candidates: (n, m); see `ranker.Ranker.score`."""
        if len(contexts) != len(candidates):
            raise InputError(f"{len(contexts)} contexts but {len(candidates)} lists of candidates; give one for each")
        if not contexts:
            return np.zeros((0, 0), dtype=np.float32)
        if len({len(texts) for texts in candidates}) > 1:
            raise InputError("the lists of candidates differ in length; score each length in a call of its own")
        rows: dict[str, int] = {}
        by_list: dict[int, IntArray] = {}  # lists are often shared between contexts: look each up once
        for texts in candidates:
            if id(texts) not in by_list:
                found = (rows.setdefault(text, len(rows)) for text in texts)
                by_list[id(texts)] = np.fromiter(found, dtype=np.int32, count=len(texts))
        responses = self.encode_responses(list(rows))
        queries = self.encode_contexts(contexts)
        scores = np.empty((len(contexts), len(candidates[0])), dtype=np.float32)
        for i, texts in enumerate(candidates):
            scores[i] = responses[by_list[id(texts)]] @ queries[i]
        return scores

    def _encode(
        self, texts: list[str], side: Literal["context", "response", "reduction"], advance: Advance | None
    ) -> FloatArray:
        pieces, places = [], []
        with torch.inference_mode():
            for chosen, batch in self._batches(texts):
                pieces.append(self._run(batch, side).float().numpy())
                places.append(chosen)
                if advance is not None:
                    advance(len(chosen))
        if not pieces:
            width = self.module.reduction_size if side == "reduction" else self.module.output_size
            return np.zeros((0, width), dtype=np.float32)
        vectors = np.empty((len(texts), pieces[0].shape[1]), dtype=np.float32)
        vectors[np.concatenate(places)] = np.concatenate(pieces)
        return vectors

    def _run(self, batch: TokenBatch, side: str) -> Tensor:
        alone = self._single_texts(batch, side)
        return self.module.encode(batch, side) if alone is None else alone

    def _batches(self, texts: list[str]) -> Iterator[tuple[IntArray, TokenBatch]]:
        """The texts from short to long in batches of about CHUNK_TOKENS, with their places among all."""
        ids, lengths = self.tokenizer.encode_ragged(texts, self.max_length)
        if 0 < len(ids) + len(texts) <= CHUNK_TOKENS:
            yield np.arange(len(texts), dtype=np.int32), pack(ids, lengths, self.tokenizer.padding_id)
            return
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        order = np.argsort(lengths, kind="stable").astype(np.int32)
        chunk_of = np.cumsum(np.maximum(lengths[order], 1)) // CHUNK_TOKENS
        for chosen in np.split(order, np.flatnonzero(np.diff(chunk_of)) + 1) if len(order) else ():
            parts = [ids[starts[i] : starts[i] + lengths[i]] for i in chosen.tolist()]
            yield chosen, pack(np.concatenate(parts), lengths[chosen], self.tokenizer.padding_id)


def newest_message(context: Context) -> str:
    """The input: what the other party said last."""
    if isinstance(context, str):
        raise InputError(f"a context is a list of messages, oldest first; a text was given: {context[:60]!r}")
    if not context:
        raise InputError("a context has no message; it needs at least one, oldest first")
    return context[-1]
