"""FAQs as plain text: marked "Q:" and "A:", or paragraphs that begin with their question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.faq_signs import is_faq, is_marked
from rejoinder.corpora.readers.answers.paragraphs import category_of, paragraphs_of, question_of
from rejoinder.corpora.readers.answers.questions import mark_of
from rejoinder.corpora.readers.answers.records import gathered
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.schema import Candidate

UNANSWERED = "questions without an answer"  # keys of `Reading.dropped`
ABOVE = "lines above the first question"


@dataclass
class _Entry:
    """Questions, and the lines of their answer."""

    category: str
    questions: list[list[str]] = field(default_factory=list)  # each by its lines
    answer: list[str] = field(default_factory=list)


def read_written(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each answer of a text."""
    lines = sample.source.text(choice.encoding, reading).splitlines()
    yield from faq_of_lines(lines, str(sample.source), reading)


def faq_of_lines(lines: Sequence[str], source: str, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each answer of some lines."""
    paragraphs = paragraphs_of(lines)
    marked = is_marked(lines)
    entries = list(_entries(paragraphs if marked else _joined(paragraphs), marked, reading))
    categories = {entry.category for entry in entries}

    def candidates() -> Iterator[Candidate]:
        for entry in entries:
            answer = "\n".join(entry.answer).strip()
            if not answer:
                reading.drop(UNANSWERED)
                continue
            is_sorted = bool(entry.category) and len(categories) > 1  # one is the file's title
            payload = {"category": entry.category} if is_sorted else {}
            questions = [" ".join(filter(None, own)) for own in entry.questions]
            yield Candidate(answer, payload, questions[0], tuple((each,) for each in questions))

    yield from gathered(candidates(), reading, source)


def _joined(paragraphs: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return paragraphs, of which those that are a question alone begin the next one.

    A paragraph of several questions is a table of contents.
    """
    joined: list[list[str]] = []
    waiting: list[str] = []
    for lines in paragraphs:
        is_question = all(map(question_of, lines))
        if is_question and len(lines) == 1:
            waiting.extend(lines)
        elif not is_question:
            joined.append([*waiting, *lines])
            waiting = []
    return joined


def _entries(
    paragraphs: Sequence[Sequence[str]], marked: bool, reading: Reading
) -> Iterator[_Entry]:
    """Yield the entries of paragraphs: questions with marks, or at the beginning of them."""
    entry = _Entry("")
    for number, lines in enumerate(paragraphs):
        following = paragraphs[number + 1] if number + 1 < len(paragraphs) else []
        begins = mark_of if marked else question_of
        category = category_of(lines)
        if category and following and begins(following[0]) and _is_finished(entry):
            if entry.questions:
                yield entry
            entry = _Entry(category)
            continue
        if entry.questions and _is_new(lines, marked):
            yield entry
            entry = _Entry(entry.category)
        elif entry.answer:
            entry.answer.append("")
        for line in lines:
            mark = mark_of(line) if marked else None
            if mark and mark.is_question and entry.answer:
                yield entry
                entry = _Entry(entry.category)
            _add(entry, line, marked, reading)
    if entry.questions:
        yield entry


def _is_new(lines: Sequence[str], marked: bool) -> bool:
    """Return whether a paragraph begins an entry."""
    if not marked:
        return bool(question_of(lines[0]))
    mark = mark_of(lines[0])
    return mark is not None and mark.is_question


def _is_finished(entry: _Entry) -> bool:
    """Return whether an answer may end as it does: what follows is not its last line."""
    return not entry.questions or (
        bool(entry.answer) and entry.answer[-1].endswith((".", "!", ")"))
    )


def _add(entry: _Entry, line: str, marked: bool, reading: Reading) -> None:
    """Add a line to the questions or the answer of an entry, as its mark says or the line before.

    What stands before the first question is no part of an entry.
    """
    mark = mark_of(line) if marked else None
    question = "" if marked or entry.answer else question_of(line)
    text = mark.text if mark else line.strip()
    if question or (mark and mark.is_question):
        entry.questions.append([question or text])
    elif (mark or entry.answer or not marked) and entry.questions:
        entry.answer.append(text)
    elif entry.questions:
        entry.questions[-1].append(text)
    else:
        reading.drop(ABOVE)


WRITTEN = Form(
    name="faq-text",
    title='FAQ as text: "Q:" and "A:", or a question above each answer',
    holds="replies",
    export="save a document of questions and answers as plain text (.txt, UTF-8)",
    matches=lambda sample: (
        sample.kind in ("text", "markdown")
        and not sample.columns
        and sample.source.name.suffix.lower() == ".txt"
        and is_faq(sample.lines)
    ),
    read=read_written,
)
