"""Signs that a matter is settled: "it works again", "I found it, thanks".

Whoever is unsure is answered: each clause has to say so, or to say nothing more.
"""

from __future__ import annotations

import functools
import itertools
import re

from rejoinder.patterns import search_pattern
from rejoinder.text.courtesy import has_content
from rejoinder.text.signs.inflections import is_past, stem_of
from rejoinder.text.signs.lexicon import AUXILIARIES, BE, ENDS, HAVING, PHRASE, PLACED, SELF, TURNED
from rejoinder.text.signs.poles import MOVES
from rejoinder.text.signs.tokens import tokenize

MOST_WORDS = 30  # of a text; a longer one tells a story

_STATE_WORDS = """
clean quiet fast quick fine ok okay good great perfect normal stable online available correct up
back
"""  # behind "is"
_WELL_WORDS = "work function fix solve resolve sort settle restore succeed repair help"
_DONE_WORDS = "find receive get remember manage"
_ARRIVED_WORDS = "arrive come"
_FAILING_WORDS = """
fail crash hang freeze leak hurt lag smell flicker disconnect stop break refuse block lock lose miss
"""
_BAD_WORDS = """
error problem issue bug fault failure noise pain outage alert alarm warning wrong damage defective
empty late old twice only except charge other different same
"""
_OPEN_WORDS = """
no without nobody nothing but still yet however although if unless until want need please how why
when where what which who whether instead make let help try expect hope wish wait should would must
will since think
"""  # of what is asked, wished or not so
_PRAISE_WORDS = "great perfect super brilliant awesome excellent wonderful fantastic amazing"
_CASE_WORDS = "ticket case issue request message mail email it this that"
_STATES = frozenset(_STATE_WORDS.split())
_WELL = frozenset(map(stem_of, _WELL_WORDS.split()))
_DONE = frozenset(map(stem_of, _DONE_WORDS.split()))
_ARRIVED = frozenset(map(stem_of, _ARRIVED_WORDS.split()))
EVENTS = _DONE | _ARRIVED | MOVES
"""Stems of what may happen to any thing."""
_REPEATED = _ARRIVED | {stem_of("get"), stem_of("receive")}  # "again": once more
_FAILING = frozenset(map(stem_of, _FAILING_WORDS.split()))
_BAD = _FAILING | frozenset(map(stem_of, _BAD_WORDS.split()))
_OPEN = frozenset(_OPEN_WORDS.split())
_THANKS = frozenset(["thanks", "thank", "thx", "cheers"])
_PRAISE = frozenset(_PRAISE_WORDS.split())
_NEVER_MIND = ["not", "mind"]
_PERSONS = frozenset(["i", "we", "you", "he", "she", "they"])
_NEW_THING = frozenset(["a", "an", "some", "another", "to", "with", "out", "that"])
"""Behind "found", "arrived": perhaps a fault, or another matter."""
_ELSEWHERE = frozenset(["to", "at", "on", "in"])  # "back at the login page"
_SOLVED = search_pattern(
    r"(?i)\b(?:(?:the|my|our) )?(?:problem|issue|error|fault|bug)s?"
    r"(?: is| was| are| were| has been| have been)?(?: now| already)? (?:solved|fixed|resolved)\b"
    r"(?=\s*(?:\Z|[.,!;]| now| already| and| thank))"
)
_OVER = search_pattern(r"\b(?:no longer|any ?more)\b", re.IGNORECASE)
_PAST = frozenset(["was", "were"])
_MARKS = _THANKS | TURNED | _PAST | {"already", "done"}
_ABLE = (["could"], ["was", "able"], ["were", "able"], ["managed"])  # behind "i"
_PERMITTING = (["you", "can"], ["you", "may"], ["you", "could"])
_CLOSING = frozenset(["close", "ignore", "forget", "disregard"])
_CASE = frozenset(_CASE_WORDS.split())
_ASKING = frozenset(
    itertools.product(["can", "could", "will", "do", "did", "are", "am"], ["you", "i", "we"])
) | {("is", "it"), ("is", "there")}
_CLAUSE_ENDS = ENDS | {"and"}


@functools.lru_cache(maxsize=8192)
def is_settled(text: str, *, is_marked: bool = True) -> bool:
    """Return whether a text says that something works or was done, and asks nothing more.

    If `is_marked`, it has to say that this is new, "now" or "again", or give thanks, and name the
    thing as one that both sides know.
    """
    tokens = tokenize(_SOLVED.sub("it is solved now", text))
    if len(tokens) > MOST_WORDS or "?" in tokens or not _OPEN.isdisjoint(tokens):
        return False
    is_over = _OVER.search(text) is not None
    clauses = _clauses(tokens)
    is_praised = bool(clauses) and _is_praise(clauses[0])
    is_new = is_over or is_praised or not (TURNED | _THANKS).isdisjoint(tokens)
    if is_marked and not is_new:
        return False
    rest = [
        clause
        for clause in clauses
        if not (_is_settled(clause, is_marked=is_marked) or (is_over and _fails_not(clause)))
    ]
    return len(rest) < len(clauses) and all(map(_says_nothing_more, rest))


@functools.lru_cache(maxsize=8192)
def may_be_settled(text: str) -> bool:
    """Return whether a text may say that a matter is settled, by its words alone.

    It names no fault, asks and wishes nothing, and each clause that says something, one at least,
    tells what is new, was done or is well, or gives thanks.
    """
    tokens = tokenize(text)
    if not _OPEN.isdisjoint(tokens) or not _BAD.isdisjoint(map(stem_of, tokens)):
        return False
    clauses = _clauses(tokens)
    told = [clause for clause in clauses if _tells(clause)]
    rest = (clause for clause in clauses if clause not in told)
    return bool(told) and not any(has_content(" ".join(clause)) for clause in rest)


def _clauses(tokens: list[str]) -> list[list[str]]:
    groups = itertools.groupby(tokens, key=_CLAUSE_ENDS.__contains__)
    return [[*group] for is_end, group in groups if not is_end]


def _tells(clause: list[str]) -> bool:
    """Return whether a clause tells what is new, was done or is well, or gives thanks."""
    is_marked = not _MARKS.isdisjoint(clause) or any(map(is_past, clause))
    return is_marked or _is_well(clause, [stem_of(token) for token in clause])


def _is_settled(clause: list[str], *, is_marked: bool) -> bool:
    stems = [stem_of(token) for token in clause]
    is_told = clause[0] not in AUXILIARIES and _ASKING.isdisjoint(itertools.pairwise(clause))
    if not is_told or "not" in clause or not _BAD.isdisjoint(stems):
        return False
    return _is_well(clause, stems) or _is_done(clause, stems, is_marked=is_marked)


def _fails_not(clause: list[str]) -> bool:
    """Return whether a clause says that something does not fail."""
    pairs = itertools.pairwise(clause)
    return any(word == "not" and stem_of(following) in _FAILING for word, following in pairs)


def _is_well(clause: list[str], stems: list[str]) -> bool:
    """Return whether a clause says that something works, or is as it should be."""
    return any(
        (stem in _WELL and _has_subject(clause, position)) or _is_state(clause, position)
        for position, stem in enumerate(stems)
    )


def _has_subject(clause: list[str], position: int) -> bool:
    """Return whether a thing works: not "I work", nor "now restore it"."""
    before = clause[position - 1] if position else "now"
    is_bare = not clause[position].endswith(("s", "ed", "ing"))
    return before not in _PERSONS and not (is_bare and before in PHRASE)


def _is_state(clause: list[str], position: int) -> bool:
    """Return whether a word says how something is: "is clean", not "is back at the start"."""
    is_said = not BE.isdisjoint(clause[max(0, position - 2) : position])
    following = clause[position + 1 :]
    if clause[position] == "on" or following[:1] == ["on"]:  # "back on"
        return is_said and TURNED.issuperset(word for word in following if word != "on")
    is_elsewhere = not _ELSEWHERE.isdisjoint(following[:1])
    return clause[position] in _STATES and is_said and not is_elsewhere


def _is_done(clause: list[str], stems: list[str], *, is_marked: bool) -> bool:
    """Return whether a clause says that somebody could do, found or got something."""
    subject = next(
        (position for position, token in enumerate(clause) if token in SELF), len(clause)
    )
    following = clause[subject + 1 :]
    if any(following[: len(able)] == able for able in _ABLE):
        return True
    if "again" in clause and any(map(_is_repeated, clause, stems)):
        return False
    verbs = _DONE | _ARRIVED if SELF.isdisjoint(clause) else _DONE
    return any(
        stem in verbs
        and (not is_marked or _NEW_THING.isdisjoint(clause[position + 1 : position + 2]))
        for position, stem in enumerate(stems)
        if position and (clause[position] != stem or not HAVING.isdisjoint(clause[:position]))
    )


def _is_repeated(token: str, stem: str) -> bool:
    """Return whether "again" says of a word that it happened once more: "I received it again"."""
    return stem in _REPEATED and is_past(token)


def _is_praise(clause: list[str]) -> bool:
    """Return whether a clause says no more than "great", or "never mind"."""
    return clause == _NEVER_MIND or _PRAISE.issuperset(clause)


def _says_nothing_more(clause: list[str]) -> bool:
    """Return whether a clause is courtesy, tells the cause, or permits: "you can close it"."""
    if _is_praise(clause):
        return True
    if "not" in clause:
        return False
    pairs = itertools.pairwise(clause)
    is_cause = any(word in _PAST and following in PLACED for word, following in pairs)
    is_cause = is_cause and _BAD.isdisjoint(map(stem_of, clause))
    is_closed = not _CLOSING.isdisjoint(clause[2:4]) and not _CASE.isdisjoint(clause[3:])
    is_permitted = clause[:2] in _PERMITTING and is_closed
    return is_cause or is_permitted or not has_content(" ".join(clause))
