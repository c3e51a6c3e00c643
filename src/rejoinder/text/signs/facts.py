"""Words of what is so, or was done: "is broken", "arrived", "my tooth hurts"."""

from __future__ import annotations

import itertools

from rejoinder.text.signs.inflections import is_participle, stem_of
from rejoinder.text.signs.lexicon import (
    ASKING,
    AUXILIARIES,
    BE,
    CLAUSES,
    DETERMINERS,
    ENDS,
    PHRASE,
    PLACED,
    PRONOUNS,
    SEEMING,
    SKIPPED,
    STRESSED,
    TURNED,
    WANTED,
)

_BETWEEN = frozenset(["really", "actually", "still", "even", "just", "now", "finally", "indeed"])
_ASKED_TO = frozenset(["please", "and", "so"])  # "please do call"
_UNSTATED = ASKING | {"you", "only", "just", "so", "that", "as"}  # "now I can only pay by card"


def is_so(tokens: list[str], place: int) -> bool:
    """Return whether a word is said to be so, or done."""
    start = place
    while start and tokens[start - 1] in PLACED:  # "is on my account"
        start -= 1
    if not BE.isdisjoint({*tokens[max(0, place - 2) : place], *tokens[max(0, start - 1) : start]}):
        return True
    is_done = is_participle(tokens, place) and not _is_to_be_done(tokens, place)
    return is_done or _is_present(tokens, place) or _is_stressed(tokens, place)


def is_possible(tokens: list[str], place: int) -> bool:
    """Return whether a word is said to be possible again: "I can log in again"."""
    before = _clause_before(tokens, place)
    subject = [*itertools.takewhile(lambda word: word != "can", before)]
    is_subject = not PHRASE.isdisjoint(subject[:1]) or SKIPPED.issuperset(subject)
    if not subject or subject == before or not is_subject:
        return False
    following = itertools.takewhile(lambda token: token not in ENDS, tokens[place:])
    clause = {*before, *following}
    return _UNSTATED.isdisjoint(clause) and not TURNED.isdisjoint(clause)


def _clause_before(tokens: list[str], position: int) -> list[str]:
    """Return the words of a clause before one of its words."""
    before = itertools.takewhile(lambda token: token not in ENDS, reversed(tokens[:position]))
    return [*before][::-1]


def _is_stressed(tokens: list[str], position: int) -> bool:
    """Return whether a word is stressed to be so: "it did arrive", not "how do trains run"."""
    before = _clause_before(tokens, position)
    while before and before[-1] in _BETWEEN:
        before.pop()
    is_said = len(before) > 1 and before[-1] in STRESSED and before[-2] not in _ASKED_TO
    return is_said and ASKING.isdisjoint(before)


def _is_to_be_done(tokens: list[str], position: int) -> bool:
    """Return whether a participle is wished: "to be cancelled", "I need it cancelled"."""
    before = tokens[max(0, position - 4) : position]
    is_wanted = not WANTED.isdisjoint(before[-1:])  # "I want reserved seats"
    is_seen = any(stem_of(token) in SEEMING for token in before)  # "it seems to be cancelled"
    return is_wanted or _is_caused(before) or (before[-1:] == ["be"] and not is_seen)


def _is_caused(before: list[str]) -> bool:
    """Return whether the words before a participle wish it: "I need it cancelled"."""
    for one, other in reversed(list(itertools.pairwise(before))):
        if one in WANTED or one == "get":
            return True
        if other == "to" or other in CLAUSES:  # "I want the order you cancelled"
            return False
    return False


def _is_present(tokens: list[str], position: int) -> bool:
    """Return whether a word ends in the s of a verb behind its subject: "my tooth hurts".

    Plural nouns look alike: so the subject opens a clause, and no other verb follows.
    """
    word = tokens[position]
    following = tokens[position + 1 : position + 2]
    if not word.endswith("s") or word.endswith("ss") or not AUXILIARIES.isdisjoint(following):
        return False
    clause = [*itertools.takewhile(lambda token: token not in ENDS, reversed(tokens[:position]))]
    nouns = clause[:-1]
    is_named = 1 <= len(nouns) <= 2 and clause[-1] in DETERMINERS
    is_named = is_named and SKIPPED.isdisjoint({*nouns} - {"back"})  # "my back aches"
    return is_named or not PRONOUNS.isdisjoint(clause[:1])
