"""Courtesy in the sentence of a question: "Hi, my name is Kim, where is my parcel, thanks"."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

from rejoinder.patterns import match_pattern, search_pattern
from rejoinder.text.courtesy import (
    calls,
    denies,
    gives_thanks,
    has_content,
    is_courteous,
    is_thanks,
    words,
)
from rejoinder.text.mails.courtesy import greets_group, is_name
from rejoinder.text.sentences.openings import count_opening
from rejoinder.text.sentences.questions import is_question

LEAST_WORDS = 3  # of what is left of a sentence
KEPT = 256  # sentences and clauses: those of a message are judged several times in a row
MOST_NAMES = 3  # words of a name
_EDGES = " ,;:-\u2013\u2014"
_DASHES = ("-", "\u2013", "\u2014")
_MARKS = " .!"
_BREAK = search_pattern(r"\s(?:(?<=[,;:!]\s)\s*+|(?<!\s\s)\s*+[-\u2013\u2014]{1,2}\s++)")
_NAMING = match_pattern(r"(?i:(?:and |so )?+(?:i am|i'm|this is)\b)")
_NAMED = match_pattern(
    rf"(?i:(?:and |so )?+my name(?: is|'s))(?:\s++\S++){{1,{MOST_NAMES}}}+\s*+\Z"
)
_LEAD_IN = match_pattern(
    r"(?i:(?:and |but |just |only |also )*+(?:one|another|a|two|three|some|several)"
    r"(?: (?:more|other|few|last|final|quick|short|small))*+ (?:thing|question)s?"
    r"(?: though| please)?)"
)
_THANKING = "thanks thank thankyou thx thnx thanx ty tia ta cheers xx xxx"
_THANKS = frozenset(_THANKING.split())
_CLOSING = frozenset(["best", "kind", "regards", "kr"])  # before a name
_CALLING = frozenset(["please", "pls", "any", "let"])  # "any ideas", "let me know"
_HASTE = frozenset(["please", "pls", "plz", "asap"])  # ends a question; a demand is one by it
_LAST = _THANKS | _CLOSING | _CALLING | _HASTE  # of which one begins courtesy at the end


def without_courtesy(sentence: str) -> str:
    """Return a sentence without what is courteous at its beginning and its end.

    These are clauses between commas or dashes: courtesy in front, thanks behind; and a greeting
    without a comma. A sentence of which less than three words would be left stays as it is.
    """
    clauses = list(_clauses(sentence))
    del clauses[: _count_courtesy(clauses)]
    if _is_signed(clauses):
        del clauses[-1]
    while len(clauses) > 1 and _is_courtesy(clauses[-1], is_thanks):
        del clauses[-1]
    rest = _without_ending("".join(clauses).strip(_EDGES))
    rest = rest[count_opening(rest) :]
    if len(rest) == len(sentence.strip(_EDGES)):
        return sentence
    return rest if len(words(rest)) >= LEAST_WORDS and has_content(rest) else sentence


def begins_with_greeting(sentence: str) -> bool:
    """Return whether a sentence has a greeting in front, or what only opens it: "ok so"."""
    clauses = _clauses(sentence)
    front = "".join(clauses[: _count_courtesy(clauses)])
    return bool(front and not gives_thanks(front)) or count_opening(sentence) > 0


def _count_courtesy(clauses: Sequence[str]) -> int:
    """Return how many clauses in front are courtesy; the last one is not counted."""
    told = (
        position
        for position, clause in enumerate(clauses)
        if not (_is_courtesy(clause, is_courteous) or greets_group(clause.strip()))
    )
    return min(next(told, len(clauses)), len(clauses) - 1)


@functools.lru_cache(maxsize=KEPT)
def is_courtesy(sentence: str) -> bool:
    """Return whether a sentence is courtesy alone, or says a name: "Hi, I'm Kim.", "Cheers Kim"."""
    plain = sentence.rstrip(_MARKS)
    is_haste = _HASTE.issuperset(words(plain))
    return is_haste or all(_is_courtesy(clause, is_courteous) for clause in _clauses(plain))


def _without_ending(sentence: str) -> str:
    """Return a sentence without thanks at its end that no comma sets apart."""
    tokens = sentence.split()
    for position in range(LEAST_WORDS, len(tokens)):
        word = tokens[position].lower().strip("!.,")
        ending = " ".join(tokens[position:]) if word in _LAST else ""
        is_call = word in _CALLING and has_content(tokens[position - 1]) and calls(ending)
        if is_call or (ending and _ends(word, ending, sentence)):
            return " ".join(tokens[:position]).strip(_EDGES)
    return sentence


def _ends(word: str, ending: str, sentence: str) -> bool:
    """Return whether the end of a sentence is courtesy, by its first word: "cheers Kim"."""
    if word in _CLOSING:
        return _is_signature(ending)
    if word in _THANKS and _is_courtesy(ending, is_thanks):
        return True
    is_haste = word == "asap" or (word in _HASTE and is_question(words(sentence)))
    return (is_haste or word in _THANKS) and not (has_content(ending) or denies(ending))


def _is_signed(clauses: Sequence[str]) -> bool:
    """Return whether the last clause is a name behind a dash, or behind thanks."""
    if len(clauses) < 2 or not _is_name(clauses[-1]):
        return False
    is_dashed = clauses[-2].rstrip().endswith(_DASHES)
    return is_dashed or (len(clauses) > 2 and _is_courtesy(clauses[-2], is_thanks))


def _is_signature(ending: str) -> bool:
    """Return whether the end of a text is a name behind a formula: "Best, Kim"."""
    return has_content(ending) and _is_courtesy(ending, is_courteous)


@functools.lru_cache(maxsize=KEPT)
def _clauses(sentence: str) -> tuple[str, ...]:
    """Return the clauses of a sentence, each with the break behind it."""
    ends = [match.end() for match in _BREAK.finditer(sentence)]
    if not ends:
        return (sentence,)
    return tuple(
        sentence[start:end] for start, end in itertools.pairwise([0, *ends, len(sentence)])
    )


@functools.lru_cache(maxsize=KEPT)
def _is_courtesy(clause: str, judge: Callable[[str], bool]) -> bool:
    """Return whether a clause is courtesy, as `judge` says, or says a name, or both."""
    if (
        judge(clause)
        or calls(clause)
        or _NAMED.match(clause)
        or _LEAD_IN.fullmatch(clause.strip(_EDGES))
    ):
        return True
    naming = _NAMING.match(clause)
    if naming and _is_name(clause[naming.end() :]):
        return True
    tokens = clause.split()
    first = next(
        (position for position, word in enumerate(tokens) if has_content(word)), len(tokens)
    )
    has_room = len(tokens) - first <= MOST_NAMES
    return has_room and judge(" ".join(tokens[:first])) and _is_name(" ".join(tokens[first:]))


def _is_name(clause: str) -> bool:
    """Return whether a clause is one to three words of a name."""
    if len(clause.split()) > MOST_NAMES:
        return False
    return not any(letter.isdigit() for letter in clause) and is_name(clause)
