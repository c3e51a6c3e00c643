"""Things that a verb is done to: "book a room" wishes a room, "hand in the key" wishes no key.

Who does not need a thing has no use for what gets or keeps it. What else is done with it may be
just what is asked for: "pause my subscription", "give back the room". And what is denied of one
thing may be so of another: "I have not lost my phone, I lost my card".
"""

from __future__ import annotations

from rejoinder.text.signs.inflections import stem_of
from rejoinder.text.signs.lexicon import ENDS, PHRASE
from rejoinder.text.signs.poles import has_content, is_end

_OBTAINING_WORDS = """
book reserve order reorder rebook buy purchase get add request rent hire have include bring send
give mail email post deliver ship install fit provide choose select take make arrange schedule
enable activate start open create extend keep renew upgrade hold continue prolong use apply obtain
acquire collect pick fetch receive accept approve confirm offer supply show find see attend join
subscribe download print upload hear read pay recommend suggest reach contact call
"""
_OBTAINING = frozenset(map(stem_of, _OBTAINING_WORDS.split()))
_ARTICLES = frozenset(
    "a an the my our your his her its their this that these those".split()  # noqa: SIM905
)
_BEHIND_VERBS = frozenset("on off out up back down in me us him her them".split())  # noqa: SIM905
_GIVING_UP = frozenset(["up", "back", "in", "away"])  # behind one of
_GIVING = frozenset(["giv", "send", "bring", "tak", "hand"])  # stems


def is_only_named(tokens: list[str], place: int) -> bool:
    """Return whether a thing is the object of a verb that neither gets, keeps nor ends it."""
    articles = _articles_before(tokens, place)
    while articles and tokens[articles.start - 1] == "of":  # "the key of a locker"
        articles = _articles_before(tokens, articles.start - 2)
    verb = articles.start - 1
    while verb >= 0 and tokens[verb] in _BEHIND_VERBS:
        verb -= 1
    if not articles or verb < 0 or not has_content(tokens, verb) or is_end(tokens, verb):
        return False
    stem = stem_of(tokens[verb])
    is_given_up = stem in _GIVING and not _GIVING_UP.isdisjoint(tokens[verb + 1 : articles.start])
    return is_given_up or stem not in _OBTAINING


def _articles_before(tokens: list[str], place: int) -> range:
    """Return the places of the article, and what is beside it, before a thing; none: none."""
    end = max(place, 0)
    while end and has_content(tokens, end - 1):
        end -= 1
    start = end
    while start and tokens[start - 1] in PHRASE:
        start -= 1
    return range(start, end) if not _ARTICLES.isdisjoint(tokens[start:end]) else range(0)


def is_of_another(tokens: list[str], place: int) -> bool:
    """Return whether a verb that is denied of one thing is said of another one behind it.

    It stands there again, or "but" stands before the other thing alone.
    """
    own = _object_of(tokens, place)
    end = next((at for at in range(place, len(tokens)) if tokens[at] in ENDS), len(tokens))
    if not own or end == len(tokens):
        return False
    other = _object_of(tokens, end)
    if tokens[end] == "but" and other and _is_last(tokens, other[-1]):
        return True
    again = (at for at in range(end, len(tokens)) if stem_of(tokens[at]) == stem_of(tokens[place]))
    others = (_object_of(tokens, at) for at in again)
    words = {tokens[at] for at in own}
    return any(found and words.isdisjoint(tokens[at] for at in found) for found in others)


def _object_of(tokens: list[str], verb: int) -> list[int]:
    """Return the places of the noun right behind a verb and an article."""
    start = verb + 1
    while start < len(tokens) and tokens[start] in PHRASE:
        start += 1
    if _ARTICLES.isdisjoint(tokens[verb + 1 : start]):
        return []
    end = start
    while end < len(tokens) and has_content(tokens, end):
        end += 1
    return [*range(start, end)]


def _is_last(tokens: list[str], place: int) -> bool:
    """Return whether a word is the last one of its clause."""
    return place + 1 == len(tokens) or tokens[place + 1] in ENDS
