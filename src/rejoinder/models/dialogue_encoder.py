"""Bi- and poly-encoders as their users meet them: conversations and responses in, vectors or scores out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rejoinder.models.attended import own_scores
from rejoinder.models.families import family_of
from rejoinder.models.packing import SEGMENT_COST, TRANSFORMER_SEGMENT_COST, IntArray, chunks
from rejoinder.models.transformer import TransformerShape
from rejoinder.ranker import Context, ContextVectors, FloatArray, candidate_lists
from rejoinder.text.tokenizer import Tokenizer

CHUNK_TOKENS = 4096
"""Tokens computed at once: enough for full speed, few enough for the activations to stay in the cache."""

CHUNK_NUMBERS = 1 << 24
"""Numbers of candidates' vectors that are scored at once: 64 MB."""

Advance = Callable[[int], None]
"""Called with the number of texts just done."""


class DialogueEncoder:
    """Encodes conversations and responses, and scores responses (fulfils `ranker.DualEncoder`).

    Args:
        module: the network, ready for encoding (see `persistence.load`).
        tokenizer: its tokenizer.
        max_length: longest response in tokens, its marks included.
        fingerprint: SHA-256 of configuration, weights and vocabulary: two encoders with the same one give the same
            vectors.
        name: where it was loaded from, to be shown to users.
    """

    def __init__(
        self, module: Any, tokenizer: Tokenizer, *, max_length: int, fingerprint: str, name: str = ""
    ) -> None:
        self.module = module.eval()
        reading = family_of(module.config).dialogue
        assert reading is not None  # families that open as this have one
        self.dialogue = reading(module.config, tokenizer, max_length)
        own = isinstance(module.config, TransformerShape)
        self._segment_cost = TRANSFORMER_SEGMENT_COST if own else SEGMENT_COST
        self.tokenizer, self.max_length, self.fingerprint, self.name = tokenizer, max_length, fingerprint, name

    @property
    def size(self) -> int:
        """Size d of the vectors."""
        return self.module.output_size

    @property
    def unit_length(self) -> bool:
        """Whether rows are of unit length, so that scores are cosines."""
        return getattr(self.module.config, "similarity", "dot") == "cosine"

    def encode_contexts(self, contexts: Sequence[Context], advance: Advance | None = None) -> FloatArray:
        """Encode conversations: (n, d).

        Raises:
            InputError: a context has no message.
        """
        return self._vectors(contexts, advance)

    def encode_responses(self, responses: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """Encode responses: (n, d)."""
        return self._encode(*self.dialogue.responses(list(responses)), "response", advance)

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """Score of each of a context's candidates: (n, m); see `ranker.Ranker.score`."""
        lists = candidate_lists(contexts, candidates)
        scores = np.zeros(lists.shape, dtype=np.float32)
        if not scores.size:
            return scores
        rows = lists.rows
        responses = torch.from_numpy(self.encode_responses(lists.texts))
        size = max(1, CHUNK_NUMBERS // (rows.shape[1] * self.size))
        for start in range(0, len(contexts), size):
            part = slice(start, start + size)
            encoded = torch.from_numpy(self._vectors(contexts[part]))
            with torch.inference_mode():
                found = own_scores(encoded, responses[torch.from_numpy(rows[part]).long()])
            scores[part] = found.numpy()
        return scores

    def _vectors(self, contexts: Sequence[Context], advance: Advance | None = None) -> FloatArray:
        """Vectors of conversations: (n, d), or of a poly-encoder (n, m, d)."""
        return self._encode(*self.dialogue.contexts(contexts), "context", advance)

    def _encode(self, ids: IntArray, lengths: IntArray, side: str, advance: Advance | None) -> FloatArray:
        pieces: list[FloatArray] = []
        places: list[IntArray] = []
        with torch.inference_mode():
            padding, cost = self.tokenizer.padding_id, self._segment_cost
            for chosen, batch in chunks(ids, lengths, padding, CHUNK_TOKENS, segment_cost=cost):
                pieces.append(self.module.encode(batch, side).float().numpy())
                places.append(chosen)
                if advance is not None:
                    advance(len(chosen))
        if not pieces:
            return np.zeros((0, self.size), dtype=np.float32)
        vectors = np.empty((len(lengths), *pieces[0].shape[1:]), dtype=np.float32)
        for chosen, piece in zip(places, pieces, strict=True):
            vectors[chosen] = piece
        return vectors


class PolyDialogueEncoder(DialogueEncoder):
    """Encodes a conversation as several vectors (fulfils `ranker.PolyEncoder`); see `DialogueEncoder`."""

    def encode_contexts(  # type: ignore[override]  # several vectors are another protocol
        self, contexts: Sequence[Context], advance: Advance | None = None
    ) -> ContextVectors:
        """Encode conversations: m vectors each, fewer where a conversation has fewer tokens.

        Raises:
            InputError: a context has no message.
        """
        vectors = self._vectors(contexts, advance)
        if vectors.ndim == 2:  # no conversation at all
            vectors = vectors[:, None]
        present = (vectors != 0).any(axis=2)
        return ContextVectors(vectors, None if present.all() else present)
