"""Replies that answer the opposite of a message lose their place to those that fit."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from rejoinder.retrieval.options import SearchOptions
from rejoinder.retrieval.parts import denial_before, sentence_parts
from rejoinder.retrieval.replies import Reply, best_first
from rejoinder.text.courtesy import asks
from rejoinder.text.polarity import (
    agrees_by_poles,
    denies_a_sentence,
    left_open,
    opposed,
    repeats,
    wishes_besides,
)
from rejoinder.text.signs.settled import is_settled

PENALTY = 1.0
"""Of the score of a reply that answers the opposite: about as much as two unlike texts differ."""

MARGIN = 0.4
"""Of the best opposing reply over all others, from which none of these fits the message."""

SILENCE = 5.0
"""Of the scores of replies where none fits: less than any minimum that an index measures."""


def opposing(reply: Reply, texts: Sequence[str]) -> str | None:
    """Return what a reply is known to answer that is the opposite of a message, given by parts.

    A problem is the opposite of what says that it is settled, if no other sentence tells more.
    """
    text = _answered(reply, texts)
    opposite = opposed(text, reply.known)
    if opposite is not None or _tells_more(texts, texts[reply.part]):
        return opposite
    return left_open(text, reply.known)


def _tells_more(texts: Sequence[str], text: str) -> bool:
    """Return whether a message tells more than one of its parts: "It works. Sometimes it stops"."""
    others = (each for each in texts if text not in each and each not in text)
    return not all(asks(each) or is_settled(each) for each in others)


def _says_the_same(reply: Reply, texts: Sequence[str]) -> bool:
    text = _answered(reply, texts)
    is_other = bool(reply.opposes)
    return not is_other and (is_settled(text) or agrees_by_poles(text, reply.known))


def _answered(reply: Reply, texts: Sequence[str]) -> str:
    """Return the part of a message that a reply answers, with a sentence that denies it.

    Thanks right behind it belong to it: they make a refusal of "no cabin for us".
    """
    whole = texts[0]
    text = texts[reply.part]
    if not reply.part or text not in whole:
        return text
    if denies_a_sentence(whole):
        return whole
    denial = denial_before(texts, reply.part)
    if denial and not repeats(text, reply.known, denial):
        return denial
    _, _, behind = whole.partition(text)
    return f"{text}, thanks" if behind.lstrip(" ,").lower().startswith("thank") else text


def push_back(
    replies: Sequence[Reply], texts: Sequence[str], options: SearchOptions
) -> list[Reply]:
    """Return replies, best first, after those that oppose the message have lost `PENALTY`.

    Where nothing else fits a sentence of the message as well, all replies to it lose `SILENCE`,
    but for those known to answer the same by the other of two poles: "lost" for "not found". A
    sentence that goes on with a wish, "I just want to move it", keeps the scores of what else fits.
    """
    judged = [replace(reply, opposes=opposing(reply, texts) or "") for reply in replies]
    is_one_sentence = len(sentence_parts(texts)) < 2
    by_sentence: defaultdict[int, list[Reply]] = defaultdict(list)
    for reply in judged:
        by_sentence[0 if is_one_sentence else reply.part].append(reply)
    lowered = []
    for own in by_sentence.values():
        text = texts[0] if is_one_sentence else texts[own[0].part]
        is_silent = _is_unanswered(own) and not wishes_besides(text)
        for reply in own:
            is_lost = is_silent and not _says_the_same(reply, texts)
            lost = PENALTY * bool(reply.opposes) + SILENCE * is_lost
            also = reply.also and not lost
            lowered.append(replace(reply, score=reply.score - lost, also=also))
    lowest = -math.inf if options.minimum_score is None else options.minimum_score
    kept = [reply for reply in lowered if reply.score >= lowest]
    return best_first(kept, options.k)


def is_denied(replies: Sequence[Reply], texts: Sequence[str], minimum_score: float) -> bool:
    """Return whether the first of replies, none pushed back, answers the opposite of a message.

    Its score has to reach `minimum_score`: it would be given if it did not oppose the message.
    """
    nearest = next(iter(replies), None)
    if nearest is None or nearest.score < minimum_score:
        return False
    return opposing(nearest, texts) is not None


def _is_unanswered(replies: Sequence[Reply]) -> bool:
    """Return whether replies that oppose the message are better than all others by `MARGIN`."""
    opposites = [reply.score for reply in replies if reply.opposes]
    others = [reply.score for reply in replies if not reply.opposes]
    return bool(opposites) and max(opposites) - max(others, default=-math.inf) > MARGIN
