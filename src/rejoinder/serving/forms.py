"""Types of requests that change the index or write to its log, and of their responses."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from annotated_types import Ge, Lt
from pydantic import BaseModel, Field, JsonValue, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from rejoinder.serving.schema import (
    EXAMPLES,
    NUMBER,
    Conversation,
    Label,
    Name,
    Position,
    Request,
    Text,
    example,
)

ReplyName: TypeAlias = Annotated[int, Ge(0), Lt(2**53), NUMBER] | Name
"""A position, or the field id of a reply's payload as a text."""
ReportForm: TypeAlias = Literal["json", "markdown", "html"]


class FeedbackRequest(Request):
    """The outcome of the offered replies. Without chosen and text none was taken."""

    model_config = example(
        {"messages": ["Where is my order?"], "offered": [3, 17, 4], "chosen": 17, "source": "anna"}
    )
    most_bytes: ClassVar[int] = 64 << 10
    answer: Name | None = None
    """That of /v1/replies, in place of messages and offered."""
    messages: Conversation | None = None
    """The conversation, as in /v1/replies."""
    offered: Annotated[list[ReplyName], Field(max_length=1000, default_factory=list)]
    """The replies shown, in order: their positions, or the field id of their payloads as texts."""
    chosen: ReplyName | None = None
    """The reply that was taken."""
    text: Text | None = None
    """Text sent instead. A reply of the index, filled in or mistyped, counts as taken."""
    source: Name | None = None
    """Whose feedback it is, so that nobody's counts too much; a digest of it is kept."""


class Recorded(BaseModel):
    """An entry of the log: its number, and the position of the reply that counts as taken."""

    id: int
    chosen: int | None


class Replacement(Request):
    """New contents of a reply; omitted fields stay."""

    position: Position
    text: Text = ""
    title: Label = ""
    payload: Annotated[dict[Name, JsonValue], Field(max_length=100, default_factory=dict)]
    examples: Annotated[list[Text | Conversation], Field(max_length=EXAMPLES)] | None = None
    """All that it is to have."""


class Merge(Request):
    """A reply, and another one whose examples it takes over and which is retired."""

    position: Position
    other: Position


class Move(Request):
    """An example of a reply that is to be another one's."""

    example: Text | Conversation
    position: Position
    to: Position


class EditRequest(Request):
    """One of: a reply replaced, two merged, an example moved, a change undone."""

    model_config = example(
        {"replace": {"position": 3, "text": "We open at ten.", "title": "hours"}}
    )
    replace: Replacement | None = None
    merge: Merge | None = None
    move: Move | None = None
    undo: Annotated[Position, NUMBER] | None = None
    """The number of a change."""

    @model_validator(mode="after")
    def _one(self) -> EditRequest:
        if len(self.model_fields_set) != 1:
            raise PydanticCustomError("one_edit", "give one of replace, merge, move and undo")
        return self


class ImportRequest(Request):
    """A file of replies, in any form that `rejoinder index build` reads."""

    model_config = example(
        {"name": "faq.csv", "content": "cXVlc3Rpb24sYW5zd2VyCldoZW4/LEF0IG5pbmUuCg=="}
    )
    most_bytes: ClassVar[int] = 8 << 20
    name: Name
    """Its name, of which the ending counts."""
    content: Annotated[str, StringConstraints(max_length=8 << 20)]
    """Its bytes in base64."""


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
