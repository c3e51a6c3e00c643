"""Signs that a text is of questions and answers, and not a list of replies.

Lists of canned replies hold questions, too, but those of an agent: "How can I help you?". They stay
lists, and so do texts in which few lines are marked.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence

from rejoinder.corpora.readers.answers.paragraphs import category_of, paragraphs_of, question_of
from rejoinder.corpora.readers.answers.questions import FAQ_WORDS, mark_of
from rejoinder.patterns import match_pattern, search_pattern

_OF_AGENTS = search_pattern(
    r"(?i)\b(?:help you|do for you|assist you|anything else|how are you|would you like"
    r"|which \w+ (?:do|are|did) you|(?:did|have) you|is (?:this|it|that) still|(?:does|did) that"
    r"|are you (?:able|still|sure|using|getting|seeing)"
    r"|do you (?:see|get|know|remember|want|use|mean|still)|how (?:can|may) i"
    r"|can i (?:help|get your)"
    r"|(?:could|can|would|will) you (?:please )?(?:tell|send|give|confirm|provide|describe|share"
    r"|check|let|try|hold|wait)|may i (?:have|ask|know)|your (?:order|account|e-?mail|phone|name"
    r"|address|number|date|card|invoice|customer|reference|booking)"
    r"|ihnen|ihre[nmrs]?|für sie|vous aider|votre|vos|usted|ayudar\w*|aiutar\w*|ajudar\w*)\b"
)
_OF_CUSTOMERS = search_pattern(
    r"(?i)\b(?:i|my|me|we|our|us)\b|^(?:do|are|can|will) you\b"
    r"|^(?:what|where|when|how) (?:are|do) you|^(?:is|are) there\b|^how (?:long|much|many|often)\b"
)
_NUMBERED = match_pattern(r"\s{0,8}\d{1,4}[.)]\s")
_MOST_ABOVE = 3  # lines above the first mark
_LEAST_MARKED = 0.1  # of the lines
_LEAST_ANSWERED = 0.8  # of the questions, and of the answers
_LEAST_ASKING = 0.5  # of the paragraphs
_LEAST_TURNS = 3  # of a question and an answer, each a paragraph
_LEAST_SHARE = 0.4  # of questions among such paragraphs
_MOST_OF_AGENTS = 0.25  # of the questions


def is_faq(lines: Sequence[str]) -> bool:
    """Return whether lines are those of questions and answers, and not one reply each."""
    paragraphs = paragraphs_of(lines)
    return is_marked(lines) or _is_asking(paragraphs) or _is_alternating(paragraphs)


def is_marked(lines: Iterable[str]) -> bool:
    """Return whether enough lines are marked, and questions and answers by turns."""
    filled = [line for line in lines if line.strip()]
    marks = [mark_of(line) for line in filled]
    asks = [mark.is_question for mark in marks if mark]
    above = next((place for place, mark in enumerate(marks) if mark), len(filled))
    if not asks or not asks[0] or above > _MOST_ABOVE or len(asks) < _LEAST_MARKED * len(filled):
        return False
    turns = [is_question for is_question, _ in itertools.groupby(asks)]
    answered = turns.count(False)
    is_whole = above == 0 or answered > 1  # one pair in a list may be a reply
    return (
        is_whole
        and answered > 0
        and answered >= _LEAST_ANSWERED * max(turns.count(True), asks.count(False))
    )


def _is_asking(paragraphs: Sequence[Sequence[str]]) -> bool:
    """Return whether enough paragraphs begin with a question that a customer may ask."""
    told = [lines for lines in paragraphs if not category_of(lines)]
    asking = [lines for lines in told if _begins_with_question(lines)]
    is_usual = len(asking) > 1 and len(asking) >= _LEAST_ASKING * len(told)
    return is_usual and _asked_by_customers(paragraphs, told)


def _begins_with_question(lines: Sequence[str]) -> bool:
    """Return whether a paragraph is a question and its answer, not questions alone."""
    return len(lines) > 1 and bool(question_of(lines[0])) and not question_of(lines[1])


def _is_alternating(paragraphs: Sequence[Sequence[str]]) -> bool:
    """Return whether questions and their answers are paragraphs by turns, of at least three.

    A title may stand above; little else may be between them.
    """
    questions = [question_of(lines[0]) for lines in paragraphs]
    asks = list(map(bool, questions))
    count = sum(asks)
    is_answered = not any(map(operator.and_, asks, [*asks[1:], True]))
    is_usual = count >= _LEAST_TURNS and count >= _LEAST_SHARE * len(asks)
    is_faq_text = any(asks[:2]) and is_answered and is_usual
    return is_faq_text and _asked_by_customers(paragraphs, paragraphs)


def _asked_by_customers(
    paragraphs: Sequence[Sequence[str]], asking: Iterable[Sequence[str]]
) -> bool:
    """Return whether paragraphs begin with what customers ask.

    Few may be an agent's questions: "Could you tell me your number?". There is a title that says
    so, or they are numbered, or half are in a customer's words, "How do I pay?".
    """
    lines = [own[0] for own in asking if question_of(own[0])]
    of_agents = sum(_OF_AGENTS.search(line) is not None for line in lines)
    if of_agents >= _MOST_OF_AGENTS * len(lines):
        return False
    title = " ".join(paragraphs[0]).casefold()
    is_titled = not question_of(paragraphs[0][0]) and FAQ_WORDS.search(title) is not None
    numbered = sum(_NUMBERED.match(line) is not None for line in lines)
    own = sum(_OF_CUSTOMERS.search(question_of(line)) is not None for line in lines)
    return is_titled or 2 * max(numbered, own) >= len(lines)
