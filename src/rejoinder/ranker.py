"""What everything that ranks has in common, from BM25 to cross-encoders: the protocols, and lists of candidates."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError

Context: TypeAlias = Sequence[str]
"""A conversation so far: its messages, oldest first. The newest one is the *input*, the others the *history*."""

Conversation: TypeAlias = Sequence[str | Mapping[str, Any]]
"""A context as users have it: messages may also be {"role": ..., "content": text}, as chat APIs write them."""

PERSONA = "your persona: "
"""Before each statement of an old message that says who replies (as ParlAI's ConvAI2 has it; see `models.dialogue`)."""

NO_TURNS = frozenset({"system", "developer", "tool", "function"})
"""Roles of what nobody said to anybody: instructions to a program, and what it looks up."""

CONVERSATIONS = "give a list of conversations, each a list of messages"

ContextPart: TypeAlias = Literal["all", "input", "history"]
"""What of a context is read: all that the model can read, or the input or the history alone."""

FloatArray: TypeAlias = npt.NDArray[np.float32]


@runtime_checkable
class Ranker(Protocol):
    """Scores candidate responses for conversations."""

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """Score each context's own candidates; higher is better: float32 (n, m).

        The n lists have the same length m. They may share texts, and a list may serve several contexts.
        """
        ...


@runtime_checkable
class DualEncoder(Ranker, Protocol):
    """A ranker whose score is the product of two vectors, so that responses can be encoded ahead of time.

    Where rows are not of unit length, the encoder has an attribute `unit_length` that is False; its scores are dot
    products of any size.
    """

    def encode_contexts(self, contexts: Sequence[Context]) -> FloatArray:
        """Encode conversations: float32 (n, d), rows of unit length."""
        ...

    def encode_responses(self, responses: Sequence[str]) -> FloatArray:
        """Encode responses: float32 (n, d), rows of unit length."""
        ...


@dataclass(frozen=True, slots=True)
class ContextVectors:
    """Conversations of several vectors each (POLY, section 4.4): float32 (n, m, d).

    `present` (n, m) is False where a conversation lacks a vector, such as one shorter than m. None: all are there. The
    products with a response are multiplied by `sharpness` in the softmax alone.
    """

    vectors: FloatArray
    present: npt.NDArray[np.bool_] | None = None
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        if self.vectors.ndim != 3:
            raise ValueError(f"vectors of shape {self.vectors.shape}; (contexts, vectors, size) is needed")
        if self.present is not None and self.present.shape != self.vectors.shape[:2]:
            raise ValueError(f"present is {self.present.shape} for vectors of shape {self.vectors.shape}")

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
        return replace(self, vectors=self.vectors[rows], present=None if self.present is None else self.present[rows])

    def __iter__(self) -> Iterator[FloatArray]:
        """The vectors of each conversation."""
        return (self[context] for context in range(len(self)))


@runtime_checkable
class PolyEncoder(Ranker, Protocol):
    """A ranker that encodes a conversation as several vectors c_i and a response as one, y.

    Its score is sum_i softmax(l)_i·l_i with l_i = y·c_i, over the vectors that are there (POLY, section 4.4).
    """

    def encode_contexts(self, contexts: Sequence[Context]) -> ContextVectors:
        """Encode conversations: m vectors each; a plain array (n, m, d) where all are there."""
        ...

    def encode_responses(self, responses: Sequence[str]) -> FloatArray:
        """Encode responses: float32 (n, d), of any length if the attribute `unit_length` is False."""
        ...


def read_contexts(conversations: Sequence[Conversation]) -> list[Context]:
    """Return the texts of conversations, as `spoken` finds and `join_turns` joins them.

    Raises:
        InputError: a conversation is a text, has no message, or one that is neither a text nor a role with a text.
    """
    check_list(conversations, CONVERSATIONS)
    return [[text for _, text in join_turns(spoken(messages))] for messages in conversations]


def spoken(messages: Conversation) -> list[tuple[str | None, str]]:
    """Return role and text of each message; those of `NO_TURNS`, and calls of tools, are left out."""
    check_list(messages, "a conversation is a list of messages, oldest first")
    said: list[tuple[str | None, str]] = []
    for message in messages:
        role = message.get("role") if isinstance(message, Mapping) else None
        if is_call(message) or (isinstance(role, str) and role in NO_TURNS):
            continue
        text = message.get("content") if isinstance(message, Mapping) else message
        if not isinstance(text, str) or not isinstance(role, str | None):
            raise InputError(f'a message is a text, or {{"role": ..., "content": text}}; given: {_shown(message)}')
        said.append((role, text))
    if not said:
        raise InputError("a context has no message; it needs at least one, oldest first")
    return said


def is_call(message: object) -> bool:
    """Return whether a message calls a tool and says nothing."""
    calls = isinstance(message, Mapping) and ("tool_calls" in message or "function_call" in message)
    return calls and message.get("content") is None  # type: ignore[attr-defined]


def join_turns(messages: Iterable[tuple[str | None, str]]) -> list[tuple[str | None, str]]:
    """Join what one role says in several messages, one after the other, by a space; those without a role stay apart."""
    turns: list[tuple[str | None, list[str]]] = []
    for role, text in messages:
        if turns and role is not None and turns[-1][0] == role:
            turns[-1][1].append(text)
        else:
            turns.append((role, [text]))
    return [(role, " ".join(texts)) for role, texts in turns]


def is_persona(message: str) -> bool:
    """Return whether a message says what the one who replies is like."""
    return message.lstrip().startswith(PERSONA)


def read_texts(texts: Sequence[str]) -> list[str]:
    """Return texts as a list; a single text, which would be read letter by letter, or what is none is an InputError."""
    need = "give a list of texts, such as ['Hello!', 'At noon.']"
    check_list(texts, need)
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{need}; given: {_shown(text)}")
    return list(texts)


def check_list(values: object, need: str) -> None:
    """Raise InputError, which says what is needed, for what is no list: a text, a mapping, a generator, None."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Collection):
        raise InputError(f"{need}; given: {_shown(values)}")


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number; True is none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise InputError for what is no whole number, or one below `least`."""
    if not is_whole(value) or value < least:  # type: ignore[operator]
        raise InputError(f"{name} is {_shown(value)}; give a whole number, {least} or more")


def check_number(name: str, value: object, need: str, least: float = -math.inf, most: float = math.inf) -> None:
    """Raise InputError, which says what is needed, for what is no finite number from `least` to `most`."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not least <= value <= most:  # type: ignore[arg-type, operator]
        raise InputError(f"{name} is {_shown(value)}; {need}")


def check_minimum(value: object) -> None:
    """Raise InputError for what is no lowest score of a search."""
    if value is not None:
        check_number("minimum_score", value, "give a number, or None for no minimum")


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


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


def candidate_lists(contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]) -> CandidateLists:
    """Find the distinct texts of lists of candidates; a list object that contexts share is looked up once."""
    check_list(contexts, CONVERSATIONS)
    need = "give each context a list of candidates"
    check_list(candidates, need)
    for texts in candidates:
        check_list(texts, need)
    if len(contexts) != len(candidates):
        raise InputError(f"{len(contexts)} contexts but {len(candidates)} lists of candidates; give one for each")
    sizes = {len(texts) for texts in candidates}
    if len(sizes) > 1:
        raise InputError("the lists of candidates differ in length; score each length in a call of its own")
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
    """Score candidates as `Ranker.score` does, by the product of the two vectors; each text is encoded once."""
    lists = candidate_lists(contexts, candidates)
    scores = np.zeros(lists.shape, dtype=np.float32)
    if not scores.size:
        return scores
    responses = check_vectors(encoder.encode_responses(lists.texts), "response", len(lists.texts))
    vectors = encode_queries(encoder, read_contexts(contexts))
    for rows, columns in lists.groups:
        own = responses[columns]
        for row in rows:  # one by one: a score does not depend on what else is scored
            if isinstance(vectors, ContextVectors):
                products = np.stack([own @ vector for vector in vectors[row]], axis=1)
                scores[row] = attended(products, vectors.sharpness)
            else:
                scores[row] = own @ vectors[row]
    return scores


def encode_queries(encoder: Any, contexts: Sequence[Conversation]) -> FloatArray | ContextVectors:
    """Encode conversations as what responses are scored by: by its `encode_queries`, else `encode_contexts`."""
    vectors: object = getattr(encoder, "encode_queries", encoder.encode_contexts)(contexts)
    if not isinstance(vectors, ContextVectors):
        return check_vectors(vectors, "context", len(contexts))
    check_vectors(vectors.vectors, "context", len(contexts))
    return vectors


def check_vectors(vectors: object, what: str, count: int | None = None) -> FloatArray:
    """Return a model's vectors of `count` texts or conversations in float32; anything else is an InputError."""
    try:
        numbers = np.asarray(vectors)
    except ValueError as error:  # rows of different lengths
        wrong = f"the model gives encodings that are no array ({error})"
        raise InputError(f"{wrong}; one vector per {what} is needed") from None
    if numbers.dtype.kind not in "fiu" or not numbers.ndim:
        kind = f"{type(vectors).__name__} of {numbers.dtype}"
        raise InputError(f"the model gives encodings as {kind}; numbers are needed, one vector per {what}")
    if count is not None and len(numbers) != count:
        raise InputError(f"the model gives {len(numbers):,} vectors where {count:,} are needed, one per {what}")
    return np.ascontiguousarray(numbers, dtype=np.float32)


def attended(products: npt.NDArray[Any], sharpness: float = 1.0) -> npt.NDArray[Any]:
    """Return the scores (b,) of b responses whose products with a context's m vectors are l (b, m).

    sum_i softmax(sharpness·l)_i·l_i (POLY, section 4.4).
    """
    below = products - products.max(axis=1, keepdims=True)
    weights = np.exp(sharpness * below)
    scores: npt.NDArray[Any] = products.max(axis=1) + (weights * below).sum(axis=1) / weights.sum(axis=1)
    return scores
