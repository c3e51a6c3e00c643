"""Views of a reply: its text, its sentences, its title and the conversations that it answers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray
from rejoinder.conversations import Context
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.vectors import check_vectors
from rejoinder.patterns import search_pattern
from rejoinder.progress import Advance, silent
from rejoinder.text.emoji import read_emoji
from rejoinder.text.sentences.frames import without_frame
from rejoinder.text.wording import plain_wording

WHOLE_WEIGHT = 0.25
PARTS_WEIGHT = 0.5
"""Weights of a reply's own text, and of all its sentences together, as examples of its
questions."""
_ENCODED_AT_ONCE = 1024
_SENTENCE = search_pattern(r"(?<=[.!?])\s+|\n+")
_LEAST_WORDS = 3  # of a sentence
_MOST_SENTENCES = 200  # of a reply that count by themselves: each is encoded


@dataclass(frozen=True, slots=True)
class Views:
    """Context vectors (n, d) of what replies answer, each with its reply's number and weight."""

    vectors: FloatArray
    owners: npt.NDArray[np.int64]
    weights: FloatArray

    def without(self, rows: npt.NDArray[np.bool_]) -> Views:
        """Return the views that are not among some rows."""
        return Views(self.vectors[~rows], self.owners[~rows], self.weights[~rows])


def view_texts(candidate: Candidate) -> list[tuple[Context, float]]:
    """Return the conversations that a reply answers, each with its weight.

    Its own text and its sentences are among them.
    """
    pieces = _SENTENCE.split(candidate.text)
    sentences = (part for part in pieces if len(part.split()) >= _LEAST_WORDS)
    parts = list(itertools.islice(sentences, _MOST_SENTENCES))
    views: list[tuple[Context, float]] = [([candidate.text], WHOLE_WEIGHT)]
    if len(parts) > 1:
        views += [([part], PARTS_WEIGHT / len(parts)) for part in parts]
    if candidate.title:
        views.append(([candidate.title], 1.0))
    views += [(example, 1.0) for example in (*candidate.examples, *candidate.learned)]
    return views


def view_contexts(candidate: Candidate) -> list[Context]:
    """Return the conversations of `view_texts`."""
    return [context for context, _ in view_texts(candidate)]


def encode_views(
    encoder: DualEncoder, candidates: Sequence[Candidate], progress: Advance = silent
) -> Views:
    """Encode the views of replies. `progress` gets the number of replies just encoded."""
    texts = [view_texts(candidate) for candidate in candidates]
    contexts = [
        [without_frame(plain_wording(text)) for text in context]
        for views in texts
        for context, _ in views
    ]
    vectors = encode_conversations(encoder, contexts)
    progress(len(candidates))
    return Views(
        vectors,
        np.repeat(np.arange(len(texts)), [len(views) for views in texts]),
        np.array([weight for views in texts for _, weight in views], dtype=np.float32),
    )


def encode_conversations(encoder: DualEncoder, contexts: Sequence[Context]) -> FloatArray:
    """Return the vectors (n, d) of conversations, in which emoji are words."""
    parts = []
    for start in range(0, len(contexts), _ENCODED_AT_ONCE):
        chosen = contexts[start : start + _ENCODED_AT_ONCE]
        read = [[read_emoji(text) for text in context] for context in chosen]
        vectors: Any = encoder.encode_contexts(read)
        parts.append(check_vectors(vectors, "context"))
    return np.concatenate(parts)
