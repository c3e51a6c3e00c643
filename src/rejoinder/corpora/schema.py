"""An example, and a reply with what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation so far and the response that followed."""

    context: tuple[str, ...]  # messages, oldest first: the history and, at the end, the input
    response: str
    id: str = ""  # unique within its source
    thread: str = ""  # its conversation (reply tree, product, file), which decides the split
    source: str = ""  # name of the corpus
    candidates: tuple[str, ...] = ()  # responses to choose from, where the data has them
    label: int | None = None  # index of the response among the candidates


@dataclass(frozen=True, slots=True)
class Candidate:
    """A reply to choose from."""

    text: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else came with the reply and comes back with it, of JSON types."""
    title: str = ""
    """Subject of the reply: the heading of an FAQ, the name or shortcut of a canned reply."""
    examples: tuple[tuple[str, ...], ...] = ()
    """Conversations that the reply answers, oldest message first; a question is one message."""
    learned: tuple[tuple[str, ...], ...] = ()
    """More of these, out of chats in which the reply was sent; `curation.learning.forget`, or
    `rejoinder learn --forget`, takes them away."""
