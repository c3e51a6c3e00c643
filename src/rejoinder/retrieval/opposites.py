"""Replies that answer the opposite of a message lose their place to those that fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rejoinder.retrieval.options import SearchOptions
from rejoinder.retrieval.replies import Reply
from rejoinder.text.polarity import denies_a_sentence, opposed

PENALTY = 1.0
"""Of the score of a reply that answers the opposite: about as much as two unlike texts differ."""

MARGIN = 0.4
"""Of the best opposing reply over all others, from which none of these fits the message."""

SILENCE = 5.0
"""Of the scores of replies where none fits: less than any minimum that an index measures."""


def opposing(reply: Reply, texts: Sequence[str]) -> str | None:
    """Return what a reply is known to answer that is the opposite of a message, given by parts."""
    text = texts[reply.part]
    whole = texts[0]
    if reply.part and text in whole and denies_a_sentence(whole):
        text = whole
    return opposed(text, reply.known)


def push_back(
    replies: Sequence[Reply], texts: Sequence[str], options: SearchOptions
) -> list[Reply]:
    """Return replies, best first, after those that oppose the message have lost `PENALTY`.

    Where one of these was the best of a part of the message by more than `MARGIN`, nothing fits
    that part: all replies to it lose `SILENCE`.
    """
    opposites = [opposing(reply, texts) for reply in replies]
    opposed_best = _best(replies, [other is not None for other in opposites])
    fitting_best = _best(replies, [other is None for other in opposites])
    unanswered = {
        part
        for part, score in opposed_best.items()
        if score - fitting_best.get(part, -math.inf) > MARGIN
    }
    judged = []
    for reply, other in zip(replies, opposites, strict=True):
        lost = PENALTY * (other is not None) + SILENCE * (reply.part in unanswered)
        judged.append(replace(reply, score=reply.score - lost, opposes=other or ""))
    lowest = -math.inf if options.minimum_score is None else options.minimum_score
    kept = [reply for reply in judged if reply.score >= lowest]
    return sorted(kept, key=lambda reply: -reply.score)[: options.k]


def _best(replies: Sequence[Reply], chosen: Sequence[bool]) -> dict[int, float]:
    """Return the best score of the chosen replies to each part of a message."""
    best: dict[int, float] = {}
    for reply, is_chosen in zip(replies, chosen, strict=True):
        if is_chosen:
            best[reply.part] = max(reply.score, best.get(reply.part, reply.score))
    return best
