"""Whether two texts say the opposite of the same thing: "cancel my order", "do not cancel it".

Encoders put both side by side. Here each content word gets a `Sign` and a pole. Texts oppose each
other in a word that they share: where one wishes that it is not done, or says that it is not so, or
where both say the same of two poles ("turn on", "disable"). That something was not done ("it does
not turn on") is the opposite of what was done, but not of a wish.
"""

from __future__ import annotations

from collections.abc import Iterable

from rejoinder.text.signs.denials import bare_denials
from rejoinder.text.signs.reading import MOST_WORDS, TIMES, signs
from rejoinder.text.signs.sign import Said, Sign
from rejoinder.text.signs.tokens import tokenize

_OPPOSITES = frozenset(
    frozenset(pair)
    for pair in (
        (Sign.WISHED, Sign.UNWISHED),
        (Sign.SO, Sign.UNWISHED),
        (Sign.SO, Sign.NOT_SO),
    )
)
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
            if _clash(own[word], theirs[word]):
                clashes.setdefault(word, other)
            elif _agree(own[word], theirs[word]):
                agreed.add(word)
    return next((other for word, other in clashes.items() if word not in agreed), None)


def agrees_by_poles(text: str, others: Iterable[str]) -> bool:
    """Return whether one of some texts says the same of the other pole: "not found", "lost".

    It has to share another word, so that "do not remove my profile" is not "add a driver".
    """
    own = signs(text)
    for other in others:
        theirs = signs(other)
        shared = [word for word in own if word in theirs]
        agreed = [word for word in shared if own[word].is_other != theirs[word].is_other]
        if len(shared) > 1 and any(_agree(own[word], theirs[word]) for word in agreed):
            return True
    return False


def _clash(own: Said, other: Said) -> bool:
    if own.is_other != other.is_other:
        return own.sign is other.sign is not Sign.OPEN
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
