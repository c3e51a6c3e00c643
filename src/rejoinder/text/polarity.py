"""Opposites among texts on the same thing: "cancel my order", "do not cancel it".

Encoders put both side by side. Here each content word gets a `Sign` and a pole. Texts oppose each
other in a word that they share: where one wishes that it is not done, or says that it is not so, or
where both say the same of two poles ("turn on", "disable"). That something was not done ("it does
not turn on") is the opposite of what was done, but not of a wish. A question opposes nothing, but
for one that asks for an offer ("do you have helmets"): it is the opposite of "no helmet please".
What can be done again is the opposite of what cannot.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from rejoinder.text.courtesy import has_content as has_words
from rejoinder.text.signs.denials import bare_denials
from rejoinder.text.signs.lexicon import ENDS, NEGATORS, WISH
from rejoinder.text.signs.poles import MOVES, has_content
from rejoinder.text.signs.reading import MOST_WORDS, TIMES, signs
from rejoinder.text.signs.settled import EVENTS, is_settled
from rejoinder.text.signs.sign import Said, Sign
from rejoinder.text.signs.tokens import tokenize

_OPPOSITES = frozenset(
    frozenset(pair)
    for pair in (
        (Sign.WISHED, Sign.UNWISHED),
        (Sign.WISHED, Sign.UNINTENDED),
        (Sign.SO, Sign.UNWISHED),
        (Sign.SO, Sign.NOT_SO),
        (Sign.HAD, Sign.NOT_SO),
        (Sign.HAD, Sign.UNWISHED),
        (Sign.OFFERED, Sign.UNWISHED),
        (Sign.ABLE, Sign.UNABLE),
    )
)
_WISHES = WISH - {"with", "like", "would"}  # of "I like it", "that would be fine"
_GOT = {Sign.SO: Sign.HAD, Sign.NOT_SO: Sign.NOT_SO}  # of the thing, by the sign of its arrival
_OF_REQUESTS = (Sign.OPEN, Sign.OFFERED, Sign.WISHED)
_UNSAID = (Sign.OPEN, Sign.OFFERED, Sign.ABLE, Sign.UNABLE)  # as much is true of other poles
_SAME_OF_POLES = frozenset(
    frozenset(pair)
    for pair in (
        (Sign.WISHED, Sign.UNWISHED),
        (Sign.WISHED, Sign.UNINTENDED),
        (Sign.SO, Sign.NOT_SO),
    )
)


def opposed(text: str, others: Iterable[str]) -> str | None:
    """Return the first of some texts that says the opposite of one; None if another says the same.

    A word in which they oppose each other does not count where another text agrees in it.
    """
    own = signs(text)
    clashes: dict[str, str] = {}
    agreed = set()
    for other in others:
        theirs = signs(other)
        shared = [word for word in own if word in theirs]
        if shared == [TIMES]:
            continue
        for word in shared:
            if word in MOVES and not _of_one_thing(word, own, theirs):
                continue
            if _clash(own[word], theirs[word]):
                clashes.setdefault(word, other)
            elif _agree(own[word], theirs[word]):
                agreed.add(word)
    return next((other for word, other in clashes.items() if word not in agreed), None)


def left_open(text: str, others: Iterable[str]) -> str | None:
    """Return the first of some texts that ask or complain, where a text says that all is settled.

    None if one of them says so of the same thing, or is courtesy alone.
    """
    known = list(others)
    if any(not has_words(other) or _tells_of_the_same(text, other) for other in known):
        return None
    return next(iter(known), None)


def _tells_of_the_same(text: str, other: str) -> bool:
    """Return whether two texts share what they name, and the other says what was done with it."""
    shared = signs(text).keys() & signs(other).keys() - EVENTS
    return bool(shared) and is_settled(other, is_marked=False)


def agrees_by_poles(text: str, others: Iterable[str]) -> bool:
    """Return whether one of some texts says the same of the other pole: "not found", "lost".

    It has to share another word, so that "do not remove my profile" is not "add a driver"; or
    neither says anything else: "I am not sad", "I am happy".
    """
    own = signs(text)
    for other in others:
        theirs = signs(other)
        shared = [word for word in own if word in theirs]
        agreed = [word for word in shared if own[word].is_other != theirs[word].is_other]
        is_enough = len(shared) > 1 or len(own) == len(theirs) == 1  # "I am not sad"
        if is_enough and any(_agree(own[word], theirs[word]) for word in agreed):
            return True
    return False


def repeats(text: str, others: Iterable[str], whole: str) -> bool:
    """Return whether one of some texts says all that a part of a `whole` says.

    "I can't log in" is known; one word of a longer one is not enough. What the rest of the whole
    denies is not said: "don't call me, I will call you".
    """
    own = signs(text)
    whole_signs = signs(whole)
    if any(
        whole_signs[word].sign.is_denial and whole_signs[word] != own[word]
        for word in own
        if word in whole_signs
    ):
        return False
    return any(
        own.items() <= theirs.items() and (len(own) > 1 or len(own) == len(theirs))
        for theirs in map(signs, others)
        if own
    )


def _of_one_thing(verb: str, own: Mapping[str, Said], theirs: Mapping[str, Said]) -> bool:
    """Return whether two texts say of the same thing whether it arrived, or one says "it"."""
    things = _things(verb, own)
    others = _things(verb, theirs)
    return not things or not others or not things.isdisjoint(others)


def _things(verb: str, word_signs: Mapping[str, Said]) -> set[str]:
    """Return what arrived or not: what somebody got, did not get, or else all that is named."""
    sign = word_signs[verb].sign
    others = {word: reading.sign for word, reading in word_signs.items() if word != verb}
    if sign not in _GOT:
        return set(others)
    got = {word for word, other_sign in others.items() if other_sign is _GOT[sign]}
    return got or {word for word, other_sign in others.items() if other_sign is not Sign.OPEN}


def _clash(own: Said, other: Said) -> bool:
    if own.is_other != other.is_other:
        return own.sign is other.sign not in _UNSAID
    return frozenset((own.sign, other.sign)) in _OPPOSITES


def _agree(own: Said, other: Said) -> bool:
    if own.is_other != other.is_other:
        return frozenset((own.sign, other.sign)) in _SAME_OF_POLES
    return own.sign is other.sign is not Sign.OPEN


def denies_a_sentence(text: str) -> bool:
    """Return whether a sentence, as "Please don't", denies the one before it."""
    tokens = tokenize(text)
    return len(tokens) <= MOST_WORDS and bool(bare_denials(tokens))


def wishes_besides(text: str) -> bool:
    """Return whether a text wishes something behind what it denies: "I just want to move it"."""
    groups = itertools.groupby(tokenize(text), key=ENDS.__contains__)
    clauses = [[*group] for is_end, group in groups if not is_end]
    return any(map(_wishes, itertools.dropwhile(NEGATORS.isdisjoint, clauses)))


def _wishes(clause: list[str]) -> bool:
    is_instead = clause[0] in ("to", "rather")  # "not to move it, but to cancel it"
    is_wish = is_instead or not _WISHES.isdisjoint(clause)
    if not is_wish or not NEGATORS.isdisjoint(clause):
        return False
    return any(has_content(clause, position) for position in range(len(clause)))


def takes_side(text: str) -> bool:
    """Return whether a text says more than what it asks or wishes: what is denied, or is so."""
    return any(
        reading.is_other or reading.sign not in _OF_REQUESTS for reading in signs(text).values()
    )
