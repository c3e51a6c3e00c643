"""Types of the requests that change the index or write to its log."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from annotated_types import Ge, Lt
from pydantic import Field, JsonValue, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from rejoinder.serving.wire.requests import (
    EXAMPLES,
    NUMBER,
    BodyName,
    BodyText,
    ConversationBody,
    Label,
    Position,
    Request,
    example,
)

ReplyName: TypeAlias = Annotated[int, Ge(0), Lt(2**53), NUMBER] | BodyName
"""A position, or the field id of a reply's payload as a text."""


class FeedbackRequest(Request):
    """The outcome of the offered replies. Without chosen and text none was taken."""

    model_config = example(
        {"messages": ["Where is my order?"], "offered": [3, 17, 4], "chosen": 17, "source": "anna"}
    )
    most_bytes: ClassVar[int] = 64 << 10
    answer: BodyName | None = None
    """That of /v1/replies, in place of messages and offered."""
    messages: ConversationBody | None = None
    """The conversation, as in /v1/replies."""
    offered: Annotated[list[ReplyName], Field(max_length=1000, default_factory=list)]
    """The replies shown, in order: their positions, or the field id of their payloads as texts."""
    chosen: ReplyName | None = None
    """The reply that was taken."""
    text: BodyText | None = None
    """Text sent instead. A reply of the index, filled in or mistyped, counts as taken."""
    source: BodyName | None = None
    """Whose feedback it is, so that nobody's counts too much; a digest of it is kept."""


class ReplacementRequest(Request):
    """New contents of a reply; omitted fields stay."""

    position: Position
    text: BodyText = ""
    title: Label = ""
    payload: Annotated[dict[BodyName, JsonValue], Field(max_length=100, default_factory=dict)]
    examples: Annotated[list[BodyText | ConversationBody], Field(max_length=EXAMPLES)] | None = None
    """All that it is to have."""


class Merge(Request):
    """A reply, and another one whose examples it takes over and which is retired."""

    position: Position
    other: Position


class Move(Request):
    """An example of a reply that is to be another one's."""

    example: BodyText | ConversationBody
    position: Position
    to: Position


class EditRequest(Request):
    """One of: a reply replaced, two merged, an example moved, a change undone."""

    model_config = example(
        {"replace": {"position": 3, "text": "We open at ten.", "title": "hours"}}
    )
    replace: ReplacementRequest | None = None
    merge: Merge | None = None
    move: Move | None = None
    undo: Annotated[Position, NUMBER] | None = None
    """The number of a change."""

    @model_validator(mode="after")
    def _one(self) -> EditRequest:
        names = [name for name in self.model_fields_set if getattr(self, name) is not None]
        if len(names) != 1 or len(self.model_fields_set) != 1:
            raise PydanticCustomError("one_edit", "give one of replace, merge, move and undo")
        return self


class ImportRequest(Request):
    """A file of replies, in any form that `rejoinder index build` reads."""

    model_config = example(
        {"name": "faq.csv", "content": "cXVlc3Rpb24sYW5zd2VyCldoZW4/LEF0IG5pbmUuCg=="}
    )
    most_bytes: ClassVar[int] = 8 << 20
    name: BodyName
    """Its name, of which the ending counts."""
    content: Annotated[str, StringConstraints(max_length=8 << 20)]
    """Its bytes in base64."""
