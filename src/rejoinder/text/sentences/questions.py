"""Questions and wishes within a sentence.

"I moved last week, is there parking?" as a whole is read for the move most.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rejoinder.patterns import search_pattern
from rejoinder.text.courtesy import denies, has_content, words

LEAST_BEFORE = 3  # words before a question within a sentence
LEAST_QUESTION = 4  # words of it
ELLIPTICAL = 2  # words of a question without a verb
_FAR = 3  # words between an interrogative and its verb: "which two forms do I need"
_LINK = (
    r"(?:and|but|or|so(?! (?:that|far|long|many|much|as|called)\b)|also|then|[-\u2013\u2014]{1,2})"
)
_JOINT = search_pattern(
    rf"\s(?:(?<=[,;:]\s)\s*+|(?<!\s\s)\s*+(?=(?i:{_LINK})\s))(?:(?i:{_LINK})\s++)*+"
)
_EDGES = " ,;:-\u2013\u2014"
_OPENING_WORDS = "and but or so also still ok okay then well - \u2013 \u2014 --"
_OF_HOW_WORDS = "much many long often far early late soon old big expensive about"
_AUXILIARY_WORDS = """
can could do does did is are am was were will would should shall may have has had must
can't couldn't don't doesn't didn't isn't aren't won't wouldn't shouldn't haven't hasn't
"""
_SUBJECT_WORDS = """
i you u we it they he she there this that these those the my your our his her their a an any
anyone anybody someone somebody everyone
"""
_PARTICIPLE_WORDS = """
been begun bought brought built broken caught chosen come cut done drawn driven eaten fallen felt
forgotten found frozen given gone got gotten grown had heard held hidden kept known left lost made
met paid put read risen run said seen sent set shown shut sold spent spoken stolen stood taken
thought thrown told understood withdrawn woken won worn written
"""
_INTERROGATIVES = frozenset(
    ["how", "what", "when", "where", "why", "who", "which", "whose", "whom"]
)
_ASKING = frozenset(["what's", "where's", "who's", "when's", "how's"])
_OF_HOW = frozenset(_OF_HOW_WORDS.split())
_OPENING = frozenset(_OPENING_WORDS.split())
_HAVING = frozenset(["have", "has", "had"])
_DETERMINERS = frozenset(["the", "my", "our", "his", "her", "their", "your", "these", "those"])
_EVER = frozenset(["already", "been", "ever", "yet"])
_PARTICIPLES = frozenset(_PARTICIPLE_WORDS.split())
_AUXILIARIES = frozenset(_AUXILIARY_WORDS.split())
_SUBJECTS = frozenset(_SUBJECT_WORDS.split())
_WISHES = [
    ["want", "to"],
    ["need", "to"],
    ["wish", "to"],
    ["would", "like"],
    ["would", "love"],
    ["tell", "me"],
    ["let", "me"],
    ["have", "a", "look"],
]
_RELATIVES = frozenset(["which", "who", "whose"])
_ASKED_OF = frozenset(["i", "you", "u", "we", "they"])  # behind the verb of a question
_PREDICATE_WORDS = "a an also not quite rather really so too totally very well why"
_PREDICATES = frozenset(_PREDICATE_WORDS.split())  # behind the verb of what is told
_NEEDING = frozenset(["want", "need"])
_THINGS = frozenset(["a", "an", "the", "my", "our", "some", "another"])  # what is needed
_CLAUSE = 9  # words in which a participle stands behind "have the"
_MARKS = " .!\u2026"


def with_mark(sentence: str) -> str:
    """Return a sentence with a question mark, if it is a question without one."""
    text = sentence.rstrip(_MARKS)
    is_marked = text.endswith(("?", "\uff1f"))
    return sentence if is_marked or not is_question(words(text)) else f"{text}?"


def question_clauses(sentence: str) -> list[str]:
    """Return a sentence cut where a question or a wish begins in it; [] if none does within it.

    Each question gets its mark, and what is before one has some words of content. So is cut what is
    told behind a denial, "I have not lost it, but it does not fit", and the denial left out.
    """
    pieces: list[str] = []
    start = 0
    for joint in _JOINT.finditer(sentence):
        before = sentence[start : joint.start()]
        tokens = words(sentence[joint.end() :])
        if len(tokens) < LEAST_QUESTION:
            continue
        if _tells_more(joint[0].lower().split(), tokens, sentence):
            continue
        is_short = _asks_shortly(tokens) and sentence.endswith(("?", "\uff1f"))
        is_asked = is_short or is_question(tokens) or is_wish(tokens)
        if not is_asked and not (_tells(tokens) and denies(before)):
            continue
        has_room = len(words(before)) >= LEAST_BEFORE and has_content(before)
        if has_room and has_content(sentence[joint.end() :]):
            pieces += [before.strip(_EDGES)] if is_asked else []
            start = joint.end()
    return [with_mark(piece) for piece in (*pieces, sentence[start:])] if start else []


def _tells_more(links: Sequence[str], tokens: Sequence[str], sentence: str) -> bool:
    """Return whether a clause with the words of a question tells more of what is before it.

    So do "and so did my wife" and ", which is a pity.", in a sentence that does not ask.
    """
    if sentence.endswith(("?", "\uff1f")):
        return False
    is_told = sentence.endswith((".", "!"))
    if "so" in links:
        is_alike = tokens[0] in _AUXILIARIES and tokens[1] not in _ASKED_OF
        return is_alike and (is_told or "and" in links)
    is_of_it = tokens[1] in _AUXILIARIES or tokens[0] == "whose"
    is_relative = not links and tokens[0] in _RELATIVES and is_of_it
    return is_relative and (tokens[2] in _PREDICATES or (is_told and tokens[2] not in _ASKED_OF))


def is_elliptical(sentence: str) -> bool:
    """Return whether a sentence asks for one of some things by a word alone: "Which lamp?"."""
    tokens = words(sentence)
    return len(tokens) == ELLIPTICAL and tokens[0] in ("what", "which", "whose")


def _asks_shortly(tokens: Sequence[str]) -> bool:
    """Return whether words begin as a question without a verb does: "so why the fee"."""
    first = next(itertools.dropwhile(_OPENING.__contains__, tokens), "")
    return first in _INTERROGATIVES


def _tells(tokens: Sequence[str]) -> bool:
    """Return whether words begin with the subject of a clause: "but the amount is wrong"."""
    first = next(itertools.dropwhile(_OPENING.__contains__, tokens), "")
    return first.partition("'")[0] in _SUBJECTS


def is_wish(said: Sequence[str]) -> bool:
    """Return whether words begin with a wish or request: "I'd like", "and need a", "please"."""
    rest = list(itertools.dropwhile(_OPENING.__contains__, said))
    if rest[:1] == ["i"]:
        del rest[0]
    elif rest[:1] == ["i'd"]:
        rest[0] = "would"
    is_needed = not _NEEDING.isdisjoint(rest[:1]) and not _THINGS.isdisjoint(rest[1:2])
    return is_needed or rest[:1] == ["please"] or any(rest[: len(wish)] == wish for wish in _WISHES)


def is_question(said: Sequence[str]) -> bool:
    """Return whether words are in the order of a question; "when I came" and "do not" are none."""
    first = next(
        (position for position, word in enumerate(said) if word not in _OPENING), len(said)
    )
    asked = said[first : first + _FAR + 2]
    if len(asked) < 2:
        return False
    if asked[0] in _AUXILIARIES:
        return asked[1] in _SUBJECTS and not _has_thing(said[first:])
    if (
        asked[0] in _ASKING
        or (asked[0] == "how" and asked[1] in _OF_HOW)
        or asked[:2] == ("what", "about")
    ):
        return True
    verb = next((position for position, word in enumerate(asked) if word in _AUXILIARIES), None)
    return asked[0] in _INTERROGATIVES and verb is not None and _SUBJECTS.isdisjoint(asked[:verb])


def _has_thing(tokens: Sequence[str]) -> bool:
    """Return whether words say what one has or should have: "have a look", "have the driver call".

    With a participle they ask: "have the tickets come", "has a plug ever come".
    """
    if tokens[0] not in _HAVING or tokens[1] not in (*_DETERMINERS, "a", "an"):
        return False
    later = tokens[3:_CLAUSE]
    if tokens[1] not in _DETERMINERS:
        return _EVER.isdisjoint(later)
    return not any(map(_is_participle, later))


def _is_participle(word: str) -> bool:
    """Return whether a word has the form of a participle, as "come" or "arrived" has."""
    return word in _PARTICIPLES or (word.endswith("ed") and not word.endswith("eed"))
