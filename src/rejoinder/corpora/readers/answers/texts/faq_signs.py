"""Signs that a text is of questions and answers, and not a list of replies.

Lists of canned replies hold questions, too, but those of an agent: "How can I help you?". They stay
lists, and so do texts in which few lines are marked.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

from rejoinder.corpora.readers.answers.texts.askers import is_of_agent, is_of_customer
from rejoinder.corpora.readers.answers.texts.marks import Mark, MarkPair, find_pair
from rejoinder.corpora.readers.answers.texts.paragraphs import (
    category_of,
    is_lone_question,
    opening_question,
    paragraphs_of,
    question_of,
    turns_of,
)
from rejoinder.patterns import match_pattern, search_pattern

FAQ_WORDS = search_pattern(
    r"faq|frequent|questions|answers|help|support|hilfe|fragen|aide|preguntas|perguntas|domande"
    r"|vragen|pytania|вопрос|よくある|常见问题|자주"
)
"""Words of a title that says that questions follow."""
_NUMBERED = match_pattern(r"\s{0,8}\d{1,4}[.)]\s")
_MOST_ABOVE = 3  # lines above the first mark, if fewer lines are marked
_LEAST_MARKED = 0.1  # of the lines
_LEAST_ASKING = 0.5  # of the paragraphs
_LEAST_TURNS = 3  # of a question and an answer, each a paragraph or a line
_LEAST_SHARE = 0.4  # of questions among such paragraphs
_MOST_OF_AGENTS = 0.25  # of the questions


def is_faq(lines: Sequence[str], least_turns: int = _LEAST_TURNS) -> bool:
    """Return whether lines are those of questions and answers, and not one reply each.

    There are `least_turns` of a question and its answer where each is a paragraph or a line.
    """
    paragraphs = paragraphs_of(lines)
    return (
        is_marked(lines)
        or _is_asking(paragraphs)
        or _is_alternating(paragraphs, least_turns)
        or _is_asking_by_lines(paragraphs, least_turns)
    )


def is_marked(lines: Sequence[str]) -> bool:
    """Return whether enough lines are marked, and questions and answers by turns."""
    pair = find_pair(lines)
    return pair is not None and _has_marked_enough(pair.marks(lines))


def pair_to_read(lines: Sequence[str]) -> MarkPair | None:
    """Return the marks by which an FAQ is read; None: by the questions that begin its paragraphs.

    Few marks among many such paragraphs are part of an answer.
    """
    pair = find_pair(lines)
    if pair is None:
        return None
    marks = pair.marks(lines)
    if _has_marked_enough(marks):
        return pair
    marked = sum(mark is not None and mark.is_question for mark in marks)
    begun = sum(
        bool(opening_question(paragraph[0])) and pair.mark_of(paragraph[0], is_due=False) is None
        for paragraph in paragraphs_of(lines)
    )
    return pair if marked >= begun else None


def _has_marked_enough(marks: Sequence[Mark | None]) -> bool:
    """Return whether enough lines have marks, with at most a few lines above the first."""
    above = next(place for place, mark in enumerate(marks) if mark)
    count = sum(mark is not None for mark in marks)
    answered = sum(mark is not None and not mark.is_question for mark in marks)
    is_whole = above == 0 or answered > 1  # one pair in a list may be a reply
    return is_whole and above <= max(_MOST_ABOVE, count) and count >= _LEAST_MARKED * len(marks)


def _is_asking(paragraphs: Sequence[Sequence[str]]) -> bool:
    """Return whether enough paragraphs begin with a question that a customer may ask."""
    texts = [lines for lines in paragraphs if not category_of(lines)]
    asking = [lines for lines in texts if _begins_with_question(lines)]
    is_usual = len(asking) > 1 and len(asking) >= _LEAST_ASKING * len(texts)
    return is_usual and _asked_by_customers(paragraphs, texts)


def _is_asking_by_lines(paragraphs: Sequence[Sequence[str]], least_turns: int) -> bool:
    """Return whether questions and answers alternate by lines, within few paragraphs."""
    turns = turns_of(paragraphs)
    asking = sum(map(_begins_with_question, turns))
    return len(turns) > len(paragraphs) and asking >= least_turns and _is_asking(turns)


def _begins_with_question(lines: Sequence[str]) -> bool:
    """Return whether a paragraph is a question and its answer, not questions alone."""
    return len(lines) > 1 and bool(opening_question(lines[0])) and not is_lone_question(lines[1])


def _is_alternating(paragraphs: Sequence[Sequence[str]], least_turns: int) -> bool:
    """Return whether enough questions and their answers are paragraphs by turns.

    A title may stand above; little else may be between them.
    """
    asked = [bool(opening_question(lines[0])) for lines in paragraphs]
    count = sum(asked)
    is_answered = not any(map(operator.and_, asked, [*asked[1:], True]))
    is_usual = count >= least_turns and count >= _LEAST_SHARE * len(asked)
    is_faq_text = any(asked[:2]) and is_answered and is_usual
    return is_faq_text and _asked_by_customers(paragraphs, paragraphs)


def _asked_by_customers(
    paragraphs: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
) -> bool:
    """Return whether those of the candidates that ask begin with what customers ask.

    Few may be an agent's questions: "Could you tell me your number?". There is a title that says
    so, or they are numbered, or half are in a customer's words, "How do I pay?".
    """
    lines = [candidate[0] for candidate in candidates if question_of(candidate[0])]
    of_agents = sum(map(is_of_agent, lines))
    if of_agents >= _MOST_OF_AGENTS * len(lines):
        return False
    title = " ".join(paragraphs[0]).casefold()
    is_titled = not question_of(paragraphs[0][0]) and FAQ_WORDS.search(title) is not None
    numbered = sum(_NUMBERED.match(line) is not None for line in lines)
    of_customers = sum(is_of_customer(question_of(line)) for line in lines)
    return is_titled or 2 * max(numbered, of_customers) >= len(lines)
