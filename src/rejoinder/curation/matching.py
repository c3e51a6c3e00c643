"""Conversations that were answered with a reply of an index; see `corpora.sent_replies`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rejoinder.corpora.schema import Candidate, Example
from rejoinder.corpora.sent_replies import ReplyMatcher
from rejoinder.progress import Advance, silent

NEWEST = 4  # messages of a conversation that become an example


class Match(NamedTuple):
    """A reply that was sent, by its position, in answer to a conversation."""

    position: int
    context: tuple[str, ...]
    thread: str


def newest_messages(context: Iterable[str]) -> tuple[str, ...]:
    """Return the newest `NEWEST` messages of a conversation that are not blank, oldest first."""
    return tuple(message for message in context if message.strip())[-NEWEST:]


def match(
    replies: Iterable[tuple[int, Candidate]],
    examples: Sequence[Example],
    progress: Advance = silent,
) -> list[Match]:
    """Return which responses of examples are replies of the index. `progress` counts examples."""
    matcher = ReplyMatcher(replies)
    matches = []
    for example in examples:
        position = matcher.find(example.response)
        context = newest_messages(example.context)
        if position is not None and context:
            matches.append(
                Match(position, context, example.thread or " ".join(example.context[:1]))
            )
        progress(1)
    return matches
