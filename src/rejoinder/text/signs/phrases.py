"""Noun phrases: what somebody has, and what is asked for as an offer."""

from __future__ import annotations

from rejoinder.text.signs.inflections import is_participle, stem_of
from rejoinder.text.signs.lexicon import ENDS, HAVING, MODALS, PHRASE, SKIPPED, THOUGHT, UNSURE
from rejoinder.text.signs.poles import has_content
from rejoinder.text.signs.sign import Sign

# Who does not want a fee asks for the same reply as who asks whether there is one: stems.
_BURDENS = frozenset(
    ["charg", "fee", "cost", "surcharg", "penalty", "shar", "track", "record", "requir"]
)
_INCLUDED = frozenset(["included", "available", "possible", "provided", "offered"])
_GETTING = frozenset(["get", "receive", "have"])


def noun_phrase(tokens: list[str], start: int) -> list[int]:
    """Return the places of the words of content behind articles: "a flat tyre"."""
    position = start
    while position < len(tokens) and tokens[position] in PHRASE:
        position += 1
    positions: list[int] = []
    while position < len(tokens) and has_content(tokens, position):
        positions.append(position)
        position += 1
    return positions


def had_places(tokens: list[str]) -> dict[int, Sign]:
    """Return the signs of what somebody has or got: of "a flat tyre" that it is flat.

    Of the other words nothing is said: who got the wrong parcel may have got no parcel of theirs.
    """
    signs: dict[int, Sign] = {}
    for position, token in enumerate(tokens):
        if token not in HAVING or not _is_said_to_have(tokens, position):
            continue
        phrase = noun_phrase(tokens, position + 1)
        if phrase and not is_participle(tokens, phrase[0]):
            signs |= dict.fromkeys(phrase, Sign.OPEN) | {phrase[0]: Sign.HAD}
    return signs


def _is_said_to_have(tokens: list[str], position: int) -> bool:
    """Return whether a form of "have" has a subject before it, and no auxiliary."""
    before = tokens[max(0, position - 2) : position]
    if not MODALS.isdisjoint(before):
        return False
    return tokens[position] in ("got", "received") or (bool(before) and before[-1] not in ENDS)


def offered_places(tokens: list[str]) -> set[int]:
    """Return the places of what a question asks for: "do you have helmets", "do you deliver"."""
    start = tokens[:2]
    if start == ["do", "you"]:
        return _done_by_you(tokens)
    if start in (["do", "i"], ["do", "we"]) or start[0] == "when":
        return _gotten(tokens)
    if start in (["is", "there"], ["are", "there"]):
        return _phrase_from(tokens, 2)
    if start == ["have", "you"]:
        return _phrase_from(tokens, 3 if tokens[2:3] == ["got"] else 2)
    if start[:1] in (["is"], ["are"]) and not _INCLUDED.isdisjoint(tokens):
        return {
            position for position in _phrase_from(tokens, 1) if tokens[position] not in _INCLUDED
        }
    return set()


def _gotten(tokens: list[str]) -> set[int]:
    """Return the places of what somebody gets: "do I get a key", "when will I get my refund"."""
    got = next((position for position, token in enumerate(tokens) if token in _GETTING), None)
    return set() if got is None else _phrase_from(tokens, got + 1)


def _done_by_you(tokens: list[str]) -> set[int]:
    """Return the places of what is asked for by "do you": a thing to have, or a verb."""
    position = 2
    while position < len(tokens) and tokens[position] in PHRASE:
        position += 1
    verb = tokens[position] if position < len(tokens) else ""
    if verb == "have":
        return _phrase_from(tokens, position + 1)
    is_verb = verb not in SKIPPED | THOUGHT and stem_of(verb) not in UNSURE
    if not (is_verb and verb) or stem_of(verb) in _BURDENS:
        return set()
    return {position} | _phrase_from(tokens, position + 1)


def _phrase_from(tokens: list[str], start: int) -> set[int]:
    phrase = noun_phrase(tokens, start)
    if not phrase or is_participle(tokens, phrase[0]):
        return set()
    return set() if stem_of(tokens[phrase[-1]]) in _BURDENS else set(phrase)
