"""Request and response types: every field is checked, every size bounded.

Unknown keys are refused. The types of requests that change the index are in `changes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from annotated_types import Ge, Le, Lt
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from rejoinder.retrieval.queries import MAX_HYBRID_WEIGHT

Text: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=20_000, pattern=r"\S")]
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Label: TypeAlias = Annotated[str, StringConstraints(max_length=1000)]
Scalar: TypeAlias = Label | bool | int | float | None
Scalars: TypeAlias = Annotated[list[Scalar], Field(max_length=100)]
Position: TypeAlias = Annotated[int, Ge(0), Lt(2**53)]
PageSize: TypeAlias = Annotated[int, Ge(1), Le(1000)]


def _number(value: object) -> object:
    """Refuse what pydantic would take for a number: true, and digits in quotes."""
    if isinstance(value, bool | str):
        raise ValueError("a number is needed")
    return value


NUMBER = BeforeValidator(_number)  # after the bounds, which the description of the API then has
TEXTS = 2048
DOCUMENTS = 1000
CANDIDATES = 1000
MESSAGES = 500
EXAMPLES = 100
"""Most texts of a request for embeddings or intents, documents to re-rank, candidates to add,
messages of a context, and examples of a candidate."""
MARKS = (b"[", b"{", b":")
MOST_MARKS = 50_000
"""Bytes of a body that stand for values made of others, and how many there may be: parsing takes
time for each."""


class Request(BaseModel):
    """The body of a request, or an object in one."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
    most_bytes: ClassVar[int] = 2 << 20
    """Bytes of a body."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, value: Any) -> Any:
        """Refuse the first unknown key; pydantic by itself makes an error of each."""
        if isinstance(value, dict):
            for key in value:
                if key not in cls.model_fields:
                    raise PydanticCustomError("unknown_key", "there is no such field", {"key": key})
        return value


def example(value: Mapping[str, Any]) -> ConfigDict:
    """Return the settings of a form that is described with an example."""
    return ConfigDict(json_schema_extra={"examples": [dict(value)]})


class Message(BaseModel):
    """A message as chat APIs write it; those of systems and tools are not read."""

    model_config = ConfigDict(extra="ignore")  # chat APIs add fields to messages
    role: Name | None = None
    content: Text | None = None


Conversation: TypeAlias = Annotated[list[Text | Message], Field(min_length=1, max_length=MESSAGES)]
"""Oldest first: texts, or messages with a role."""


class RepliesRequest(Request):
    """A conversation to reply to."""

    model_config = example({"messages": ["Hi!", "Where is my order?"], "k": 3})
    most_bytes: ClassVar[int] = 64 << 10
    messages: Conversation
    """Oldest first: texts, or messages with a role."""
    k: Annotated[int, Field(ge=1, le=1000), NUMBER] = 5
    """Replies at most."""
    minimum_score: Annotated[float, NUMBER] | None = None
    """The lowest score that a reply may have."""
    minimum_confidence: Annotated[float, Field(ge=0, le=1), NUMBER] | None = None
    """No reply unless the best is right with this probability; needs a calibrated index. 0 tells
    the confidence."""
    history: Annotated[int, Field(ge=0, le=MESSAGES), NUMBER] | None = None
    """Earlier messages that are read; null: those of the newest one's subject, where the model
    tells."""
    no_repeat: StrictBool = False
    """Leave out what the answering side has said already."""
    distinct: StrictBool = True
    """Of near-copies, the best alone."""
    where: Annotated[dict[Name, Scalar | Scalars], Field(max_length=20)] | None = None
    """Only replies whose field of the payload has this value, or one of these."""
    diversity: Annotated[float, Field(ge=0, le=1), NUMBER] = 0.0
    """Replies that differ more: 0 the best alone, to 1."""
    hybrid: Annotated[float, Field(ge=0, le=MAX_HYBRID_WEIGHT, allow_inf_nan=False), NUMBER] = 0.0
    """By words too: the weight of BM25 of the newest message; 0: by meaning alone."""
    why: StrictBool = False
    """Say of each reply which example or part of it was most like the conversation."""
    rerank: StrictBool = False
    """Let the server's second model order the best."""
    index: Literal["first", "second"] = "first"
    """Index to use if the server has two (--beside)."""


class Why(BaseModel):
    """The part of a reply most like the conversation: text, title or example, with the cosine."""

    view: Literal["text", "title", "example"]
    like: list[str]
    similarity: float


class Reply(BaseModel):
    """A reply of the index."""

    text: str
    score: float
    position: int
    payload: dict[str, Any]
    title: str | None = None
    why: Why | None = None


class RepliesResponse(BaseModel):
    """The best replies, best first, and the confidence if minimum_confidence was given."""

    replies: list[Reply]
    confidence: float | None
    answer: str
    """Names this answer in /v1/feedback, for a day or so, until the server starts again."""


class EmbeddingsRequest(Request):
    """Texts to encode, in the form of OpenAI's clients."""

    model_config = example({"input": ["Where is my order?"], "input_type": "query"})
    input: Text | Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]
    model: Name | None = None
    input_type: Literal["query", "document"] = "query"
    """Side of the model: query for received messages, document for replies."""
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1), NUMBER] | None = None
    """As many as the model has."""
    user: Label | None = None
    """Whose request it is, which OpenAI's clients may say; nothing depends on it."""


class Embedding(BaseModel):
    """A vector: numbers, or float32 in little-endian order as base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Tokens that the model has read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """Vectors in the order of the texts."""

    object: Literal["list"]
    model: str
    data: list[Embedding]
    usage: Usage


class Document(Request):
    """A text among the documents, as older clients send it."""

    text: Text


class RerankRequest(Request):
    """Documents to order by how well they reply, in the form of Cohere's and Jina's clients."""

    model_config = example(
        {"query": "Where is my order?", "documents": ["We open at nine.", "It is on its way."]}
    )
    query: Text
    documents: Annotated[list[Text | Document], Field(min_length=1, max_length=DOCUMENTS)]
    model: Name | None = None
    top_n: Annotated[int, Field(ge=1), NUMBER] | None = None
    """Results at most; null: all."""
    return_documents: StrictBool = False


class Ranked(BaseModel):
    """A document by its place in the request."""

    index: int
    relevance_score: float
    document: Document | None = None


class RerankResponse(BaseModel):
    """Documents, best first."""

    id: str
    model: str
    results: list[Ranked]


class IntentsRequest(Request):
    """Texts to classify."""

    model_config = example({"input": "Where is my card?"})
    input: Text | Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]


class Intent(BaseModel):
    """An intent and its probability."""

    label: str
    probability: float


class Intents(BaseModel):
    """The intents of a text: labels (none if it is refused), and all of them by probability."""

    index: int
    labels: list[str]
    out_of_scope: bool | None
    ranking: list[Intent]


class IntentsResponse(BaseModel):
    """Intents in the order of the texts."""

    data: list[Intents]


class NewCandidate(Request):
    """A reply to choose from, and what comes back with it."""

    text: Text
    payload: Annotated[dict[Name, JsonValue], Field(max_length=100)] = {}
    title: Label = ""
    examples: Annotated[list[Text | Conversation], Field(max_length=EXAMPLES)] = []
    """Questions or conversations that it answers."""


class ExamplesRequest(Request):
    """Conversations that a candidate answers."""

    model_config = example(
        {"position": 3, "examples": ["Where is my parcel?", ["Hi!", "It has not come."]]}
    )
    position: Position
    examples: Annotated[list[Text | Conversation], Field(min_length=1, max_length=EXAMPLES)]


class CandidatesRequest(Request):
    """Candidates to add."""

    model_config = example(
        {"candidates": ["We open at nine.", {"text": "It is on its way.", "payload": {"id": 7}}]}
    )
    candidates: Annotated[list[Text | NewCandidate], Field(min_length=1, max_length=CANDIDATES)]


class Added(BaseModel):
    """The positions of what was added, in its order."""

    positions: list[int]


class Taught(BaseModel):
    """Number of new examples."""

    added: int


class Deleted(BaseModel):
    """Number of deleted replies."""

    deleted: int


class Candidate(BaseModel):
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

    candidates: list[Candidate]
    total: int
    next: int | None


class IndexFacts(BaseModel):
    """An index by its folder's name, its model, and whether it knows how sure it is."""

    index: str
    model: str
    size: int
    candidates: int
    calibrated: bool


class About(BaseModel):
    """Contents of the server: one or two indexes, and whether it has intents."""

    first: IndexFacts
    second: IndexFacts | None
    intents: bool


class Point(BaseModel):
    """A reply on the map; x and y go from 0 to 1."""

    x: float
    y: float
    text: str
    group: int


class MapResponse(BaseModel):
    """Replies on a plane, like ones near each other, in groups.

    Groups are by a field of the payload, or by likeness.
    """

    points: list[Point]
    groups: list[str]
    fields: list[str]
    """Fields of the payloads that tell replies apart."""
    total: int


class ModelFacts(BaseModel):
    """The index's model."""

    id: str
    object: Literal["model"]
    owned_by: str


class ModelsResponse(BaseModel):
    """The models of the server, in OpenAI's format."""

    object: Literal["list"]
    data: list[ModelFacts]


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


ReportForm: TypeAlias = Literal["json", "markdown", "html"]


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
