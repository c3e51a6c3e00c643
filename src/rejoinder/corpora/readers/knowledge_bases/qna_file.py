"""Bot Framework's .qna files: questions with their answers.

A heading with a question mark stands before the question, further questions are a list, and the
answer stands between lines of three backticks.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.patterns import match_pattern, search_pattern

_QUESTION = match_pattern(r"[ \t]{0,8}#{1,6}[ \t]*\?[ \t]*(\S.*)")
_ANY_QUESTION = search_pattern(r"^[ \t]{0,8}#{1,6}[ \t]{0,8}\?", re.MULTILINE)
_ITEM = match_pattern(r"[ \t]*[-*+][ \t]+(\S.*)")
_SECTION = match_pattern(r"[ \t]*\*\*([A-Za-z ]{1,40}):?\*\*:?[ \t]*")
_FENCE = "```"


@dataclass
class _Pair:
    """A question that is being read, with what is known of its answer."""

    number: int  # of its line
    questions: list[str] = field(default_factory=list)
    answer: list[str] | None = None
    payload: dict[str, Any] = field(default_factory=dict)
    section: str = ""  # of the list: filters, prompts


def read_qna_file(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each question of a .qna file. InputError: an answer does not end."""
    pair: _Pair | None = None
    is_inside = False
    text = sample.source.text(choice.encoding, reading)
    for number, line in enumerate(text.split("\n"), 1):
        if is_inside and pair is not None:
            is_inside = not line.strip().startswith(_FENCE)
            if is_inside and pair.answer is not None:
                pair.answer.append(line)
        elif match := _QUESTION.fullmatch(line):
            yield from _of_pair(pair, reading)
            pair = _Pair(number, [match[1].strip()])
        elif pair is not None and line.strip().startswith(_FENCE):
            is_inside = True
            pair.answer = []
        elif pair is not None:
            _read_line(line, pair)
    if is_inside:
        raise InputError(f"{sample.source}: the answer of line {pair and pair.number} has no end")
    yield from _of_pair(pair, reading)


def _read_line(line: str, pair: _Pair) -> None:
    """Read a line before or behind an answer: a further question, a filter, or nothing."""
    if match := _SECTION.fullmatch(line):
        pair.section = match[1].strip().lower()
    elif match := _ITEM.fullmatch(line):
        if pair.section == "filters":
            name, _, value = match[1].partition("=")
            pair.payload[name.strip()] = value.strip()
        elif not pair.section and pair.answer is None:
            pair.questions.append(match[1].strip())


def _of_pair(pair: _Pair | None, reading: Reading) -> Iterator[Candidate]:
    if pair is None:
        return
    answer = textwrap.dedent("\n".join(pair.answer or ())).strip()
    if not answer:
        reading.drop("questions without an answer")
        return
    questions = tuple((question,) for question in dict.fromkeys(pair.questions))
    yield Candidate(answer, pair.payload, pair.questions[0], questions)


QNA_FILE = Form(
    name="qna-file",
    title="Bot Framework's .qna file",
    holds="replies",
    export="Bot Framework Composer: the project's knowledge-base/*.qna; bf qnamaker:convert",
    matches=lambda sample: (
        sample.kind in ("markdown", "text")
        and (
            sample.source.name.suffix.lower() == ".qna"
            or (_FENCE in sample.text and _ANY_QUESTION.search(sample.text) is not None)
        )
    ),
    read=read_qna_file,
)
