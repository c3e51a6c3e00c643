"""Whether two texts say the opposite of the same thing: "cancel my order", "do not cancel it".

Encoders put both side by side. Here each content word gets a `Sign` and a pole. Texts oppose each
other in a word that they share: where one wishes that it is not done, or says that it is not so, or
where both say the same of two poles ("turn on", "disable"). That something was not done ("it does
not turn on") is the opposite of what was done, but not of a wish. A question opposes nothing, but
for one that asks for an offer ("do you have helmets"): it is the opposite of "no helmet please".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rejoinder.text.signs.denials import bare_denials
from rejoinder.text.signs.poles import ARRIVAL
from rejoinder.text.signs.reading import MOST_WORDS, TIMES, signs
from rejoinder.text.signs.sign import Said, Sign
from rejoinder.text.signs.tokens import tokenize

_OPPOSITES = frozenset(
    frozenset(pair)
    for pair in (
        (Sign.WISHED, Sign.UNWISHED),
        (Sign.SO, Sign.UNWISHED),
        (Sign.SO, Sign.NOT_SO),
        (Sign.HAD, Sign.NOT_SO),
        (Sign.HAD, Sign.UNWISHED),
        (Sign.OFFERED, Sign.UNWISHED),
    )
)
_GOT = {Sign.SO: Sign.HAD, Sign.NOT_SO: Sign.NOT_SO}  # of the thing, by the sign of its arrival
_OF_QUESTIONS = (Sign.OPEN, Sign.OFFERED)
_SAME_OF_POLES = frozenset(
    frozenset(pair) for pair in ((Sign.WISHED, Sign.UNWISHED), (Sign.SO, Sign.NOT_SO))
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
            if word == ARRIVAL and not _of_one_thing(own, theirs):
                continue
            if _clash(own[word], theirs[word]):
                clashes.setdefault(word, other)
            elif _agree(own[word], theirs[word]):
                agreed.add(word)
    return next((other for word, other in clashes.items() if word not in agreed), None)


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


def _of_one_thing(own: Mapping[str, Said], theirs: Mapping[str, Said]) -> bool:
    """Return whether two texts say of the same thing whether it arrived, or one says "it"."""
    things = _things(own)
    others = _things(theirs)
    return not things or not others or not things.isdisjoint(others)


def _things(said: Mapping[str, Said]) -> set[str]:
    """Return what arrived or not: what somebody got, did not get, or else all that is named."""
    sign = said[ARRIVAL].sign
    others = {word: each.sign for word, each in said.items() if word != ARRIVAL}
    if sign not in _GOT:
        return set(others)
    got = {word for word, each in others.items() if each is _GOT[sign]}
    return got or {word for word, each in others.items() if each is not Sign.OPEN}


def _clash(own: Said, other: Said) -> bool:
    if own.is_other != other.is_other:
        return own.sign is other.sign not in _OF_QUESTIONS
    return frozenset((own.sign, other.sign)) in _OPPOSITES


def _agree(own: Said, other: Said) -> bool:
    if own.is_other != other.is_other:
        return frozenset((own.sign, other.sign)) in _SAME_OF_POLES
    return own.sign is other.sign is not Sign.OPEN


def denies_a_sentence(text: str) -> bool:
    """Return whether a sentence, as "Please don't", denies the one before it."""
    tokens = tokenize(text)
    return len(tokens) <= MOST_WORDS and bool(bare_denials(tokens))


def takes_side(text: str) -> bool:
    """Return whether a text denies something, or says the other one of two poles: "off"."""
    return any(said.sign.is_denial or said.is_other for said in signs(text).values())
