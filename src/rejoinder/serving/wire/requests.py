"""Requests: the types of their bodies.

Every field is checked, every size bounded; unknown keys are refused. The types of requests that
change the index are in `changes`.
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

from rejoinder.conversations import content_text, is_instruction
from rejoinder.retrieval.options import MAX_HYBRID_WEIGHT, RERANKED, SearchOptions
from rejoinder.serving.wire.imitated import read_embeddings, read_rerank

BodyText: TypeAlias = Annotated[
    str, StringConstraints(min_length=1, max_length=20_000, pattern=r"\S")
]

BodyName: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=200)]

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

    @staticmethod
    def read(body: object) -> tuple[object, list[str]]:
        """Return a body without the fields of other APIs, and notes on what of it is ignored."""
        return body, []

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


class BodyMessage(BaseModel):
    """A message as chat APIs write it; those of systems and tools are not read."""

    model_config = ConfigDict(extra="ignore")  # chat APIs add fields to messages
    role: BodyName | None = None
    content: BodyText | None = None


def _readable(value: object) -> object:
    """Return messages with content parts as texts, without those that say nothing.

    The newest one must say something, unless it is a call of a tool.
    """
    if not isinstance(value, list):
        return value
    messages = [_with_text(message) for message in value]
    kept = [
        message
        for position, message in enumerate(messages)
        if not _is_silent(message, is_newest=position == len(messages) - 1)
    ]
    return kept or messages


def _with_text(message: object) -> object:
    """Return a message with its content in parts as one text."""
    if not isinstance(message, dict) or "content" not in message:
        return message
    return {**message, "content": content_text(message["content"])}


def _is_silent(message: object, *, is_newest: bool) -> bool:
    if isinstance(message, str):
        return not message.strip() and not is_newest
    if not isinstance(message, dict) or not {"role", "content"} & message.keys():
        return False
    content = message.get("content")
    is_blank = content is None or (isinstance(content, str) and not content.strip())
    is_own = message.get("role") == "assistant" or is_instruction(message.get("role"))
    return is_blank and (is_own or not is_newest)


ConversationBody: TypeAlias = Annotated[
    list[BodyText | BodyMessage],
    Field(min_length=1, max_length=MESSAGES),
    BeforeValidator(_readable),
]
"""Oldest first: texts, or messages with a role."""

_Probability: TypeAlias = Annotated[float, Field(ge=0, le=1), NUMBER]


class RepliesRequest(Request):
    """A conversation to reply to; the fields are those of `SearchOptions`."""

    model_config = example({"messages": ["Hi!", "Where is my order?"], "k": 3})
    most_bytes: ClassVar[int] = 64 << 10
    messages: ConversationBody
    """Oldest first: texts, or messages with a role."""
    k: Annotated[int, Field(ge=1, le=1000), NUMBER] = SearchOptions.k
    """Replies at most."""
    minimum_score: Annotated[float, NUMBER] | None = SearchOptions.minimum_score
    """The lowest score that a reply may have."""
    minimum_confidence: _Probability | None = SearchOptions.minimum_confidence
    """No reply unless the best is right with this probability; needs a calibrated index. 0 tells
    the confidence."""
    history: Annotated[int, Field(ge=0, le=MESSAGES), NUMBER] | None = SearchOptions.history
    """Earlier messages that are read; null: those of the newest one's subject, where the model
    tells."""
    no_repeat: StrictBool = SearchOptions.no_repeat
    """Leave out what the answering side has said already."""
    distinct: StrictBool = SearchOptions.distinct
    """Of near-copies, the best alone."""
    where: Annotated[dict[BodyName, Scalar | Scalars], Field(max_length=20)] | None = None
    """Only replies whose field of the payload has this value, or one of these."""
    diversity: _Probability = SearchOptions.diversity
    """Replies that differ more: 0 the best alone, to 1."""
    hybrid: Annotated[float, Field(ge=0, le=MAX_HYBRID_WEIGHT, allow_inf_nan=False), NUMBER] = (
        SearchOptions.hybrid
    )
    """By words too: the weight of BM25 of the newest message; 0: by meaning alone."""
    why: StrictBool = SearchOptions.why
    """Say of each reply which example or part of it was most like the conversation."""
    rerank: Annotated[int, Field(ge=0, le=RERANKED), NUMBER] = SearchOptions.rerank
    """Best replies that the server's second model orders again."""
    index: Literal["first", "second"] = "first"
    """Index to use if the server has two (--beside)."""

    @staticmethod
    def read(body: object) -> tuple[object, list[str]]:
        """Return a body without fields that are null, which are absent; see `Request.read`.

        `minimum_confidence` stays: null asks for replies without the server's own minimum.
        """
        if not isinstance(body, dict):
            return body, []
        absent = RepliesRequest.model_fields.keys() - {"messages", "minimum_confidence"}
        kept = {
            name: value for name, value in body.items() if value is not None or name not in absent
        }
        return kept, []


class EmbeddingsRequest(Request):
    """Texts to encode, in the form of OpenAI's clients."""

    model_config = example({"input": ["Where is my order?"], "input_type": "query"})
    read = staticmethod(read_embeddings)
    input: BodyText | Annotated[list[BodyText], Field(min_length=1, max_length=TEXTS)]
    model: BodyName | None = None
    input_type: Literal["query", "document"] = "query"
    """Side of the model: query for received messages, document for replies."""
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1), NUMBER] | None = None
    """As many as the model has."""
    user: Label | None = None
    """Whose request it is, which OpenAI's clients may say; nothing depends on it."""


AnyText: TypeAlias = Annotated[str, StringConstraints(max_length=20_000)]

Fields: TypeAlias = Annotated[dict[BodyName, JsonValue], Field(max_length=100)]


class RerankRequest(Request):
    """Documents to order by how well they reply, in the form of Cohere's and Jina's clients."""

    model_config = example(
        {"query": "Where is my order?", "documents": ["We open at nine.", "It is on its way."]}
    )
    read = staticmethod(read_rerank)
    query: BodyText
    documents: Annotated[list[AnyText | Fields], Field(min_length=1, max_length=DOCUMENTS)]
    """Texts, or objects with a text; blank ones are ranked last."""
    rank_fields: Annotated[list[BodyName], Field(max_length=100)] = []
    """Fields of the objects that are ranked, in place of text."""
    model: BodyName | None = None
    top_n: Annotated[int, Field(ge=1), NUMBER] | None = None
    """Results at most; null: all."""
    return_documents: StrictBool = False


class IntentsRequest(Request):
    """Texts to classify."""

    model_config = example({"input": "Where is my card?"})
    input: BodyText | Annotated[list[BodyText], Field(min_length=1, max_length=TEXTS)]


class NewCandidate(Request):
    """A reply to choose from, and what comes back with it."""

    text: BodyText
    payload: Annotated[dict[BodyName, JsonValue], Field(max_length=100)] = {}
    title: Label = ""
    examples: Annotated[list[BodyText | ConversationBody], Field(max_length=EXAMPLES)] = []
    """Questions or conversations that it answers."""


class ExamplesRequest(Request):
    """Conversations that a candidate answers."""

    model_config = example(
        {"position": 3, "examples": ["Where is my parcel?", ["Hi!", "It has not come."]]}
    )
    position: Position
    examples: Annotated[list[BodyText | ConversationBody], Field(min_length=1, max_length=EXAMPLES)]


class CandidatesRequest(Request):
    """Candidates to add."""

    model_config = example(
        {"candidates": ["We open at nine.", {"text": "It is on its way.", "payload": {"id": 7}}]}
    )
    candidates: Annotated[list[BodyText | NewCandidate], Field(min_length=1, max_length=CANDIDATES)]


ReportForm: TypeAlias = Literal["json", "markdown", "html"]
