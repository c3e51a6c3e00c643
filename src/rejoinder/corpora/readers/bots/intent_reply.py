"""Replies of intents: one candidate of messages that follow each other."""

from __future__ import annotations

from typing import Any

from rejoinder.corpora.schema import Candidate


def candidate_of_messages(
    name: str, messages: list[list[str]], questions: list[str], language: str = ""
) -> Candidate:
    """Return a reply of messages that follow each other, each with its alternatives."""
    payload: dict[str, Any] = {"id": name}
    if language:
        payload["language"] = language
    if len(messages) > 1:
        payload["messages"] = [alternatives[0] for alternatives in messages]
    elif messages[0][1:]:
        payload["variants"] = messages[0][1:]
    text = " ".join(alternatives[0] for alternatives in messages)
    title = " ".join(name.replace("_", " ").replace("-", " ").replace(".", " ").split())
    return Candidate(text, payload, title, tuple((question,) for question in questions))
