"""Questions as they are written: their marks and numbers; several in one cell of a table."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from rejoinder.json_parsing import parse_json
from rejoinder.patterns import match_pattern, search_pattern

MARKS_OF_QUESTIONS = ("?", "\uff1f", "\u061f")
BAR = "|"
FAQ_WORDS = search_pattern(
    r"faq|frequent|questions|answers|help|support|hilfe|fragen|aide|preguntas|perguntas|domande"
    r"|vragen|pytania|вопрос|よくある|常见问题|자주"
)
"""Words of a title that says that questions follow."""
_MARK = match_pattern(
    r"[\s*_#>-]{0,12}(?:\d{1,4}[.)]\s{0,3})?[*_]{0,3}"
    r"(?:((?i:question|frage|pregunta|pergunta)|[QF])"
    r"|((?i:answer|ans|antwort|respuesta|resposta|r[eé]ponse)|[AR]))"
    r"\s?\d{0,4}[*_]{0,3}(?:\s?[:\uff1a][*_]{0,3}|\s[-\u2013](?=\s))(?:\s*(\S.*)|\s*)"
)
_ASKING = match_pattern(r"(?:Q|Question)\s?\d{0,4}\s?[:\uff1a]\s*")
_ANSWERING = match_pattern(r"(?:A|Answer)\s?\d{0,4}\s?[:\uff1a]\s*")
_NUMBER = match_pattern(r"[\s*_#>-]{0,12}(?:\d{1,4}[.)]\s)?\s{0,9}[*_]{0,3}(\S.*)")
_ADJACENT = search_pattern(r"""(?<=['"])\s+(?=['"])""")  # texts of an array as numpy writes it


class Mark(NamedTuple):
    """The mark of a line, and what stands behind it."""

    is_question: bool
    text: str


def mark_of(line: str) -> Mark | None:
    """Return the mark with which a line begins: "Q:", "Answer 2:", "R :"; None: it has none."""
    match = _MARK.fullmatch(line)
    if match is None:
        return None
    return Mark(match[1] is not None, (match[3] or "").strip(" \t*_"))


def without_mark(text: str, *, is_question: bool) -> str:
    """Return a question, or an answer, without the mark of one at its beginning."""
    first, line_break, rest = text.partition("\n")
    match = (_ASKING if is_question else _ANSWERING).match(first)
    return f"{first[match.end() :]}{line_break}{rest}".strip() if match else text


def without_number(line: str) -> str:
    """Return a line without the number or the signs before it, and those of bold type around it."""
    match = _NUMBER.fullmatch(line.rstrip(" \t*_"))
    return match[1] if match else ""


def are_questions(lines: Sequence[str]) -> bool:
    """Return whether lines are a question each, whatever their column is named."""
    filled = [line.strip() for line in lines if line.strip()]
    return len(filled) > 1 and all(line.endswith(MARKS_OF_QUESTIONS) for line in filled)


def split_questions(cell: str) -> list[str]:
    """Return the questions of a cell: its lines; of one line what bars part."""
    questions = cell.splitlines() if "\n" in cell or "\r" in cell else _between_bars(cell)
    return [question.strip() for question in questions]


def _between_bars(cell: str) -> list[str]:
    """Return what bars part; those in brackets, "(hi|hello) there", part nothing."""
    parts = [""]
    depth = 0
    for piece in cell.split(BAR):
        if depth > 0:
            parts[-1] += f"{BAR}{piece}"
        else:
            parts.append(piece)
        depth += piece.count("(") + piece.count("[") - piece.count(")") - piece.count("]")
    return parts[1:]


def join_questions(questions: Sequence[str]) -> str:
    """Return questions as `split_questions` reads them, one a line; none may have a line break."""
    lines = "\n".join(questions)
    return f"{lines}\n" if len(questions) == 1 and BAR in lines else lines


def listed_questions(cell: str) -> list[Any] | None:
    """Return the list that a cell is, as JSON or as pandas writes it; None: it is a text."""
    text = cell.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    for parse in (parse_json, _parse_python):
        try:
            listed = parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(listed, list) and all(isinstance(each, str | list) for each in listed):
            return listed
    return None


def _parse_python(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of backslashes, which people write
        return ast.literal_eval(_ADJACENT.sub(", ", text))
