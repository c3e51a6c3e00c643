"""Whether a text says that a matter is settled: "it works again", "I found it, thanks"."""

from __future__ import annotations

import functools
import itertools
import re

from rejoinder.patterns import search_pattern
from rejoinder.text.courtesy import has_content
from rejoinder.text.signs.inflections import stem_of
from rejoinder.text.signs.lexicon import AUXILIARIES, BE, ENDS, HAVING, PHRASE, SELF, TURNED
from rejoinder.text.signs.tokens import tokenize

MOST_WORDS = 30  # of a text; a longer one tells a story

_STATE_WORDS = """
clean quiet fast quick fine ok okay good great perfect normal stable online available correct up
back
"""  # behind "is"
_WELL_WORDS = "work function fix solve resolve sort settle restore succeed repair"
_DONE_WORDS = "find receive get remember manage"
_ARRIVED_WORDS = "arrive come"
_FAILING_WORDS = """
fail crash hang freeze leak hurt lag smell flicker disconnect stop break refuse block lock lose miss
"""
_BAD_WORDS = """
error problem issue bug fault failure noise pain outage alert alarm warning wrong damage defective
empty late old twice only except charge
"""
_OPEN_WORDS = """
no without nobody nothing but still yet however although if unless until want need please how why
when where what which who whether instead make let help try expect hope wish wait should would must
will
"""  # of what is asked, wished or not so
_STATES = frozenset(_STATE_WORDS.split())
_WELL = frozenset(map(stem_of, _WELL_WORDS.split()))
_DONE = frozenset(map(stem_of, _DONE_WORDS.split()))
_ARRIVED = frozenset(map(stem_of, _ARRIVED_WORDS.split()))
_FAILING = frozenset(map(stem_of, _FAILING_WORDS.split()))
_BAD = _FAILING | frozenset(map(stem_of, _BAD_WORDS.split()))
_OPEN = frozenset(_OPEN_WORDS.split())
_THANKS = frozenset(["thanks", "thank", "thx", "cheers"])
_PERSONS = frozenset(["i", "we", "you", "he", "she", "they"])
_NEW_THING = frozenset(["a", "an", "some", "another", "to"])  # behind "found": perhaps a fault
_OVER = search_pattern(r"\b(?:no longer|any ?more)\b", re.IGNORECASE)
_PAST = frozenset(["was", "were"])
_ABLE = (["could"], ["was", "able"], ["were", "able"], ["managed"])  # behind "i"
_PERMITTING = (["you", "can"], ["you", "may"], ["you", "could"])
_ASKING = frozenset(
    itertools.product(["can", "could", "will", "do", "did", "are", "am"], ["you", "i", "we"])
) | {("is", "it"), ("is", "there")}


@functools.lru_cache(maxsize=8192)
def is_settled(text: str, *, is_marked: bool = True) -> bool:
    """Return whether a text says that something works or was done, and asks nothing more.

    If `is_marked`, it has to say that this is new, "now" or "again", or give thanks.
    """
    tokens = tokenize(text)
    if len(tokens) > MOST_WORDS or "?" in tokens or not _OPEN.isdisjoint(tokens):
        return False
    groups = itertools.groupby(tokens, key=ENDS.__contains__)
    clauses = [[*group] for is_end, group in groups if not is_end]
    is_thanked = not is_marked or not _THANKS.isdisjoint(tokens)
    is_over = _OVER.search(text) is not None
    rest = [
        clause
        for clause in clauses
        if not (_is_settled(clause, is_thanked=is_thanked) or (is_over and _fails_not(clause)))
    ]
    return len(rest) < len(clauses) and all(map(_says_nothing_more, rest))


def _is_settled(clause: list[str], *, is_thanked: bool) -> bool:
    stems = [stem_of(token) for token in clause]
    is_new = (is_thanked or not TURNED.isdisjoint(clause)) and "not" not in clause
    is_told = clause[0] not in AUXILIARIES and _ASKING.isdisjoint(itertools.pairwise(clause))
    is_plain = is_told and _BAD.isdisjoint(stems)
    return is_new and is_plain and (_is_well(clause, stems) or _is_done(clause, stems))


def _fails_not(clause: list[str]) -> bool:
    """Return whether a clause says that something does not fail."""
    pairs = itertools.pairwise(clause)
    return any(word == "not" and stem_of(following) in _FAILING for word, following in pairs)


def _is_well(clause: list[str], stems: list[str]) -> bool:
    """Return whether a clause says that something works, or is as it should be."""
    return any(
        (stem in _WELL and _has_subject(clause, place))
        or (clause[place] in _STATES and not BE.isdisjoint(clause[max(0, place - 2) : place]))
        for place, stem in enumerate(stems)
    )


def _has_subject(clause: list[str], place: int) -> bool:
    """Return whether a thing works: not "I work", nor "now restore it"."""
    before = clause[place - 1] if place else "now"
    is_bare = not clause[place].endswith(("s", "ed", "ing"))
    return before not in _PERSONS and not (is_bare and before in PHRASE)


def _is_done(clause: list[str], stems: list[str]) -> bool:
    """Return whether a clause says that somebody could do, found or got something."""
    subject = next((place for place, token in enumerate(clause) if token in SELF), len(clause))
    following = clause[subject + 1 :]
    if any(following[: len(able)] == able for able in _ABLE):
        return True
    if SELF.isdisjoint(clause) and not _ARRIVED.isdisjoint(stems[1:]):
        return True
    return any(
        stem in _DONE and _NEW_THING.isdisjoint(clause[place + 1 : place + 2])
        for place, stem in enumerate(stems)
        if place and (clause[place] != stem or not HAVING.isdisjoint(clause[:place]))
    )


def _says_nothing_more(clause: list[str]) -> bool:
    """Return whether a clause is courtesy, tells what was, or permits: "you can close it"."""
    is_past = not _PAST.isdisjoint(clause) and _BAD.isdisjoint(map(stem_of, clause))
    return is_past or clause[:2] in _PERMITTING or not has_content(" ".join(clause))
