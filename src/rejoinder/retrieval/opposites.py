"""Replies that answer the opposite of a message lose their place to those that fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rejoinder.retrieval.options import SearchOptions
from rejoinder.retrieval.replies import Reply
from rejoinder.text.polarity import opposed

PENALTY = 1.0
"""Of the score of a reply that answers the opposite: about as much as two unlike texts differ."""


def opposing(reply: Reply, texts: Sequence[str]) -> str | None:
    """Return what a reply is known to answer that is the opposite of a message, given by parts."""
    return opposed(texts[reply.part], reply.known)


def push_back(
    replies: Sequence[Reply], texts: Sequence[str], options: SearchOptions
) -> list[Reply]:
    """Return replies, best first, after those that oppose the message have lost `PENALTY`."""
    judged = []
    for reply in replies:
        other = opposing(reply, texts)
        if other is not None:
            reply = replace(reply, score=reply.score - PENALTY, opposes=other)  # noqa: PLW2901
        judged.append(reply)
    lowest = float("-inf") if options.minimum_score is None else options.minimum_score
    kept = [reply for reply in judged if reply.score >= lowest]
    return sorted(kept, key=lambda reply: -reply.score)[: options.k]
