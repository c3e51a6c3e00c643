"""Questions of one cell of a table: a line each, between bars, or a list as programs write it."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from typing import Any

from rejoinder.corpora.readers.answers.texts.marks import asks
from rejoinder.json_parsing import parse_json
from rejoinder.patterns import match_pattern, search_pattern

_SEPARATOR = "|"
_BULLET = match_pattern(r"\s*+[-*\u2022]\s+(\S.*)")
_ADJACENT = search_pattern(r"""(?<=['"])\s+(?=['"])""")  # texts of an array as numpy writes it


def itemized_questions(cell: str) -> list[str] | None:
    """Return the items of a list of lines that all begin with a dash or a bullet; None: no list."""
    matches = [_BULLET.fullmatch(line) for line in cell.splitlines() if line.strip()]
    items = [match[1].strip() for match in matches if match]
    return items if items and len(items) == len(matches) else None


def are_questions(lines: Sequence[str]) -> bool:
    """Return whether lines are a question each, whatever their column is named."""
    filled = [line.strip() for line in lines if line.strip()]
    return len(filled) > 1 and all(map(asks, filled))


def split_questions(cell: str) -> list[str]:
    """Return the questions of a cell: its lines; of one line what bars part."""
    questions = cell.splitlines() if "\n" in cell or "\r" in cell else _between_bars(cell)
    return [question.strip() for question in questions]


def _between_bars(cell: str) -> list[str]:
    """Return what bars part; those in brackets, "(hi|hello) there", part nothing."""
    parts = [""]
    depth = 0
    for piece in cell.split(_SEPARATOR):
        if depth > 0:
            parts[-1] += f"{_SEPARATOR}{piece}"
        else:
            parts.append(piece)
        depth += piece.count("(") + piece.count("[") - piece.count(")") - piece.count("]")
    return parts[1:]


def join_questions(questions: Sequence[str]) -> str:
    """Return questions as `split_questions` reads them, one a line; none may have a line break."""
    lines = "\n".join(questions)
    return f"{lines}\n" if len(questions) == 1 and _SEPARATOR in lines else lines


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
        if isinstance(listed, list) and all(isinstance(item, str | list) for item in listed):
            return listed
    return None


def _parse_python(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of backslashes, which people write
        return ast.literal_eval(_ADJACENT.sub(", ", text))
