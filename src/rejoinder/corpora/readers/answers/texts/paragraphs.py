"""Paragraphs of a text, and which of them begin with a question or name a category."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence

from rejoinder.corpora.readers.answers.texts.askers import KEPT, SHORT, is_of_agent, is_of_customer
from rejoinder.corpora.readers.answers.texts.marks import AROUND, asks, without_number
from rejoinder.patterns import match_pattern, search_pattern

_RULE = match_pattern(r"[\s*_=~.#-]{3,}")
_CATEGORY = match_pattern(r"[^\W\d_][^\d.!?:;,/@]{1,40}")
_SENTENCE_END = search_pattern(r"[^\W\d_]{2}[.!?]\s++\S")
_MOST_WORDS = 4  # of a category


def paragraphs_of(lines: Iterable[str]) -> list[list[str]]:
    """Return lines by the blank lines and the rules between them."""
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line.strip() and not _RULE.fullmatch(line):
            paragraphs[-1].append(line)
        elif paragraphs[-1]:
            paragraphs.append([])
    return paragraphs if paragraphs[-1] else paragraphs[:-1]


def turns_of(paragraphs: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return paragraphs, of which those with several questions and answers are one for each.

    Where blank lines part most questions, one within a paragraph is of its answer, unless a
    customer asks it.
    """
    parted = [_turns_of_paragraph(lines, may_alternate=True) for lines in paragraphs]
    by_turns = [
        len(turns) > 1
        for lines, turns in zip(paragraphs, parted, strict=True)
        if len(lines) > 1 and opening_question(lines[0])
    ]
    if 2 * sum(by_turns) <= len(by_turns):
        parted = [_turns_of_paragraph(lines, may_alternate=False) for lines in paragraphs]
    return list(itertools.chain.from_iterable(parted))


def _turns_of_paragraph(lines: Sequence[str], *, may_alternate: bool) -> list[list[str]]:
    """Return the turns of a paragraph that begins with a question, or with a title above one.

    A question begins a turn if a customer asks it, or where questions and single lines alternate
    and `may_alternate` says that they may.
    """
    if len(lines) > 1 and category_of(lines[:1]) and is_lone_question(lines[1]):
        rest = _turns_of_paragraph(lines[1:], may_alternate=may_alternate)
        return [list(lines[:1]), *rest]
    if not opening_question(lines[0]):
        return [list(lines)]
    asked = [True, *map(is_lone_question, lines[1:])]
    answers = sum(not is_asked for is_asked in asked)
    starts = [place for place in range(1, len(lines)) if asked[place] and not asked[place - 1]]
    alternates = may_alternate and answers == len(starts) + 1 and not asked[-1]
    if asked[-1] and starts:  # nothing answers it
        starts.pop()
    starts = [
        place
        for place in starts
        if (alternates or is_of_customer(lines[place])) and not is_of_agent(lines[place])
    ]
    bounds = zip([0, *starts], [*starts, len(lines)], strict=True)
    return [list(lines[start:end]) for start, end in bounds]


def question_of(line: str) -> str:
    """Return a line without its number if it asks, else nothing."""
    return without_number(line) if asks(line.rstrip(AROUND)) else ""


def opening_question(line: str) -> str:
    """Return the question with which a paragraph begins an entry, else nothing.

    Behind another sentence it is a customer's: "I lost my card. What now?", and not "Wait. Does it
    blink?" of an answer.
    """
    return _known_opening(line) if len(line) <= SHORT else _opening(line)


def is_lone_question(line: str) -> bool:
    """Return whether a line is a question alone, without a sentence before it."""
    return _is_known_lone(line) if len(line) <= SHORT else _is_lone(question_of(line))


def _opening(line: str) -> str:
    question = question_of(line)
    return question if _is_lone(question) or is_of_customer(question) else ""


def _is_lone(question: str) -> bool:
    return bool(question) and _SENTENCE_END.search(question) is None


@functools.lru_cache(maxsize=KEPT)
def _known_opening(line: str) -> str:
    return _opening(line)


@functools.lru_cache(maxsize=KEPT)
def _is_known_lone(line: str) -> bool:
    return _is_lone(question_of(line))


def category_of(lines: Sequence[str]) -> str:
    """Return the category that a paragraph names, as a heading does; "": it is a text."""
    if len(lines) > 1:
        return ""
    text = lines[0].strip(" \t*_#")
    if not _CATEGORY.fullmatch(text):
        return ""
    words = text.split()
    is_title = all(word[0].isupper() or len(word) < 4 for word in words)
    return text if is_title and len(words) <= _MOST_WORDS else ""
