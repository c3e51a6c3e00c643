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
_LASTING = frozenset(["since", "yesterday"])  # "no heating since yesterday, please" is a lack
_NEEDED = frozenset(["needed", "necessary", "required"])
_NEEDING_NOTHING = frozenset(["it", "you"])  # "you do not need to"
_TOLD = frozenset(["me", "us"])
_FINITE = frozenset(["is", "are", "was", "were", "has", "have", "had"])


def denied_places(tokens: list[str]) -> dict[int, Sign]:
    """Return the signs of the places that a negator denies."""
    found: dict[int, Sign] = {}
    for place in range(len(tokens)):
        if _negates(tokens, place) or (place not in found and _stops(tokens, place)):
            denied = _scope(tokens, place)
            if tokens[place] == "without":
                denied = _not_said_before(tokens, place, denied)
            found |= dict.fromkeys(denied, _denial(tokens, place))
        elif tokens[place] == "nothing" and _is_object(tokens, place):
            found[place - 1] = Sign.NOT_SO
    found |= dict.fromkeys(bare_denials(tokens), Sign.UNWISHED)
    unwished = [place for place, sign in found.items() if sign is Sign.UNWISHED]
    objects = itertools.chain.from_iterable(_objects(tokens, place) for place in unwished)
    return dict.fromkeys(objects, Sign.OPEN) | found


def _not_said_before(tokens: list[str], place: int, denied: list[int]) -> list[int]:
    """Return what "without" denies but for what is wished before it.

    Who asks how to remove a user without deleting his data wants to remove something.
    """
    said = {pole_of(tokens, at) for at in range(place) if has_content(tokens, at)}
    return [at for at in denied if pole_of(tokens, at) not in said]


def _negates(tokens: list[str], place: int) -> bool:
    """Return whether a word is a negator; "nobody" is one where it opens a clause."""
    if tokens[place] not in NOBODY:
        return tokens[place] in NEGATORS
    return _opens_clause(tokens, place) and tokens[place + 1 : place + 2] != ["to"]


def _is_object(tokens: list[str], place: int) -> bool:
    """Return whether "nothing" is all that a verb before it has: "I left nothing in the room"."""
    if not place or not has_content(tokens, place - 1):
        return False
    following = place + 1
    is_last = following == len(tokens)
    return is_last or not (has_content(tokens, following) or tokens[following] in ("but", "else"))


def _opens_clause(tokens: list[str], place: int) -> bool:
    before = tokens[place - 1] if place else None
    return before in OPENING or before in ENDS


def _objects(tokens: list[str], place: int) -> list[int]:
    """Return the places of which nothing is said where a word before them is not to be done.

    Who does not want to reserve a book may want it or not; who does not cancel an order wants it.
    """
    found: list[int] = []
    if is_end(tokens, place):
        return found
    for at in range(place + 1, len(tokens)):
        if tokens[at] in ENDS or tokens[at] in NEXT_CLAUSE:
            break
        if has_content(tokens, at):
            if is_end(tokens, at):
                break
            found.append(at)
    return found


def _stops(tokens: list[str], place: int) -> bool:
    """Return whether a word stops what follows: "stop calling", "undo the freeze"."""
    following = tokens[place + 1] if place + 2 <= len(tokens) else ""
    if following.endswith("ing"):
        return stem_of(tokens[place]) in ("stop", "against")
    return tokens[place] in STOP and following in DETERMINERS


def bare_denials(tokens: list[str]) -> list[int]:
    """Return the places of sentences before one that only denies, as "Please don't"."""
    found: list[int] = []
    ends = [place for place, token in enumerate(tokens) if token in SENTENCE_ENDS]
    if not ends:
        return found
    bounds = zip([-1, *ends[:-1]], ends, [*ends[1:], len(tokens)], strict=True)
    for start, middle, last in bounds:
        said = {token for token in tokens[middle + 1 : last] if token not in ENDS}
        if said <= BARE and ("not" in said or {"no", "way"} <= said):
            found += [place for place in range(start + 1, middle) if has_content(tokens, place)]
    return found


def _denial(tokens: list[str], place: int) -> Sign:
    """Return what a negator makes of what it denies."""
    before = tokens[max(0, place - 3) : place]
    if tokens[place] == "not":
        return _denial_by_not(tokens, place, before)
    if tokens[place] in NOBODY:
        return _denial_by_nobody(tokens, place)
    if tokens[place] != "no":
        return Sign.UNWISHED
    is_wish = not WISH.isdisjoint(before) or tokens[place + 1 : place + 2] == ["need"]
    if is_wish or _is_declined(tokens, place):
        return Sign.UNWISHED
    is_lacking = not BE.isdisjoint(before) or not HAVING.isdisjoint(before[-1:])  # "there is no"
    return Sign.NOT_SO if is_lacking or _is_subject(tokens, place) else Sign.OPEN


def _denial_by_nobody(tokens: list[str], place: int) -> Sign:
    """Return what "nobody" makes of its verb: "nobody wants to", "nobody did"."""
    between = [*itertools.takewhile(lambda token: token in SKIPPED, tokens[place + 1 :])]
    if not ABLE.isdisjoint(between):
        return Sign.OPEN
    is_wish = any(stem_of(token) in _WANTING or token in MUST for token in between)
    is_wish = is_wish or {"told", "to"}.issubset(between)
    return Sign.UNWISHED if is_wish else Sign.NOT_SO


def _is_declined(tokens: list[str], place: int) -> bool:
    """Return whether a sentence is "no child seat please", "no milk, thanks", "no bag needed"."""
    if not _opens_clause(tokens, place):
        return False
    end = place + 1
    while end < len(tokens) and (has_content(tokens, end) or tokens[end] in _LISTED):
        if tokens[end] in _THANKS or tokens[end] in _LASTING:
            break
        end += 1
    thanks, *rest = [*itertools.dropwhile(lambda each: each == ",", tokens[end:]), None][:2]
    return tokens[end - 1] in _NEEDED or (thanks in _THANKS and _AFTER_THANKS.issuperset(rest))


def _is_subject(tokens: list[str], place: int) -> bool:
    """Return whether "no" stands before the subject of a clause: "no parcel has arrived"."""
    clause = [*itertools.takewhile(lambda token: token not in ENDS, tokens[place + 1 : place + 6])]
    return _opens_clause(tokens, place) and not _FINITE.isdisjoint(clause)


def _denial_by_not(tokens: list[str], place: int, before: list[str]) -> Sign:
    following = tokens[place + 1 : place + 3]
    is_question = place <= 2 and tokens[0] in AUXILIARIES - {"do"}
    is_question = is_question or (tokens[:2] == ["do", "not"] and tokens[2:3] in ASKED)
    is_unable = not ABLE.isdisjoint(before[-1:])
    if is_question or tokens[0] in ("why", "how", "what"):
        return Sign.OPEN
    if _is_unintended(tokens, place):
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


def _is_unintended(tokens: list[str], place: int) -> bool:
    """Return whether it happened all the same: "I did not mean to", "not on purpose"."""
    clause = [*itertools.takewhile(lambda token: token not in ENDS, tokens[place + 1 :])]
    if not INTENT.isdisjoint(clause):
        return True
    is_past = tokens[place - 1 : place] == ["did"]
    return is_past and clause[:1] in (["mean"], ["want"], ["intend"], ["plan"]) and "to" in clause


def _scope(tokens: list[str], place: int) -> list[int]:
    """Return the places that a negator denies: its verb, or the nouns behind "without"."""
    limit = 2 if tokens[place] in ("without", "no") else 1
    found: list[int] = []
    is_thought = False  # "I do not think that": the end of the clause is denied
    for at in range(place + 1, min(len(tokens), place + 9)):
        token = tokens[at]
        if token in ENDS or token in NEXT_CLAUSE or _is_unsure(tokens, at):
            break
        is_thought = is_thought or token in THOUGHT
        if has_content(tokens, at):
            found.append(at)
            limit += stem_of(token) == "get"  # with what was not got
        if len(found) == limit and not is_thought:
            break
    if is_thought:
        return found[-1:]
    result = _unwished_result(tokens, place, found[0]) if found else None
    return found if result is None else [result]


def _is_unsure(tokens: list[str], place: int) -> bool:
    """Return whether what follows may be so: "nobody knows that", "you did not tell me that"."""
    is_told = stem_of(tokens[place]) == "tell" and not _TOLD.isdisjoint(
        tokens[place + 1 : place + 2]
    )
    return is_told or stem_of(tokens[place]) in UNSURE


def _unwished_result(tokens: list[str], place: int, noun: int) -> int | None:
    """Return the participle behind a noun, of "I do not want my card blocked"."""
    between = tokens[place + 1 : noun]
    if WANTED.isdisjoint(between) or "to" in between or is_past(tokens[noun]):
        return None
    for at in range(noun + 1, min(len(tokens), noun + 4)):
        if tokens[at] in ENDS or tokens[at] in CLAUSES:
            return None
        if is_past(tokens[at]):
            return at
    return None
