"""Replies that answer the opposite of a message lose their place to those that fit."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property

from rejoinder.retrieval.choice.parts import denial_before, sentence_parts
from rejoinder.retrieval.options import SearchOptions
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


@dataclass(frozen=True)
class SaidParts:
    """The parts of a conversation's newest message, and what they say."""

    texts: Sequence[str]
    closing: Callable[[], Sequence[bool]]  # tells which parts an encoder finds to close a matter

    @cached_property
    def settled(self) -> AbstractSet[str]:
        """The parts that say that a matter is settled, by their words or by the encoder."""
        whole = self.texts[0]
        by_encoder = set(itertools.compress(self.texts, self.closing()))
        known = filter(None, self.texts)  # empty ones are unknown
        return by_encoder | {
            text for text in known if is_settled(_with_thanks(text, whole, " ,.!"))
        }

    def opposite(self, reply: Reply) -> str | None:
        """Return what a reply is known to answer that is the opposite of the message.

        A problem is the opposite of what says that it is settled, if no other sentence tells more.
        """
        text = _answered(reply, self.texts)
        opposite = opposed(text, reply.known)
        if opposite is not None or not reply.known or not self.is_settled(reply.part):
            return opposite
        return left_open(text, reply.known)

    def agrees(self, reply: Reply) -> bool:
        """Return whether a reply that opposes nothing is known to answer the same."""
        text = _answered(reply, self.texts)
        return self.is_settled(reply.part) or agrees_by_poles(text, reply.known)

    def is_settled(self, part: int) -> bool:
        """Return whether a part says that a matter is settled, and no other one tells more."""
        text = self.texts[part]
        others = (other for other in self.texts if text not in other and other not in text)
        return text in self.settled and all(
            asks(other) or other in self.settled for other in others
        )


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
    return _with_thanks(text, whole)


def _with_thanks(text: str, whole: str, between: str = " ,") -> str:
    """Return a part of a message with the thanks right behind it, or behind marks `between`."""
    _, _, behind = whole.partition(text)
    return f"{text}, thanks" if behind.lstrip(between).lower().startswith("thank") else text


def push_back(replies: Sequence[Reply], said: SaidParts, options: SearchOptions) -> list[Reply]:
    """Return replies, best first, after those that oppose the message have lost `PENALTY`.

    Where nothing else fits a sentence of the message as well, all replies to it lose `SILENCE`,
    but for those known to answer the same by the other of two poles: "lost" for "not found". A
    sentence that goes on with a wish, "I just want to move it", keeps the scores of what else fits.
    """
    texts = said.texts
    judged = [replace(reply, opposes=said.opposite(reply) or "") for reply in replies]
    is_one_sentence = len(sentence_parts(texts)) < 2
    by_sentence: defaultdict[int, list[Reply]] = defaultdict(list)
    for reply in judged:
        by_sentence[0 if is_one_sentence else reply.part].append(reply)
    lowered = []
    for own in by_sentence.values():
        text = texts[0] if is_one_sentence else texts[own[0].part]
        is_silent = _is_unanswered(own) and not wishes_besides(text)
        for reply in own:
            is_lost = is_silent and (bool(reply.opposes) or not said.agrees(reply))
            lost = PENALTY * bool(reply.opposes) + SILENCE * is_lost
            also = reply.also and not lost
            lowered.append(replace(reply, score=reply.score - lost, also=also))
    lowest = -math.inf if options.minimum_score is None else options.minimum_score
    kept = [reply for reply in lowered if reply.score >= lowest]
    return best_first(kept, options.k)


def is_denied(replies: Sequence[Reply], said: SaidParts, minimum_score: float) -> bool:
    """Return whether the first of replies, none pushed back, answers the opposite of a message.

    Its score has to reach `minimum_score`: it would be given if it did not oppose the message.
    """
    nearest = next(iter(replies), None)
    if nearest is None or nearest.score < minimum_score:
        return False
    return said.opposite(nearest) is not None


def _is_unanswered(replies: Sequence[Reply]) -> bool:
    """Return whether replies that oppose the message are better than all others by `MARGIN`."""
    opposites = [reply.score for reply in replies if reply.opposes]
    others = [reply.score for reply in replies if not reply.opposes]
    return bool(opposites) and max(opposites) - max(others, default=-math.inf) > MARGIN
