"""Sentences of a message, as people type them."""

from __future__ import annotations

import re

from rejoinder.patterns import match_pattern, search_pattern
from rejoinder.text.courtesy import asks, has_content, words
from rejoinder.text.mails.courtesy import FIRST_PERSON, is_name
from rejoinder.text.sentences.questions import is_question

MAX_WORDS = 40
"""Of a sentence; a longer one is cut at commas and conjunctions, or else anywhere."""
LEAST_PIECE = 6  # words between two such cuts
MAX_FIRST = 40  # letters looked at of a sentence's beginning
LONGEST_SUFFIX = 4  # letters of "Js" or "html"
WRAPPED = 50  # letters of a line from which the next one goes on with its sentence

_END = search_pattern(r"(?<=[.!?\u2026\u3002\uff1f\uff01])[\"')\]\u201d\u2019]{0,3}+(?<!\s)\s++")
_GLUED = search_pattern(  # two sentences without a blank, no address and no number
    r"(?<![\w@/.=-])([^\W\d_]{1,30})(?:([!?])(?=[^\W\d_]{1,30}(?![\w@/=]))"
    r"|\.(?=([^\W\d_]{1,30})(?![\w@/=-]|\.\w)))"
)
_MARK_BEFORE_LETTER = search_pattern(r"[.!?](?=[^\W\d_])")
_BULLET = match_pattern(r"(?:[-*+\u2022\u00b7\u25aa\u25e6\u2023\u2013\u2014]|\d{1,2}[.)])[ \t]")
_INITIAL = match_pattern(r"\(?[^\W\d_a-zI]\.")
_NUMBER = match_pattern(r"\d{1,2}\.")  # of an item
_NAMING = """
mr. mrs. ms. dr. prof. st. vs. e.g. i.e. eg. ie. co. p.s. u.s. u.k.
sr. sra. srta. dra. sig. bzw. z.b. d.h. evtl. ggf. mme. mlle. p.ej.
"""
_NUMBERING = "no. nr. jan. feb. mar. apr. jun. jul. aug. sep. sept. oct. nov. dec."
_JOINING = "tel. etc. approx. ca. inc. incl. excl. ltd. a.m. p.m."
_COUNTING = "sec. secs. min. mins. hr. hrs. yr. yrs. max. dept."
_LINKS = "and but so because then also however or which while"
_BEFORE_ALL = frozenset(_NAMING.split())
_BEFORE_DIGITS = frozenset(_NUMBERING.split())
_BEFORE_SMALL = frozenset(_JOINING.split())
_BEFORE_LOWER = frozenset(_COUNTING.split())
_UNIT_WORDS = """
a at for from in of on per to until with ago late later early earlier before after long away each
walk drive ride break slot session delay
"""
_BEHIND_UNITS = frozenset(_UNIT_WORDS.split())
_BEFORE_NAMES = frozenset(["and", "by", "to", "for", "from", "of", "with"])
_STREET = "str."  # of Germany, before its number
_ENDS = (".", "!", "?", "\u2026", ":", ";", ",")
_CLOSING = "\"'*_)]\u201d\u2019"  # behind a mark
_BRACKETS = {")": "(", "]": "["}
_OPENING_WORDS = "i we my how what when where why who can could do does is are please"
_OPENING = frozenset(_OPENING_WORDS.split())  # of a sentence, more than of the rest of one
_CONJUNCTIONS = frozenset(_LINKS.split())


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, none of more than `MAX_WORDS` words."""
    sentences: list[str] = []
    for paragraph in map(_with_blanks, _paragraphs(text)):
        start = 0
        for match in _END.finditer(paragraph):
            number = paragraph[start : min(start + 4, match.start())]
            is_number = _NUMBER.fullmatch(number) is not None
            if is_number or _is_bracketed(paragraph, start, match):
                continue
            if _is_abbreviated(paragraph, start, match):
                continue
            sentences.append(paragraph[start : match.end()].strip())
            start = match.end()
        sentences.append(paragraph[start:].strip())
    return [piece for sentence in sentences if sentence for piece in _cut(sentence)]


def _is_bracketed(paragraph: str, start: int, end: re.Match[str]) -> bool:
    """Return whether a mark stands at the end of brackets within a sentence that goes on.

    Before "i need", "how do" or "please" another one begins, also in small letters.
    """
    opening = next((_BRACKETS[letter] for letter in end[0] if letter in _BRACKETS), None)
    behind = paragraph[end.end() : end.end() + MAX_FIRST].split(" ", 1)[0]
    if opening is None or not behind[:1].islower() or behind.partition("'")[0] in _OPENING:
        return False
    return paragraph.rfind(opening, start, end.start()) > start


def _is_abbreviated(paragraph: str, start: int, end: re.Match[str]) -> bool:
    """Return whether a stop is that of an abbreviation, by what stands around it."""
    first = paragraph.rfind(" ", start, end.start()) + 1
    written = paragraph[max(first, start) : end.start()]
    word = written.lower()
    before = paragraph[max(start, first - MAX_FIRST) : first].split()[-1:]
    following = paragraph[end.end() : end.end() + MAX_FIRST].partition(" ")[0]
    if word in _BEFORE_LOWER or word.endswith(_STREET):
        is_unit = word in _BEFORE_LOWER and _follows_unit(before, following)
        return is_unit or following[:1].isdigit()
    if _INITIAL.fullmatch(written):
        return _is_named(before, following)
    begins = _begins(paragraph, end.end())
    if word in _BEFORE_DIGITS:
        is_day = first > start + 1 and paragraph[first - 2].isdigit()
        is_number = any(letter.isdigit() for letter in paragraph[end.end() : end.end() + 2])
        return is_number or (is_day and not begins)
    return word in _BEFORE_ALL or (word in _BEFORE_SMALL and not begins)


def _follows_unit(before: list[str], following: str) -> bool:
    """Return whether a word goes on behind "10 min." or "max.", with no sentence of its own."""
    is_counted = bool(before) and before[0][0].isdigit()
    is_of_unit = following.rstrip(",.?!") in _BEHIND_UNITS
    return following[:1].islower() and (is_of_unit or (not is_counted and has_content(following)))


def _is_named(before: list[str], following: str) -> bool:
    """Return whether an initial is that of a name, by the words around it."""
    is_apart = not before or before[0].endswith((",", ":", ";", "&"))
    if not is_apart and not before[0][0].isupper() and before[0] not in _BEFORE_NAMES:
        return False
    is_listed = is_apart and following[:1].isupper() and following.endswith(",")
    is_surname = has_content(following) and (is_name(following) or is_listed)
    return is_surname or _INITIAL.fullmatch(following) is not None


def _begins(paragraph: str, start: int) -> bool:
    """Return whether a sentence begins somewhere: with a capital letter, and no name or date."""
    if not paragraph[start : start + 1].isupper():
        return False
    following = paragraph[start : start + MAX_FIRST].split()
    first = following[0].rstrip("?!.,;:\uff1f")
    is_date = first == "May" and len(following) > 1 and following[1][0].isdigit()
    return not is_date and (asks(first) or not has_content(first))


def _with_blanks(paragraph: str) -> str:
    """Return a paragraph with a blank between sentences that were typed without one."""
    is_any = _MARK_BEFORE_LETTER.search(paragraph) is not None
    return _GLUED.sub(_with_blank, paragraph) if is_any else paragraph


def _with_blank(match: re.Match[str]) -> str:
    """Return the last word of a sentence with a blank, or "Node." of Node.Js as it is.

    A word that begins a sentence asks or says nothing by itself. Another one is longer than names
    of domains and of kinds of files are, and a small letter begins the word before.
    """
    before, mark, following = match.groups()
    if mark:
        is_end = match.string[match.end()].isupper()
    else:
        is_first = asks(following) or not has_content(following)
        is_long = len(following) > LONGEST_SUFFIX and before[0].islower()
        is_end = following[0].isupper() and (is_first or is_long)
    return f"{match[0]} " if is_end and before[-1].islower() else match[0]


def _paragraphs(text: str) -> list[str]:
    """Return the lines of a text, those of a wrapped paragraph as one, of a list one by one."""
    joined: list[str] = []
    above = ""
    for raw in text.split("\n"):
        line = raw.strip()
        if above and line and _is_wrapped(above, line, joined[-1]):
            joined[-1] += " " + line
        elif line:
            joined.append(line)
        above = line
    return joined


def _is_wrapped(above: str, line: str, paragraph: str) -> bool:
    """Return whether a line goes on with the sentence of the one above it.

    That one has no mark at its end, and is long, or its paragraph began with a capital letter as
    this line does not. What begins a question, or speaks of "i", begins a sentence.
    """
    if above.rstrip(_CLOSING).endswith(_ENDS[:4]) or _BULLET.match(line):
        return False
    if len(above) >= WRAPPED:
        return True
    tokens = words(line)
    is_small = paragraph[0].isupper() and line[0].islower()
    return is_small and FIRST_PERSON.isdisjoint(tokens[:1]) and not is_question(tokens)


def _cut(sentence: str) -> list[str]:
    words = sentence.split()
    if len(words) <= MAX_WORDS:
        return [sentence]
    pieces: list[list[str]] = [[]]
    for word in words:
        here = pieces[-1]
        is_break = word.lower() in _CONJUNCTIONS or (bool(here) and here[-1].endswith(_ENDS))
        if len(here) >= (LEAST_PIECE if is_break else MAX_WORDS // 2):
            pieces.append([word])
        else:
            here.append(word)
    return [" ".join(piece) for piece in pieces]
