"""Poles of pairs: "enable" and "disable", "turn on" and "turn off", "lock" and "unlock"."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from rejoinder.text.signs.inflections import english_stems, is_past, stem_of
from rejoinder.text.signs.lexicon import (
    BE,
    ENDING,
    ENDS,
    ENTERED,
    NEGATORS,
    NOT_GOT,
    ON_OFF,
    SKIPPED,
    SWITCHED,
)

# Both poles of pairs: the first word stands for all. "un" makes the other pole of any word.
_POLES = """
enable activate active / disable deactivate inactive
lock block bar /
subscribe / deregister
accept / reject decline refuse
increase / decrease reduce lower
add / remove delete erase
open / close shut
find / lose
connect / disconnect
succeed success successful / fail
early / late
love adore / dislike detest
happy glad cheerful / sad
clever smart intelligent / stupid dumb
help helpful /
arrive come get receive reach /
bring take carry /
cancel terminate quit /
"""
QUALITIES = frozenset(["happy", "clever"])  # poles that count only where something is so
ARRIVAL = "arriv"
MOVES = frozenset([ARRIVAL, "bring"])  # verbs of any thing: see what else a text names
_GET = "get"
_GIVEN = frozenset(["send", "giv", "bring"])
_TO_ME = frozenset(["me", "us"])
_LEAST_REST = 4  # letters of a word behind "un"


def has_content(tokens: list[str], place: int) -> bool:
    """Return whether a word says something by itself."""
    token = tokens[place]
    if token in ON_OFF:
        return _is_switch(tokens, place)
    if token == _GET:
        return _is_not_got(tokens, place)
    return token not in SKIPPED and token not in ENDS and token not in NEGATORS


def _is_not_got(tokens: list[str], position: int) -> bool:
    """Return whether "get" says that something did not arrive: "I did not get it"."""
    return position > 0 and tokens[position - 1] == "not" and _is_received(tokens, position)


def _is_received(tokens: list[str], position: int) -> bool:
    """Return whether something is got: not "get into it", "get back to me", "get stolen"."""
    following = tokens[position + 1 : position + 3]
    is_other = following == ["back", "to"] or not NOT_GOT.isdisjoint(following[:1])
    return not is_other and not any(is_past(token) for token in following[:1])


def _is_switch(tokens: list[str], position: int) -> bool:
    """Return whether "on" or "off" stands without a verb, at an end: "notifications off"."""
    before = tokens[position - 1] if position else "on"
    following = tokens[position + 1] if position + 1 < len(tokens) else "."
    is_last = following in ENDS or following == "please"
    is_said = before in BE or before in NEGATORS or before not in SKIPPED
    return is_last and is_said and not any(stem_of(token) in SWITCHED for token in tokens)


def is_end(tokens: list[str], place: int) -> bool:
    """Return whether a word ends what else a text names: "cancel", "turn off"."""
    word, is_other = pole_of(tokens, place)
    return is_other or word in ENDING


def pole_of(tokens: list[str], place: int) -> tuple[str, bool]:
    """Return the word for both poles of a pair, and whether a word is the other pole."""
    word = tokens[place]
    stem = stem_of(word)
    switch, _ = pole_of_word("enable")
    if word in ON_OFF:
        return switch, word == "off"
    near = tokens[place + 1 : place + 7]
    if stem in SWITCHED:
        state = next((token for token in near if token in ON_OFF), None)
        return (stem, False) if state is None else (switch, state == "off")
    if stem == _GET and not _is_received(tokens, place):
        return stem, False
    if stem in ENTERED:
        return stem, "off" in near or near[:1] == ["out"]
    return (ARRIVAL, False) if _is_given(stem, near) else pole_of_word(word)


def _is_given(stem: str, following: list[str]) -> bool:
    """Return whether something is given to who writes: "send me", "pay it back"."""
    is_sent = stem in _GIVEN and not _TO_ME.isdisjoint(following[:1])
    return is_sent or (stem == "pay" and "back" in following[:4])


@functools.lru_cache(maxsize=8192)
def pole_of_word(word: str) -> tuple[str, bool]:
    """Return the word for both poles of a pair, and whether a word alone is the other pole."""
    stem = stem_of(word)
    rest = word[2:]
    if stem in _poles():
        return _poles()[stem]
    if word.startswith("re") and stem_of(rest) in _poles():
        return _poles()[stem_of(rest)]
    if word.startswith("un") and len(rest) >= _LEAST_REST and stem_of(rest) in english_stems():
        base, is_other = pole_of_word(rest)
        return base, not is_other
    return stem, False


@functools.cache
def _poles() -> Mapping[str, tuple[str, bool]]:
    """Return of each stem the one that stands for both poles, and whether it is the other pole."""
    pole_of_stem: dict[str, tuple[str, bool]] = {}
    for line in _POLES.strip().splitlines():
        poles = [[stem_of(word) for word in words.split()] for words in line.split("/")]
        for is_other, stems in enumerate(poles):
            pole_of_stem |= dict.fromkeys(stems, (poles[0][0], bool(is_other)))
    return pole_of_stem
