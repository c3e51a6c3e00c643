"""Cells of reports' tables: shortened texts, and replies by their names."""

from __future__ import annotations

from collections.abc import Mapping

from rejoinder.corpora.schema import Candidate

WIDTH = 80  # letters of a reply or a message that are shown


def reply_name(replies: Mapping[int, Candidate], position: int) -> str:
    """Return how a reply is named in reports."""
    reply = replies[position]
    return f"#{position} {(reply.title or ' '.join(reply.text.split()))[:WIDTH]}"
