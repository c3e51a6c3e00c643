"""Marks of questions and answers, such as "Q:" and "A2)", and the pair of them that a text has.

Letters before a colon, a dash, a dot or a bracket also begin the items of lists. So a text has one
pair of marks: that of its first question and of the answer to it. Other letters are text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rejoinder.patterns import match_pattern

MARKS_OF_QUESTIONS = ("?", "\uff1f", "\u061f")
_MARK = match_pattern(
    r"[\s*_#>-]{0,12}(?:\d{1,4}[.)]\s{0,3})?[*_]{0,3}"
    r"(?:((?i:question|frage|pregunta|pergunta)|[QF])"
    r"|((?i:answer|ans|antwort|respuesta|resposta|r[eé]ponse)|[AR]))"
    r"\s?\d{0,4}[*_]{0,3}"
    r"(?:\s?([:\uff1a])[*_]{0,3}|\s([-\u2013])(?=\s)|([.)])[*_]{0,3}(?=\s|$))(?:\s*(\S.*)|\s*)"
)
_NUMBER = match_pattern(r"[\s*_#>-]{0,12}(?:\d{1,4}[.)]\s)?\s{0,9}[*_]{0,3}(\S.*)")
AROUND = " \t*_"  # lines: blanks, and the signs of bold type
_COLON = ":"
_OF_LISTS = frozenset(".)")  # signs that number items as often as they mark questions
_LEAST_ANSWERED = 0.8  # of the questions, and of the answers
_LEAST_ASKING = 0.5  # of the questions with a sign of lists


class Mark(NamedTuple):
    """The mark of a line, and what stands behind it."""

    is_question: bool
    letter: str  # the first of its word: those of "Q" and "Question" are one
    sign: str
    text: str
    word: str


def mark_of(line: str) -> Mark | None:
    """Return the mark with which a line begins: "Q:", "Answer 2:", "R -", "A)"; None: no mark."""
    match = _MARK.fullmatch(line)
    if match is None:
        return None
    word = match[1] or match[2]
    sign = _COLON if match[3] else "-" if match[4] else match[5]
    text = (match[6] or "").strip(" \t*_")
    return Mark(match[1] is not None, word[0].upper(), sign, text, word)


def asks(text: str) -> bool:
    """Return whether a text ends with a question mark."""
    return text.endswith(MARKS_OF_QUESTIONS)


def without_number(line: str) -> str:
    """Return a line without the number or the signs before it, and those of bold type around it."""
    match = _NUMBER.fullmatch(line.rstrip(AROUND))
    return match[1] if match else ""


def without_marks(question: str, answer: str) -> tuple[str, str]:
    """Return a question and its answer without their marks.

    A letter alone before an answer is its mark if the question has one, or if it is an A.
    """
    mark = mark_of(question)
    is_marked = mark is not None and mark.is_question and (mark.sign == _COLON or asks(mark.text))
    if mark is not None and is_marked:
        question = mark.text
    first, line_break, rest = answer.partition("\n")
    answer_mark = mark_of(first)
    if answer_mark is None or answer_mark.is_question:
        return question, answer
    is_clear = answer_mark.letter == "A" or len(answer_mark.word) > 1
    is_usual = is_clear and answer_mark.sign == _COLON
    is_pair = is_marked and mark is not None and answer_mark.sign in (_COLON, mark.sign)
    if is_usual or is_pair:
        answer = f"{answer_mark.text}{line_break}{rest}".strip()
    return question, answer


@dataclass(frozen=True, slots=True)
class MarkPair:
    """The marks that the questions and the answers of a text have: letter and sign of each."""

    question: tuple[str, str]
    answer: tuple[str, str]

    def mark_of(self, line: str, *, is_due: bool) -> Mark | None:
        """Return the mark of a line; `is_due`: the mark before it was that of a question."""
        return self._own(mark_of(line), is_due=is_due)

    def marks(self, lines: Iterable[str]) -> list[Mark | None]:
        """Return the mark of each line that is not blank."""
        return self.own_marks(map(mark_of, filter(str.strip, lines)))

    def own_marks(self, marks: Iterable[Mark | None]) -> list[Mark | None]:
        """Return the marks of successive lines, without those that are not of this pair."""
        own_marks: list[Mark | None] = []
        is_due = False
        for mark in marks:
            own = self._own(mark, is_due=is_due)
            is_due = own.is_question if own else is_due
            own_marks.append(own)
        return own_marks

    def _own(self, mark: Mark | None, *, is_due: bool) -> Mark | None:
        """Return a mark if it is of this pair.

        Of other pairs, as a text in two languages has them, marks with a colon count: of a line
        that asks, and of the answer to it.
        """
        if mark is None:
            return None
        key = (mark.letter, mark.sign)
        has_colon = mark.sign == _COLON
        if mark.is_question:
            is_mark = key == self.question or (has_colon and asks(mark.text))
        else:
            is_mark = (is_due and has_colon) or (key == self.answer and (is_due or has_colon))
        return mark if is_mark else None


def find_pair(lines: Sequence[str]) -> MarkPair | None:
    """Return the first pair of marks by which questions and answers alternate; None: no pair."""
    marks = [mark for mark in map(mark_of, lines) if mark]
    for pair in dict.fromkeys(_possible_pairs(marks)):
        if _alternates([mark for mark in pair.own_marks(marks) if mark]):
            return pair
    return None


def _possible_pairs(marks: Sequence[Mark]) -> Iterable[MarkPair]:
    """Yield the pairs that begin with the first question of each mark."""
    first: dict[tuple[str, str], int] = {}
    for place, mark in enumerate(marks):
        if mark.is_question:
            first.setdefault((mark.letter, mark.sign), place)
    for (letter, sign), place in first.items():
        answer = next((mark for mark in marks[place:] if not mark.is_question), None)
        if answer is None or (answer.sign != sign and _OF_LISTS & {sign, answer.sign}):
            continue
        yield MarkPair((letter, sign), (answer.letter, answer.sign))


def _alternates(marks: Sequence[Mark]) -> bool:
    """Return whether marks are those of questions and answers by turns, which begin with one."""
    if not marks or not marks[0].is_question:
        return False
    kinds = [mark.is_question for mark in marks]
    turns = [is_question for is_question, _ in itertools.groupby(kinds)]
    answered = turns.count(False)
    texts = [mark.text for mark in marks if mark.is_question and mark.text]
    is_asking = sum(map(asks, texts)) >= _LEAST_ASKING * len(texts)
    least = _LEAST_ANSWERED * max(turns.count(True), kinds.count(False))
    return answered >= max(1, least) and (is_asking or marks[0].sign not in _OF_LISTS)
