"""Texts in, vectors or scores out: the protocols of all that ranks, from BM25 to cross-encoders.

Also lists of candidates, scores of vectors, and a cache by which an encoder encodes no text twice.
An encoder of your own inherits `DualEncoder` and gives `name`, `fingerprint`, `encode_contexts` and
`encode_responses`; the rest has defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray
from rejoinder.conversations import CONVERSATIONS, Context, Conversation, check_list, read_contexts
from rejoinder.corpora import Example
from rejoinder.errors import InputError, RejoinderError
from rejoinder.progress import Advance


@runtime_checkable
class Ranker(Protocol):
    """Scores candidate responses for conversations."""

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """Score each context's own candidates; higher is better: float32 (n, m).

        The n lists have the same length m. They may share texts, and a list may serve several
        contexts.
        """
        ...


@runtime_checkable
class FittedRanker(Ranker, Protocol):
    """A ranker that is fitted to training examples before it can score."""

    def fit(
        self, examples: Sequence[Example], progress: Advance | None = None
    ) -> Mapping[str, Any]:
        """Forget the earlier fit, learn from `examples`, and return facts of JSON types."""
        ...


@runtime_checkable
class DualEncoder(Ranker, Protocol):
    """A ranker that encodes conversations and responses apart.

    Responses can thus be encoded ahead of time. A conversation has one vector, whose products with
    the responses' are the scores, or several (`ContextVectors`).
    """

    @property
    def name(self) -> str:
        """Name or folder that it was opened by."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of weights, configuration and vocabulary: equal ones give equal vectors."""
        ...

    @property
    def unit_length(self) -> bool:
        """Return whether vectors are of unit length, so that scores are cosines."""
        return True

    @property
    def reads_history(self) -> bool:
        """Return whether the input and the history are encoded apart (see `by`)."""
        return False

    @property
    def subject_threshold(self) -> float:
        """Cosine with the earlier messages below which an input begins a new subject.

        The input is compared as a response to them.
        """
        return 0.0

    def encode_contexts(self, contexts: Sequence[Context]) -> FloatArray | ContextVectors:
        """Encode conversations: float32 (n, d), or m vectors each."""
        ...

    def encode_responses(self, responses: Sequence[str]) -> FloatArray:
        """Encode responses: float32 (n, d)."""
        ...

    def encode_queries(self, contexts: Sequence[Conversation]) -> FloatArray | ContextVectors:
        """Encode conversations as the queries that responses are scored by, with their personas."""
        return self.encode_contexts(read_contexts(contexts))

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """See `Ranker.score`."""
        return cosine_scores(self, contexts, candidates)

    def with_cache(self) -> Self:
        """Return the same encoder, which encodes no text twice (4·d bytes each), if it can."""
        return self


@dataclass(frozen=True, slots=True)
class ContextVectors:
    """Conversations of several vectors each (POLY, section 4.4): float32 (n, m, d).

    `present` (n, m) is False where a conversation lacks a vector, such as one shorter than m. None:
    all are there. The products with a response are multiplied by `sharpness` in the softmax alone.
    """

    vectors: FloatArray
    present: npt.NDArray[np.bool_] | None = None
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        if self.vectors.ndim != 3:
            raise ValueError(
                f"vectors of shape {self.vectors.shape}; (contexts, vectors, size) is needed"
            )
        if self.present is not None and self.present.shape != self.vectors.shape[:2]:
            raise ValueError(
                f"present is {self.present.shape} for vectors of shape {self.vectors.shape}"
            )

    def __len__(self) -> int:
        """Number of conversations."""
        return len(self.vectors)

    def __getitem__(self, context: int) -> FloatArray:
        """The vectors that one conversation has: (m' <= m, d)."""
        vectors: FloatArray = self.vectors[context]
        return vectors if self.present is None else vectors[self.present[context]]

    def take(self, contexts: Sequence[int]) -> ContextVectors:
        """Return the vectors of some conversations."""
        rows = list(contexts)
        return replace(
            self,
            vectors=self.vectors[rows],
            present=None if self.present is None else self.present[rows],
        )

    def __iter__(self) -> Iterator[FloatArray]:
        """The vectors of each conversation."""
        return (self[context] for context in range(len(self)))


@dataclass(frozen=True, slots=True)
class CandidateLists:
    """The candidates of n contexts (n, m), each list and each distinct text once.

    A group is the contexts that share a list, and its m candidates as rows of `texts`.
    """

    texts: list[str]
    groups: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]]
    shape: tuple[int, int]

    @property
    def rows(self) -> npt.NDArray[np.int32]:
        """The candidates of each context as rows of `texts`: (n, m)."""
        rows = np.zeros(self.shape, dtype=np.int32)
        for contexts, candidates in self.groups:
            rows[contexts] = candidates
        return rows


def candidate_lists(
    contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]
) -> CandidateLists:
    """Find the distinct texts of lists of candidates.

    A list object that contexts share is looked up once.
    """
    check_list(contexts, CONVERSATIONS)
    need = "give each context a list of candidates"
    check_list(candidates, need)
    for texts in candidates:
        check_list(texts, need)
    if len(contexts) != len(candidates):
        raise InputError(
            f"{len(contexts)} contexts but {len(candidates)} lists of candidates; give one for each"
        )
    sizes = {len(texts) for texts in candidates}
    if len(sizes) > 1:
        raise InputError(
            "the lists of candidates differ in length; score each length in a call of its own"
        )
    size = max(sizes, default=0)
    sharing: dict[int, list[int]] = {}
    for context, texts in enumerate(candidates):
        sharing.setdefault(id(texts), []).append(context)
    numbers: dict[str, int] = {}
    groups = []
    for shared in sharing.values():
        found = (numbers.setdefault(text, len(numbers)) for text in candidates[shared[0]])
        groups.append((np.array(shared), np.fromiter(found, dtype=np.int32, count=size)))
    return CandidateLists(list(numbers), groups, (len(contexts), size))


def cosine_scores(
    encoder: DualEncoder, contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]
) -> FloatArray:
    """Score candidates as `Ranker.score` does, by the product of the two vectors.

    Each text is encoded once.
    """
    lists = candidate_lists(contexts, candidates)
    scores = np.zeros(lists.shape, dtype=np.float32)
    if not scores.size:
        return scores
    responses = check_vectors(encoder.encode_responses(lists.texts), "response", len(lists.texts))
    queries = encode_queries(encoder, read_contexts(contexts))
    for rows, columns in lists.groups:
        own = responses[columns]
        for row in rows:  # one by one: a score does not depend on what else is scored
            if isinstance(queries, ContextVectors):
                products = np.stack([own @ vector for vector in queries[row]], axis=1)
                scores[row] = attended(products, queries.sharpness)
            else:
                scores[row] = own @ queries[row]
    return scores


def encode_queries(
    encoder: DualEncoder, contexts: Sequence[Conversation]
) -> FloatArray | ContextVectors:
    """Return an encoder's queries after checking their number and type."""
    queries: object = encoder.encode_queries(contexts)
    if not isinstance(queries, ContextVectors):
        return check_vectors(queries, "context", len(contexts))
    check_vectors(queries.vectors, "context", len(contexts))
    return queries


def check_vectors(vectors: object, what: str, count: int | None = None) -> FloatArray:
    """Return a model's vectors of `count` texts or conversations in float32.

    Anything else is an InputError.
    """
    try:
        numbers = np.asarray(vectors)
    except ValueError as error:  # rows of different lengths
        raise InputError(
            f"the model gives encodings that are no array ({error});"
            f" one vector per {what} is needed"
        ) from None
    if numbers.dtype.kind not in "fiu" or not numbers.ndim:
        raise InputError(
            f"the model gives encodings as {type(vectors).__name__} of {numbers.dtype};"
            f" numbers are needed, one vector per {what}"
        )
    if count is not None and len(numbers) != count:
        raise InputError(
            f"the model gives {len(numbers):,} vectors where {count:,} are needed, one per {what}"
        )
    return np.ascontiguousarray(numbers, dtype=np.float32)


def attended(products: npt.NDArray[Any], sharpness: float = 1.0) -> npt.NDArray[Any]:
    """Return the scores (b,) of b responses whose products with a context's m vectors are l (b, m).

    sum_i softmax(sharpness·l)_i·l_i (POLY, section 4.4).
    """
    below = products - products.max(axis=1, keepdims=True)
    weights = np.exp(sharpness * below)
    scores: npt.NDArray[Any] = products.max(axis=1) + (weights * below).sum(axis=1) / weights.sum(
        axis=1
    )
    return scores


def require_examples(examples: Sequence[Example], count: int, name: str) -> None:
    """Raise InputError if there are fewer than `count` examples."""
    if len(examples) < count:
        raise InputError(
            f"{name} learns from training examples:"
            f" {len(examples)} given, {count} or more are needed"
        )


def not_fitted(name: str) -> RejoinderError:
    """Return the error of a ranker that is asked for scores before `fit`."""
    return RejoinderError(
        f"{name} has not learned anything yet; call fit(examples) with training examples first"
    )


class VectorCache:
    """Vectors of texts, those of each side apart. It takes 4·d bytes a text."""

    def __init__(self) -> None:
        self._vectors: dict[tuple[str, str], FloatArray] = {}

    def encode(
        self,
        texts: Sequence[str],
        side: str,
        compute: Callable[[list[str]], FloatArray],
        advance: Advance | None = None,
    ) -> FloatArray:
        """Return the vectors of texts, (n, d).

        `compute` encodes those that are not in the cache.
        """
        new = [text for text in dict.fromkeys(texts) if (side, text) not in self._vectors]
        vectors = compute(new)
        for text, vector in zip(new, vectors, strict=True):
            self._vectors[side, text] = vector
        if advance is not None:
            advance(len(texts) - len(new))
        return np.stack([self._vectors[side, text] for text in texts]) if texts else vectors
