"""The two protocols that everything which ranks fulfils: BM25, dual encoders, cross-encoders.

Evaluation and serving know nothing else about a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

Context: TypeAlias = Sequence[str]
"""A conversation so far: its messages, oldest first. The newest one is the *input*, the others the *history*."""

ContextPart: TypeAlias = Literal["all", "input", "history"]
"""What of a context is read: all that the model can read, or the input or the history alone."""

FloatArray: TypeAlias = npt.NDArray[np.float32]


@runtime_checkable
class Ranker(Protocol):
    """Scores candidate responses for conversations."""

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """Score each context's own candidates; higher is better.

        Args:
            contexts: n conversations, each a list of messages, oldest first.
            candidates: n lists of candidate responses, all of the same length m. Lists may be shared and
                texts repeated: an implementation encodes each distinct text once.

        Returns:
            Array (n, m), float32.
        """
        ...


@runtime_checkable
class DualEncoder(Ranker, Protocol):
    """A ranker whose score is a function of two vectors, so that responses can be encoded ahead of time."""

    def encode_contexts(self, contexts: Sequence[Context]) -> FloatArray:
        """Encode conversations: array (n, d), float32, rows of unit length."""
        ...

    def encode_responses(self, responses: Sequence[str]) -> FloatArray:
        """Encode responses: array (n, d), float32, rows of unit length."""
        ...
