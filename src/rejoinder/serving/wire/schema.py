"""Responses in the description of the API: their types."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from rejoinder.retrieval.options import Silence


class WhyItem(BaseModel):
    """The part of a reply most like the conversation: text, title or example, with the cosine.

    `sentence` is the one that the reply answers, of a message of several, and `opposes` a title or
    example that says the opposite of the message, for which the score was lowered.
    """

    view: Literal["text", "title", "example"]
    like: list[str]
    similarity: float
    learned: bool
    """Whether it is an example that was learned, which only the write key shows."""
    sentence: str | None = None
    opposes: str | None = None


class ReplyItem(BaseModel):
    """A reply of the index."""

    text: str
    score: float
    position: int
    payload: dict[str, Any]
    title: str | None = None
    also: bool | None = None
    """Whether it answers another question of the message than the first reply."""
    why: WhyItem | None = None


class Notes(BaseModel):
    """Notes on how a message was read, where that was not as it came, and on its confidence.

    `parts` counts what it was searched by: sentences and the whole. `cut` says that some of it was
    not read, `language` that most words are neither English nor of the index, `calibration` that
    replies have changed since the index was calibrated.
    """

    parts: int | None = None
    cut: bool | None = None
    corrected: dict[str, str] | None = None
    language: Literal["unknown"] | None = None
    calibration: Literal["earlier"] | None = None


class RepliesResponse(BaseModel):
    """The best replies, best first, and the confidence if minimum_confidence was given."""

    replies: list[ReplyItem]
    confidence: float | None
    answer: str
    """Names this answer in /v1/feedback, for a day or so, until the server starts again."""
    notes: Notes | None = None
    reason: Silence | None = None
    """Why there are no replies, where a program can tell.

    The message is of another language, or what is nearest to it answers the opposite.
    """


class RankedDocument(BaseModel):
    """A document as it was sent."""

    model_config = ConfigDict(extra="allow")
    text: str | None = None


class Embedding(BaseModel):
    """A vector: numbers, or float32 in little-endian order as base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class TokenUsage(BaseModel):
    """Tokens that the model has read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """Vectors in the order of the texts."""

    object: Literal["list"]
    model: str
    data: list[Embedding]
    usage: TokenUsage
    notes: list[str] | None = None
    """Fields of the request that were ignored, and why."""


class Ranked(BaseModel):
    """A document by its place in the request."""

    index: int
    relevance_score: float
    document: RankedDocument | None = None


class RerankResponse(BaseModel):
    """Documents, best first."""

    id: str
    model: str
    results: list[Ranked]
    usage: TokenUsage
    meta: dict[str, Any]
    """Cohere's facts of a request; nothing is billed."""
    notes: list[str] | None = None
    """Fields of the request that were ignored, and why."""


class Intent(BaseModel):
    """An intent and its probability."""

    label: str
    probability: float


class TextIntents(BaseModel):
    """The intents of a text: labels (none if it is refused), and all of them by probability."""

    index: int
    labels: list[str]
    out_of_scope: bool | None
    ranking: list[Intent]


class IntentsResponse(BaseModel):
    """Intents in the order of the texts."""

    data: list[TextIntents]


class Added(BaseModel):
    """The positions of what was added, in its order."""

    positions: list[int]


class Taught(BaseModel):
    """Number of new examples."""

    added: int


class DeletedResponse(BaseModel):
    """Number of deleted replies."""

    deleted: int


class RecordedResponse(BaseModel):
    """An entry of the log: its number, and the position of the reply that counts as taken."""

    id: int
    chosen: int | None


class ChangeFacts(BaseModel):
    """A change of some replies: each with its position, before and after; null: there is none."""

    change: int
    time: float
    kind: str
    undone: bool
    replies: list[dict[str, Any]]


class ChangesResponse(BaseModel):
    """The latest changes, newest first."""

    changes: list[ChangeFacts]


class Imported(BaseModel):
    """Positions of what was added, how many replies the index had, how the file was understood."""

    positions: list[int]
    known: int
    notes: list[str]


class CandidateItem(BaseModel):
    """A candidate of the index."""

    position: int
    text: str
    payload: dict[str, Any]
    title: str
    examples: list[list[str]]


class CandidatesResponse(BaseModel):
    """A page of candidates by position.

    `next` is where the next one begins, null after the last.
    """

    candidates: list[CandidateItem]
    total: int
    next: int | None


class IndexFacts(BaseModel):
    """An index by its folder's name, its model, and whether it knows how sure it is."""

    index: str
    model: str
    size: int
    candidates: int
    calibrated: bool
    minimum_score: float | None
    """Of replies to requests that name none; null: any."""


class About(BaseModel):
    """Contents of the server: one or two indexes, and whether it has intents."""

    first: IndexFacts
    second: IndexFacts | None
    intents: bool
    minimum_confidence: float | None
    """Of replies to requests that name none; null: any."""
    may_write: bool
    """Whether the key of this request is the write key, or none is needed."""


class ModelFacts(BaseModel):
    """The index's model."""

    id: str
    object: Literal["model"]
    owned_by: str
    created: int = 0


class ModelsResponse(BaseModel):
    """The models of the server, in OpenAI's format."""

    object: Literal["list"]
    data: list[ModelFacts]
    models: list[dict[str, Any]]
    """The same in Cohere's form."""


class Status(BaseModel):
    """Server status, and why it takes no requests."""

    status: str
    reason: str | None = None


class ErrorFacts(BaseModel):
    """The error and its remedy."""

    message: str
    type: str
    param: str | None
    code: int


class Error(BaseModel):
    """The form of all errors; that of OpenAI's API."""

    error: ErrorFacts
    request_id: str


class UsageResponse(BaseModel):
    """The use of the index, as far as its log goes back; replies by position."""

    entries: int
    replies: int
    taken: dict[str, int]
    """Counts of the first reply, another offered one, one not offered, a text, and nothing."""
    periods: list[dict[str, Any]]
    period: str
    unused: list[dict[str, int]]
    unused_count: int
    confusions: list[dict[str, Any]]
    unanswered: int
    groups: list[dict[str, Any]]
    unlike: float | None
    """Share of the newest messages that are unlike all examples."""
