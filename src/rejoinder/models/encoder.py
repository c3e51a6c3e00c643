"""A trained dual encoder as its users meet it: texts in, vectors or scores out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from rejoinder.errors import InputError
from rejoinder.models.packing import IntArray, TokenBatch, pack
from rejoinder.models.single import SingleTexts
from rejoinder.ranker import Context, ContextPart, FloatArray, candidate_lists
from rejoinder.text.tokenizer import Tokenizer

CHUNK_TOKENS = 4096
"""Tokens computed at once: enough for full speed, few enough for the activations to stay in the cache."""

CHUNK_CONTEXTS = 1024
"""Contexts with their histories encoded between two steps of a progress bar."""

Advance = Callable[[int], None]
"""Called with the number of texts just done."""

Side: TypeAlias = Literal["context", "history", "response", "reduction"]
"""What a text is encoded as."""


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
        self, module: Any, tokenizer: Tokenizer, *, max_length: int, fingerprint: str, name: str = ""
    ) -> None:
        self.module = module.eval()
        self._single_texts = SingleTexts(module)
        self._part: ContextPart = "all"
        self._known: dict[tuple[Side, str], FloatArray] | None = None
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.fingerprint = fingerprint
        self.name = name

    @property
    def size(self) -> int:
        """Size d of the vectors."""
        return self.module.output_size

    @property
    def reads_history(self) -> bool:
        """Whether a context's earlier messages count, not the newest one alone."""
        return self.module.history is not None

    def by(self, part: ContextPart) -> Encoder:
        """The same encoder, which encodes contexts by their input alone (h_x), or by their history alone (h_z).

        Raises:
            InputError: the model reads no history, so it has no such parts; or there is no such part.
        """
        if part not in get_args(ContextPart):
            raise InputError(f"{part!r} is no part of a context; allowed are {', '.join(get_args(ContextPart))}")
        if part != "all" and not self.reads_history:
            raise InputError(f"{self.name or 'this model'} reads the newest message alone, so it has no part {part!r}")
        other = copy.copy(self)
        other._part = part
        return other

    def remembering(self) -> Encoder:
        """The same encoder, which keeps every vector and encodes no text twice: 4·d bytes for each text.

        For evaluations that read the same conversations in several ways. `by` of it shares what is known.
        """
        other = copy.copy(self)
        other._known = {}
        return other

    def encode_contexts(self, contexts: Sequence[Context], advance: Advance | None = None) -> FloatArray:
        """Encode conversations: (n, d), rows of unit length.

        A single-context model reads the newest message. A multi-context model reads the earlier ones too and gives
        the combined encoding, or the part that `by` chose (with "history" a row is zero where there is none).

        Raises:
            InputError: a context has no message.
        """
        inputs = [newest_message(context) for context in contexts]
        if not self.reads_history or self._part == "input":
            return self._encode(inputs, "context", advance)
        vectors = np.empty((len(contexts), self.size), dtype=np.float32)
        for start in range(0, len(contexts), CHUNK_CONTEXTS):
            chunk = slice(start, start + CHUNK_CONTEXTS)
            vectors[chunk] = self._with_history(inputs[chunk], contexts[chunk])
            if advance is not None:
                advance(len(inputs[chunk]))
        return vectors

    def _with_history(self, inputs: list[str], contexts: Sequence[Context]) -> FloatArray:
        """Combined encodings, or h_z, of some contexts."""
        module = self.module
        assert module.history is not None
        texts = [module.history.join(context) for context in contexts]
        z = np.zeros((len(texts), self.size), dtype=np.float32)
        there = [i for i, text in enumerate(texts) if text]
        z[there] = self._encode([texts[i] for i in there], "history", None)
        if self._part == "history":
            return z
        x = self._encode(inputs, "context", None)
        with torch.inference_mode():
            combined: FloatArray = module.combine(torch.from_numpy(x), torch.from_numpy(z)).numpy()
        return combined

    def encode_responses(self, responses: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """Encode responses: (n, d), rows of unit length."""
        return self._encode(list(responses), "response", advance)

    def transfer(self, texts: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """r of each text, (n, reduction heads · embedding size): the input of other tasks (CONVERT 3.1)."""
        return self._encode(list(texts), "reduction", advance)

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """Cosine of each context with each of its candidates: (n, m); see `ranker.Ranker.score`."""
        lists = candidate_lists(contexts, candidates)
        scores = np.zeros(lists.shape, dtype=np.float32)
        if not contexts:
            return scores
        responses = self.encode_responses(lists.texts)
        queries = self.encode_contexts(contexts)
        for rows, columns in lists.groups:
            own = responses[columns]
            for row in rows:
                scores[row] = own @ queries[row]
        return scores

    def _encode(self, texts: list[str], side: Side, advance: Advance | None) -> FloatArray:
        if self._known is None:
            return self._compute(texts, side, advance)
        new = [text for text in dict.fromkeys(texts) if (side, text) not in self._known]
        vectors = self._compute(new, side, advance)
        self._known |= {(side, text): vector for text, vector in zip(new, vectors, strict=True)}
        if advance is not None:
            advance(len(texts) - len(new))
        return np.stack([self._known[side, text] for text in texts]) if texts else vectors

    def _compute(self, texts: list[str], side: Side, advance: Advance | None) -> FloatArray:
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
