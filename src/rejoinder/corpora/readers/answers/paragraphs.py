"""Paragraphs of a text, and which of them begin with a question or name a category."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rejoinder.corpora.readers.answers.questions import MARKS_OF_QUESTIONS, without_number
from rejoinder.patterns import match_pattern

_RULE = match_pattern(r"[\s*_=~.#-]{3,}")
_CATEGORY = match_pattern(r"[^\W\d_][^\d.!?:;,/@]{1,40}")
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


def question_of(line: str) -> str:
    """Return a line without its number if it asks, else nothing."""
    text = without_number(line)
    return text if text.endswith(MARKS_OF_QUESTIONS) else ""


def category_of(lines: Sequence[str]) -> str:
    """Return the category that a paragraph names, as a heading does; "": it is a text."""
    text = lines[0].strip(" \t*_#") if len(lines) == 1 else ""
    words = text.split()
    is_short = 0 < len(words) <= _MOST_WORDS and _CATEGORY.fullmatch(text) is not None
    is_title = all(word[0].isupper() or len(word) < 4 for word in words)
    return text if is_short and is_title else ""
