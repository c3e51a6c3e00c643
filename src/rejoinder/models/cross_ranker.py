"""A cross-encoder as its users meet it: conversations and their candidates in, scores out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from rejoinder.models.dialogue import join
from rejoinder.models.families import family_of
from rejoinder.models.packing import TRANSFORMER_SEGMENT_COST, IntArray, pack
from rejoinder.ranker import Context, FloatArray, candidate_lists
from rejoinder.text.tokenizer import Ids, Tokenizer

CHUNK_TOKENS = 4096
"""Tokens computed at once."""


class CrossRanker:
    """Scores responses by reading each together with its context (fulfils `ranker.Ranker`).

    Args:
        module: the network, ready for use (see `persistence.load`).
        tokenizer: its tokenizer.
        max_length: longest response in tokens, its marks included.
        fingerprint: SHA-256 of configuration, weights and vocabulary.
        name: where it was loaded from, to be shown to users.
    """

    def __init__(
        self, module: Any, tokenizer: Tokenizer, *, max_length: int, fingerprint: str, name: str = ""
    ) -> None:
        self.module = module.eval()
        reading = family_of(module.config).dialogue
        assert reading is not None  # families that open as this have one
        self.dialogue = reading(module.config, tokenizer, max_length)
        self.tokenizer, self.max_length, self.fingerprint, self.name = tokenizer, max_length, fingerprint, name
        self.real_tokens, self.computed_tokens = 0, 0
        """Tokens read so far, without and with padding."""

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """Score of each of a context's candidates: (n, m); see `ranker.Ranker.score`.

        Context and candidate pairs are read from short to long, so that there is next to no padding.
        """
        lists = candidate_lists(contexts, candidates)
        scores = np.zeros(lists.shape, dtype=np.float32)
        if not scores.size:
            return scores
        rows = lists.rows.reshape(-1)
        before = _Texts(*self.dialogue.contexts(contexts))
        behind = _Texts(*self.dialogue.responses(lists.texts))
        context_rows = np.repeat(np.arange(len(contexts), dtype=np.int32), lists.shape[1])
        flat = scores.reshape(-1)
        with torch.inference_mode():
            for chosen in _chunks(before.lengths[context_rows] + behind.lengths[rows]):
                ids, lengths, types = join(
                    before.take(context_rows[chosen]),
                    behind.take(rows[chosen]),
                    len(self.dialogue.start),
                )
                batch = pack(ids, lengths, self.tokenizer.padding_id, TRANSFORMER_SEGMENT_COST, types)
                self.real_tokens += batch.real_tokens
                self.computed_tokens += batch.computed_tokens
                flat[chosen] = self.module.score(batch).numpy()
        return scores


class _Texts:
    """Texts as token ids, read at random."""

    def __init__(self, ids: Ids, lengths: Ids) -> None:
        self.ids, self.lengths = ids, lengths
        self._starts = np.cumsum(lengths, dtype=np.int64) - lengths

    def take(self, rows: IntArray) -> tuple[Ids, Ids]:
        """The given texts' ids, one after the other, and the number of each one's."""
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths, dtype=np.int64)
        places = np.arange(int(lengths.sum())) + np.repeat(self._starts[rows] - ends + lengths, lengths)
        return self.ids[places], lengths


def _chunks(lengths: IntArray) -> Iterator[IntArray]:
    """Texts from short to long, in parts of about CHUNK_TOKENS tokens."""
    order = np.argsort(lengths, kind="stable").astype(np.int32)
    part_of = np.cumsum(lengths[order], dtype=np.int64) // CHUNK_TOKENS
    yield from np.split(order, np.flatnonzero(np.diff(part_of)) + 1)
