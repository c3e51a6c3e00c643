"""Places that a text denies, and what its negators make of them."""

from __future__ import annotations

import itertools

from rejoinder.text.signs.inflections import is_past, stem_of
from rejoinder.text.signs.lexicon import (
    ABLE,
    ASKED,
    AUXILIARIES,
    BARE,
    BE,
    CLAUSES,
    DETERMINERS,
    ENDS,
    HAVING,
    INTENT,
    LACKED,
    MUST,
    NEGATORS,
    NEXT_CLAUSE,
    NOBODY,
    OPENING,
    SELF,
    SENTENCE_ENDS,
    SKIPPED,
    STOP,
    THOUGHT,
    UNSURE,
    WANTED,
    WISH,
    WISHING,
)
from rejoinder.text.signs.poles import has_content, is_end, pole_of
from rejoinder.text.signs.sign import Sign

_WANTING = frozenset(["want", "need", "wish", "ask", "intend", "plan"])  # stems
_THANKS = frozenset(["please", "thanks", "thank"])
_AFTER_THANKS = frozenset([None, ".", "!", ",", "you"])
_LISTED = frozenset(
    [
        "any",
        "anymore",
        "more",
        "and",
        "or",
        "for",
        "me",
        "us",
        "him",
        "her",
        "them",
        "my",
        "our",
        "the",
        "needed",
    ]
)
_DEGREES = frozenset(["so", "that", "this", "too", "as"])
_AMOUNTS = frozenset(["much", "many", "long", "often"])
_LASTING = frozenset(["since", "yesterday"])  # "no heating since yesterday, please" is a lack
_NEEDED = frozenset(["needed", "necessary", "required"])
_NEEDING_NOTHING = frozenset(["it", "you"])  # "you do not need to"
_TOLD = frozenset(["me", "us"])
_UNLIMITED_WORDS = """
a an your his her their these those some any more anymore longer ever either at all to me us please
thanks thank you
"""
# Beside the object of a refusal of all of it.
_UNLIMITED = DETERMINERS | frozenset(_UNLIMITED_WORDS.split())
_GIVING = frozenset(["send", "giv", "bring", "mail", "email"])  # stems
_ENSURING = frozenset(["sure", "ensure", "certain"])  # "make sure that it is not cancelled"
_FINITE = frozenset(["is", "are", "was", "were", "has", "have", "had"])


def denied_places(tokens: list[str]) -> dict[int, Sign]:
    """Return the signs of the places that a negator denies."""
    signs: dict[int, Sign] = {}
    for position in range(len(tokens)):
        if _negates(tokens, position) or (position not in signs and _stops(tokens, position)):
            denied = _scope(tokens, position)
            if tokens[position] == "without":
                denied = _not_said_before(tokens, position, denied)
            if denied and not is_end(tokens, denied[-1]) and _is_measured(tokens, denied[-1]):
                signs |= dict.fromkeys(denied, Sign.OPEN)
                continue
            signs |= dict.fromkeys(denied, _denial(tokens, position))
        elif tokens[position] == "nothing" and _is_object(tokens, position):
            signs[position - 1] = Sign.NOT_SO
    signs |= dict.fromkeys(bare_denials(tokens), Sign.UNWISHED)
    given = [_given(tokens, at) for at, sign in signs.items() if sign is Sign.UNWISHED]
    signs |= dict.fromkeys(itertools.chain.from_iterable(given), Sign.UNWISHED)
    unwished = [at for at, sign in signs.items() if sign in (Sign.UNWISHED, Sign.UNINTENDED)]
    objects = itertools.chain.from_iterable(_objects(tokens, at) for at in unwished)
    return dict.fromkeys(objects, Sign.OPEN) | signs


def _not_said_before(tokens: list[str], position: int, denied: list[int]) -> list[int]:
    """Return what "without" denies but for what is wished before it.

    Who asks how to remove a user without deleting his data wants to remove something.
    """
    wished = {pole_of(tokens, at) for at in range(position) if has_content(tokens, at)}
    return [at for at in denied if pole_of(tokens, at) not in wished]


def _negates(tokens: list[str], position: int) -> bool:
    """Return whether a word is a negator; "nobody" is one where it opens a clause."""
    if tokens[position] not in NOBODY:
        return tokens[position] in NEGATORS
    return _opens_clause(tokens, position) and tokens[position + 1 : position + 2] != ["to"]


def _is_object(tokens: list[str], position: int) -> bool:
    """Return whether "nothing" is all that a verb before it has: "I left nothing in the room"."""
    if not position or not has_content(tokens, position - 1):
        return False
    following = position + 1
    is_last = following == len(tokens)
    return is_last or not (has_content(tokens, following) or tokens[following] in ("but", "else"))


def _opens_clause(tokens: list[str], position: int) -> bool:
    before = tokens[position - 1] if position else None
    return before in OPENING or before in ENDS


def _objects(tokens: list[str], position: int) -> list[int]:
    """Return the places of which nothing is said where a word before them is not to be done.

    Who does not want to reserve a book may want it or not; who does not cancel an order wants it.
    """
    positions: list[int] = []
    if is_end(tokens, position):
        return positions
    for at in range(position + 1, len(tokens)):
        if tokens[at] in ENDS or tokens[at] in NEXT_CLAUSE:
            break
        if has_content(tokens, at):
            if is_end(tokens, at):
                break
            positions.append(at)
    return positions


def _given(tokens: list[str], position: int) -> list[int]:
    """Return the positions of the object of a refused delivery ("do not send me an invoice").

    A delivery is refused as a whole only without an adjective, time, way or place: who wants no
    "paper invoice", or none "by post" or "again", may want an invoice.
    """
    before = itertools.takewhile(lambda token: token not in ENDS, reversed(tokens[:position]))
    if stem_of(tokens[position]) not in _GIVING or not SELF.isdisjoint(before):
        return []
    behind = itertools.takewhile(
        lambda place: tokens[place] not in ENDS, range(position + 1, len(tokens))
    )
    objects = [place for place in behind if tokens[place] not in _UNLIMITED]
    return objects if len(objects) == 1 and has_content(tokens, objects[0]) else []


def _is_measured(tokens: list[str], position: int) -> bool:
    """Return whether a measure alone is denied: "I don't want to pay so much", "not big enough"."""
    clause = [*itertools.takewhile(lambda token: token not in ENDS, tokens[position + 1 :])]
    is_enough = clause[:1] == ["enough"]
    return is_enough or any(
        one in _DEGREES and other in _AMOUNTS for one, other in itertools.pairwise(clause)
    )


def _stops(tokens: list[str], position: int) -> bool:
    """Return whether a word stops what follows: "stop calling", "undo the freeze"."""
    following = tokens[position + 1] if position + 2 <= len(tokens) else ""
    if following.endswith("ing"):
        return stem_of(tokens[position]) in ("stop", "against")
    return tokens[position] in STOP and following in DETERMINERS


def bare_denials(tokens: list[str]) -> list[int]:
    """Return the places of sentences before one that only denies, as "Please don't"."""
    positions: list[int] = []
    ends = [position for position, token in enumerate(tokens) if token in SENTENCE_ENDS]
    if not ends:
        return positions
    bounds = zip([-1, *ends[:-1]], ends, [*ends[1:], len(tokens)], strict=True)
    for start, middle, last in bounds:
        last_words = {token for token in tokens[middle + 1 : last] if token not in ENDS}
        if last_words <= BARE and ("not" in last_words or {"no", "way"} <= last_words):
            positions += [
                position for position in range(start + 1, middle) if has_content(tokens, position)
            ]
    return positions


def _denial(tokens: list[str], position: int) -> Sign:
    """Return what a negator makes of what it denies."""
    before = tokens[max(0, position - 3) : position]
    if tokens[position] == "not":
        return _denial_by_not(tokens, position, before)
    if tokens[position] in NOBODY:
        return _denial_by_nobody(tokens, position)
    if tokens[position] == "without":
        return Sign.NOT_SO if before[-1:] and before[-1] in BE else Sign.UNWISHED
    if tokens[position] != "no":
        is_going_on = stem_of(tokens[position]) == "stop" and tokens[position + 1].endswith("ing")
        return Sign.UNINTENDED if is_going_on else Sign.UNWISHED
    is_wish = not WISH.isdisjoint(before) or tokens[position + 1 : position + 2] == ["need"]
    if is_wish or _is_declined(tokens, position):
        return Sign.UNWISHED
    is_lacking = not BE.isdisjoint(before) or not HAVING.isdisjoint(before[-1:])  # "there is no"
    return Sign.NOT_SO if is_lacking or _is_subject(tokens, position) else Sign.OPEN


def _denial_by_nobody(tokens: list[str], position: int) -> Sign:
    """Return what "nobody" makes of its verb: "nobody wants to", "nobody did"."""
    between = [*itertools.takewhile(lambda token: token in SKIPPED, tokens[position + 1 :])]
    if not ABLE.isdisjoint(between):
        return Sign.OPEN
    is_wish = any(stem_of(token) in _WANTING or token in MUST for token in between)
    is_wish = is_wish or {"told", "to"}.issubset(between)
    return Sign.UNWISHED if is_wish else Sign.NOT_SO


def _is_declined(tokens: list[str], position: int) -> bool:
    """Return whether a sentence is "no child seat please", "no milk, thanks", "no bag needed"."""
    if not _opens_clause(tokens, position):
        return False
    end = position + 1
    while end < len(tokens) and (has_content(tokens, end) or tokens[end] in _LISTED):
        if tokens[end] in _THANKS or tokens[end] in _LASTING:
            break
        end += 1
    thanks, *rest = [*itertools.dropwhile(lambda word: word == ",", tokens[end:]), None][:2]
    return tokens[end - 1] in _NEEDED or (thanks in _THANKS and _AFTER_THANKS.issuperset(rest))


def _is_subject(tokens: list[str], position: int) -> bool:
    """Return whether "no" stands before the subject of a clause: "no parcel has arrived"."""
    clause = [
        *itertools.takewhile(lambda token: token not in ENDS, tokens[position + 1 : position + 6])
    ]
    return _opens_clause(tokens, position) and not _FINITE.isdisjoint(clause)


def _denial_by_not(tokens: list[str], position: int, before: list[str]) -> Sign:
    following = tokens[position + 1 : position + 3]
    is_question = position <= 2 and tokens[0] in AUXILIARIES - {"do"}
    is_question = is_question or (tokens[:2] == ["do", "not"] and tokens[2:3] in ASKED)
    is_unable = not ABLE.isdisjoint(before[-1:])
    if _is_ensured(tokens[:position]):
        return Sign.UNWISHED
    if is_question or tokens[0] in ("why", "how", "what"):
        return Sign.OPEN
    if _is_unintended(tokens, position):
        return Sign.UNINTENDED
    if is_unable:
        return Sign.UNABLE
    is_lacking = bool(following) and stem_of(following[0]) in LACKED and following[1:] != ["to"]
    if is_lacking or not THOUGHT.isdisjoint(following):
        return Sign.NOT_SO
    subject = next((token for token in reversed(before) if token not in AUXILIARIES), None)
    if not MUST.isdisjoint(before[-1:]):
        is_wish = "have" not in following  # "it should not have been"
    elif not BE.isdisjoint(before):
        is_wish = subject in SELF and bool(following) and following[0].endswith("ing")
    else:
        is_needless = following[:1] in (["need"], ["want"]) and following[1:] != ["to"]
        is_wish = subject in WISHING or (is_needless and subject not in _NEEDING_NOTHING)
    return Sign.UNWISHED if is_wish else Sign.NOT_SO


def _is_ensured(before: list[str]) -> bool:
    """Return whether somebody shall see to it that what follows is not so: "make sure that"."""
    clause = [*itertools.takewhile(lambda token: token not in ENDS, reversed(before))]
    place = next((at for at, token in enumerate(clause) if token in _ENSURING), None)
    if place is None:
        return False
    return clause[place] == "ensure" or clause[place + 1 : place + 2] in (["make"], ["making"])


def _is_unintended(tokens: list[str], position: int) -> bool:
    """Return whether it happened all the same: "I did not mean to", "not on purpose"."""
    clause = [*itertools.takewhile(lambda token: token not in ENDS, tokens[position + 1 :])]
    if not INTENT.isdisjoint(clause):
        return True
    is_past = tokens[position - 1 : position] == ["did"]
    return is_past and clause[:1] in (["mean"], ["want"], ["intend"], ["plan"]) and "to" in clause


def _scope(tokens: list[str], position: int) -> list[int]:
    """Return the places that a negator denies: its verb, or the nouns behind "without"."""
    limit = 2 if tokens[position] in ("without", "no") else 1
    positions: list[int] = []
    is_thought = False  # "I do not think that": the end of the clause is denied
    for at in range(position + 1, min(len(tokens), position + 9)):
        token = tokens[at]
        if token in ENDS or token in NEXT_CLAUSE or _is_unsure(tokens, at):
            break
        is_thought = is_thought or token in THOUGHT
        if has_content(tokens, at):
            positions.append(at)
            limit += stem_of(token) == "get"  # with what was not got
        if len(positions) == limit and not is_thought:
            break
    if is_thought:
        return positions[-1:]
    result = _unwished_result(tokens, position, positions[0]) if positions else None
    return positions if result is None else [result]


def _is_unsure(tokens: list[str], position: int) -> bool:
    """Return whether what follows may be so: "nobody knows that", "you did not tell me that"."""
    is_told = stem_of(tokens[position]) == "tell" and not _TOLD.isdisjoint(
        tokens[position + 1 : position + 2]
    )
    return is_told or stem_of(tokens[position]) in UNSURE


def _unwished_result(tokens: list[str], position: int, noun: int) -> int | None:
    """Return the participle behind a noun, of "I do not want my card blocked"."""
    between = tokens[position + 1 : noun]
    if WANTED.isdisjoint(between) or "to" in between or is_past(tokens[noun]):
        return None
    for at in range(noun + 1, min(len(tokens), noun + 4)):
        if tokens[at] in ENDS or tokens[at] in CLAUSES:
            return None
        if is_past(tokens[at]):
            return at
    return None
