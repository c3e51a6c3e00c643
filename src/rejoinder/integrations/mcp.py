"""Model Context Protocol: an index and an intent classifier as tools for assistants.

`rejoinder mcp INDEX` runs the server over standard input and output, or over HTTP.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from rejoinder import __version__
from rejoinder.conversations import Conversation
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.outcomes import Recorder
from rejoinder.errors import InputError, MissingExtraError, RejoinderError
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import ANY_SCORE, Silence
from rejoinder.retrieval.replies import Reply

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
except ImportError as error:
    raise MissingExtraError("rejoinder mcp", "mcp") from error

if TYPE_CHECKING:
    from starlette.applications import Starlette

_logger = logging.getLogger(__name__)
_SOURCE = "mcp"  # source of feedback
_WORDS = 0.05  # weight of BM25 in a search for replies by their text
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
MOST_BYTES = 256 << 10  # of a request over HTTP
_LETTERS = 20_000  # of a text
_Text = Annotated[str, Field(max_length=_LETTERS)]
Messages = Annotated[
    list[_Text],
    Field(
        min_length=1, max_length=500, description="The conversation so far, oldest message first."
    ),
]
Count = Annotated[int, Field(ge=1, le=50, description="Maximum number of replies.")]


class _StrictServer(MCPServer[Any]):
    """A server that refuses arguments that a tool has not; the library leaves them out."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool."""
        tools = {tool.name: tool.input_schema for tool in await self.list_tools()}
        known = tools.get(name, {}).get("properties", {})
        if name in tools and (unknown := [key for key in arguments if key not in known]):
            raise ToolError(
                f"{name} has no argument {unknown[0][:100]!r}; it has {', '.join(known) or 'none'}"
            )
        return await super().call_tool(name, arguments, context)


class _Classifier(Protocol):
    """An `IntentClassifier`, or an `OnnxIntents`."""

    def predict(self, texts: list[str], /) -> Any:
        """Return a prediction for each text."""


class _FoundReply(BaseModel):
    """A canned reply."""

    model_config = ConfigDict(title="Reply")
    position: int
    text: str
    score: float
    title: str = ""
    payload: dict[str, Any] = Field(
        default_factory=dict, description="Its other fields, such as its id."
    )
    also: bool = Field(
        default=False,
        description="Whether it answers another question of the message than the first reply.",
    )


class _FoundReplies(BaseModel):
    """Canned replies, best first."""

    model_config = ConfigDict(title="Replies")
    replies: list[_FoundReply]
    notes: dict[str, Any] | None = Field(
        default=None, description="How the message was read, where not as it came."
    )
    reason: Silence | None = Field(
        default=None,
        description="Why there are no replies: another language, or they answer the opposite.",
    )


class _Recorded(BaseModel):
    """Logged feedback: its number, and the position of the reply that was taken."""

    model_config = ConfigDict(title="Recorded")
    id: int
    chosen: int | None


class _Intent(BaseModel):
    """The intent of a message, and the probabilities of the likely ones."""

    model_config = ConfigDict(title="Intent")
    labels: list[str]
    out_of_scope: bool | None
    ranking: dict[str, float]


def make_server(index: Index, classifier: _Classifier | None = None) -> MCPServer[Any]:
    """Return a server with the tools of an index; with a classifier also `classify_intent`."""
    server: MCPServer[Any] = _StrictServer(
        "rejoinder",
        instructions="Canned replies of a support team: suggest them before writing.",
        version=__version__,
    )
    recorder = Recorder(index, FeedbackLog(index.store))
    lock = threading.Lock()  # the library calls tools in threads

    @server.tool(annotations=_READS)
    def suggest_replies(messages: Messages, count: Count = 3) -> _FoundReplies:
        """Suggest canned replies to a conversation; none if no reply answers its newest message."""
        with lock:
            spoken = _spoken(messages)
            replies = _search(index, spoken, count)
            reason = None if replies else index.silence(spoken)
            return _found(replies, index.notes([spoken])[0], reason)

    @server.tool(annotations=_READS)
    def search_replies(query: _Text, count: Count = 10) -> _FoundReplies:
        """Search canned replies by their words, or by a question that they answer."""
        with lock:
            return _found(
                _search(index, _spoken([query]), count, minimum_score=ANY_SCORE, hybrid=_WORDS)
            )

    @server.tool(annotations=_WRITES)
    def give_feedback(
        messages: Messages,
        offered: Annotated[
            list[int], Field(max_length=50, description=("Positions of the replies, as shown."))
        ],
        chosen: Annotated[
            int | None, Field(description=("Position of the reply that was sent."))
        ] = None,
        text: Annotated[_Text | None, Field(description="Another text that was sent.")] = None,
    ) -> _Recorded:
        """Record what was sent after suggestions; pass nothing if none was right."""
        with lock:
            return _recorded(index, recorder, messages, offered, chosen, text)

    if classifier is not None:
        _add_intents(server, classifier)
    return server


def make_application(server: MCPServer[Any], path: str, host: str) -> Starlette:
    """Return the server as an ASGI application, which keeps nothing between requests."""
    return server.streamable_http_app(
        streamable_http_path=path, host=host, stateless_http=True, max_request_body_size=MOST_BYTES
    )


def _add_intents(server: MCPServer[Any], classifier: _Classifier) -> None:
    @server.tool(annotations=_READS)
    def classify_intent(text: _Text) -> _Intent:
        """Classify a message: its intent, or out of scope."""
        try:
            [prediction] = classifier.predict([text])
        except InputError as error:
            raise ToolError(str(error)) from None
        return _Intent(
            labels=list(prediction.labels),
            out_of_scope=prediction.out_of_scope,
            ranking=dict(prediction.ranking),
        )


def _spoken(messages: list[str]) -> list[str]:
    """Return messages without blank earlier ones; a blank newest one is refused."""
    if not messages[-1].strip():
        raise ToolError("the newest message is blank; give what is to be answered")
    return [message for message in messages if message.strip()]


def _refresh(index: Index) -> None:
    failure = index.try_refresh()
    if failure is not None:
        _logger.warning("the earlier index goes on answering: %s", failure)


def _search(index: Index, messages: Conversation, count: int, **options: Any) -> list[Reply]:
    """Return the best replies of an index as it is now, or was when it could last be opened."""
    _refresh(index)
    try:
        return index.search([messages], count, **options)[0]
    except RejoinderError as error:
        raise ToolError(str(error)) from None


def _recorded(
    index: Index,
    recorder: Recorder,
    messages: list[str],
    offered: list[int],
    chosen: int | None,
    text: str | None,
) -> _Recorded:
    _refresh(index)
    try:
        recorded = recorder.feedback(messages, offered, chosen=chosen, text=text, source=_SOURCE)
    except RejoinderError as error:
        raise ToolError(str(error)) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ToolError(f"the log cannot be written: {reason}; nothing was recorded") from None
    return _Recorded(id=recorded.id, chosen=recorded.chosen)


def _found(
    replies: list[Reply], notes: Mapping[str, Any] | None = None, reason: Silence | None = None
) -> _FoundReplies:
    return _FoundReplies(
        notes=dict(notes) if notes else None,
        reason=reason,
        replies=[_FoundReply(**reply.to_json()) for reply in replies],
    )
