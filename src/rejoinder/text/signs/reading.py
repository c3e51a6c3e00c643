"""Signs of all content words of a text."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping

from rejoinder.text.signs.denials import bare_denials, denied_places
from rejoinder.text.signs.facts import is_possible, is_so
from rejoinder.text.signs.lexicon import (
    ASKED,
    ENDING,
    ENDS,
    EXCEPTING,
    MEASURES,
    QUESTION,
    TIME_WORDS,
)
from rejoinder.text.signs.objects import is_of_another, is_only_named
from rejoinder.text.signs.phrases import had_places, offered_places
from rejoinder.text.signs.poles import MOVES, QUALITIES, has_content, pole_of
from rejoinder.text.signs.sign import Said, Sign
from rejoinder.text.signs.tokens import tokenize
from rejoinder.text.signs.unasked import is_unasked, unasked_ends

MOST_WORDS = 60  # of a text; a longer one is not a plain statement
TIMES = "before"  # stands for before and, the other pole, after


@functools.lru_cache(maxsize=8192)
def signs(text: str) -> Mapping[str, Said]:
    """Return what a text says of each of its content words."""
    tokens = tokenize(text)
    readings: dict[str, Said] = {}
    if len(tokens) > MOST_WORDS:
        return readings
    is_asked = _is_asked(tokens) and not bare_denials(tokens)
    denied = denied_places(tokens)
    denied |= dict.fromkeys(unasked_ends(tokens), Sign.UNINTENDED)
    known = had_places(tokens) | denied
    offered = offered_places(tokens) - denied.keys() if is_asked else set()
    excepted = _excepted_place(tokens)
    for position in range(len(tokens)):
        if not has_content(tokens, position):
            continue
        word, is_other = pole_of(tokens, position)
        sign = known.get(position) or _said_sign(tokens, position)
        if is_asked or (word in QUALITIES and sign is Sign.WISHED):
            sign = Sign.OFFERED if position in offered else Sign.OPEN
        if position < excepted and sign is Sign.SO and not is_other and word not in MOVES:
            sign = Sign.OPEN
        is_kept = word in readings and (readings[word].sign.is_denial or sign is Sign.ABLE)
        if not is_kept:
            readings[word] = Said(sign, is_other)
    for word in _denied_of_one_thing(tokens, denied) & readings.keys():
        readings[word] = readings[word]._replace(sign=Sign.OPEN)
    _open_what_is_ended(readings)
    if is_unasked(tokens):
        _regret_what_is_so(readings)
    times = {one for one, other in itertools.pairwise(tokens) if other not in ENDS} & TIME_WORDS
    if len(times) == 1:
        readings[TIMES] = Said(Sign.WISHED, "after" in times)
    return readings


def _excepted_place(tokens: list[str]) -> int:
    """Return the place of "but not", or 0: what is so before it is not so elsewhere.

    "There is power in the house but not in the cellar" is no opposite of "there is no power".
    """
    pairs = itertools.pairwise(tokens)
    return next((position for position, pair in enumerate(pairs) if pair == EXCEPTING), 0)


def _said_sign(tokens: list[str], position: int) -> Sign:
    """Return the sign of a word that nothing denies."""
    if is_so(tokens, position):
        return Sign.SO
    if is_possible(tokens, position):
        return Sign.ABLE
    return Sign.OPEN if is_only_named(tokens, position) else Sign.WISHED


def _denied_of_one_thing(tokens: list[str], denied: Mapping[int, Sign]) -> set[str]:
    """Return the verbs that are denied of one thing and said of another one."""
    places = (place for place, sign in denied.items() if sign.is_denial)
    return {pole_of(tokens, place)[0] for place in places if is_of_another(tokens, place)}


def _open_what_is_ended(readings: dict[str, Said]) -> None:
    """Say nothing of the other words beside an end: who cancels an order may want it or not."""
    ends = {word for word, end in readings.items() if end.is_other or word in ENDING}
    if all(readings[word].sign is Sign.UNWISHED for word in ends):
        return
    for word, reading in readings.items():
        if reading.sign in (Sign.WISHED, Sign.HAD) and word not in ends:
            readings[word] = Said(Sign.OPEN)


def _regret_what_is_so(readings: dict[str, Said]) -> None:
    """Say that nobody wished what was done."""
    for word, reading in readings.items():
        if reading.sign is Sign.SO:
            readings[word] = Said(Sign.UNINTENDED, reading.is_other)


def _is_asked(tokens: list[str]) -> bool:
    """Return whether a text asks whether something is so."""
    is_asked_of = tokens[:1] == ["do"] and tokens[1:2] in ASKED
    is_why_not = tokens[:1] == ["why"] and tokens[2:3] == ["not"]  # "why has it not arrived"
    is_how_much = tokens[:1] == ["how"] and tokens[1:2] in MEASURES
    is_question = is_asked_of or is_why_not or is_how_much
    return is_question or (bool(tokens) and tokens[0] in QUESTION)
