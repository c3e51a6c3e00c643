"""Sentences of a message, as people type them."""

from __future__ import annotations

from rejoinder.patterns import search_pattern

MAX_WORDS = 40
"""Of a sentence; a longer one is cut at commas and conjunctions, or else anywhere."""
LEAST_PIECE = 6  # words between two such cuts
WRAPPED = 50  # letters of a line from which the next one goes on with its sentence

_END = search_pattern(r"(?<=[.!?\u2026\u3002\uff1f\uff01])[\"')\u201d\u2019]{0,3}+(?<!\s)\s++")
_SHORT_FORMS = """
mr. mrs. ms. dr. prof. st. no. nr. tel. vs. e.g. i.e. etc. approx. ca. inc. ltd. co. p.s. jan. feb.
mar. apr. jun. jul. aug. sep. sept. oct. nov. dec. a.m. p.m. u.s. u.k. eg. ie.
sr. sra. srta. dra. sig. bzw. z.b. d.h. evtl. ggf. mme. mlle. p.ej.
"""
_LINKS = "and but so because then also however or which while"
_ABBREVIATIONS = frozenset(_SHORT_FORMS.split())
_ENDS = (".", "!", "?", "\u2026", ":", ";", ",")
_CONJUNCTIONS = frozenset(_LINKS.split())


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, none of more than `MAX_WORDS` words."""
    found: list[str] = []
    for paragraph in _paragraphs(text):
        start = 0
        for match in _END.finditer(paragraph):
            piece = paragraph[start : match.start()]
            if piece.rpartition(" ")[2].lower() in _ABBREVIATIONS:
                continue
            found.append(paragraph[start : match.end()].strip())
            start = match.end()
        found.append(paragraph[start:].strip())
    return [piece for sentence in found if sentence for piece in _cut(sentence)]


def _paragraphs(text: str) -> list[str]:
    """Return the lines of a text, those of a wrapped paragraph as one."""
    joined: list[str] = []
    is_open = False  # the line before goes on
    for raw in text.split("\n"):
        line = raw.strip()
        if is_open and line:
            joined[-1] += " " + line
        elif line:
            joined.append(line)
        is_open = len(line) >= WRAPPED and not line.endswith(_ENDS[:4])
    return joined


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
