"""FAQs as plain text: marked "Q:" and "A:", or paragraphs that begin with their question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.records import gathered
from rejoinder.corpora.readers.answers.texts.faq_signs import is_faq, pair_to_read
from rejoinder.corpora.readers.answers.texts.mail_headers import refuse_mails
from rejoinder.corpora.readers.answers.texts.marks import Mark, MarkPair
from rejoinder.corpora.readers.answers.texts.paragraphs import (
    category_of,
    is_lone_question,
    opening_question,
    paragraphs_of,
    question_of,
    turns_of,
)
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.schema import Candidate

UNANSWERED = "questions without an answer"  # keys of `Reading.dropped`
LINES_ABOVE = "lines above the first question"


@dataclass
class _Entry:
    """Questions, and the lines of their answer."""

    category: str
    questions: list[list[str]] = field(default_factory=list)  # each by its lines
    answer: list[str] = field(default_factory=list)


def read_written(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each answer of a text."""
    text = sample.source.text(choice.encoding, reading)
    refuse_mails(text, sample.source, choice, "faq-text")
    lines = text.splitlines()
    reading.notes.append(f"{sample.source}: {WRITTEN.title}")
    replies = faq_of_lines(lines, str(sample.source), reading)
    yield from gathered(replies, reading, sample.source)


def faq_of_lines(
    lines: Sequence[str], source: str, reading: Reading, category: str = ""
) -> Iterator[Candidate]:
    """Yield a reply for each answer of some lines, which have a category of their own or this."""
    pair = pair_to_read(lines)
    paragraphs = paragraphs_of(lines)
    if pair is None:
        paragraphs = _merge_questions(turns_of(paragraphs))
    else:
        paragraphs = [part for paragraph in paragraphs for part in _without_title(paragraph, pair)]
    entries = list(_entries(paragraphs, pair, reading))
    categories = {entry.category for entry in entries}
    unclear = 0
    for entry in entries:
        answer = "\n".join(entry.answer).strip()
        if not answer:
            reading.drop(UNANSWERED)
            continue
        unclear += sum(map(is_lone_question, entry.answer[:-1])) if pair is None else 0
        is_sorted = bool(entry.category) and len(categories) > 1  # one is the file's title
        own_category = entry.category if is_sorted else category
        payload = {"category": own_category} if own_category else {}
        questions = [" ".join(filter(None, question)) for question in entry.questions]
        examples = tuple((question,) for question in questions)
        yield Candidate(answer, payload, questions[0], examples)
    if unclear:
        reading.notes.append(
            f"{source}: lines of answers that ask, too: {unclear:,}; put a blank line above each "
            "that is a question of its own"
        )


def _without_title(lines: list[str], pair: MarkPair) -> list[list[str]]:
    """Return a paragraph, parted behind a title right above a marked question."""
    is_titled = len(lines) > 1 and category_of(lines[:1]) and _begins(lines[1:], pair)
    return [lines[:1], lines[1:]] if is_titled else [lines]


def _merge_questions(paragraphs: Sequence[Sequence[str]]) -> list[list[str]]:
    """Merge each question-only paragraph into the next paragraph.

    A paragraph of several questions is a table of contents.
    """
    merged: list[list[str]] = []
    waiting: list[str] = []
    for lines in paragraphs:
        is_question = all(map(opening_question, lines))
        if is_question and len(lines) == 1:
            waiting.extend(lines)
        elif not is_question:
            merged.append([*waiting, *lines])
            waiting = []
    return [*merged, waiting] if waiting else merged


def _entries(
    paragraphs: Sequence[Sequence[str]], pair: MarkPair | None, reading: Reading
) -> Iterator[_Entry]:
    """Yield the entries of paragraphs: questions with marks, or at the beginning of them."""
    entry = _Entry("")
    titles = _titles(paragraphs, pair)
    is_due = False  # whether the mark before was that of a question
    for number, lines in enumerate(paragraphs):
        if number in titles and (len(titles) > 1 or _is_finished(entry)):
            yield from _closed(entry, reading)
            entry = _Entry(titles[number])
            continue
        if entry.questions and _begins(lines, pair):
            yield entry
            entry = _Entry(entry.category)
        elif entry.answer:
            entry.answer.append("")
        for place, line in enumerate(lines):
            mark = pair.mark_of(line, is_due=is_due) if pair else _implied_mark(entry, line, place)
            is_due = mark.is_question if mark else is_due
            if mark and mark.is_question and entry.answer:
                yield entry
                entry = _Entry(entry.category)
            _add(entry, line, mark, reading)
    yield from _closed(entry, reading)


def _closed(entry: _Entry, reading: Reading) -> Iterator[_Entry]:
    """Yield an entry if it has questions; count the title of one that has none."""
    if entry.questions:
        yield entry
    elif entry.category:
        reading.drop(LINES_ABOVE)


def _titles(paragraphs: Sequence[Sequence[str]], pair: MarkPair | None) -> dict[int, str]:
    """Return the categories by the places of their paragraphs: each above a question.

    A paragraph that answers a question alone is no category, nor is one that occurs again, such as
    "Best regards".
    """
    titles: dict[int, str] = {}
    is_above = False
    for place in reversed(range(len(paragraphs))):
        category = category_of(paragraphs[place])
        if not category:
            is_above = _begins(paragraphs[place], pair)
        elif is_above and not (place and _ends_with_question(paragraphs[place - 1], pair)):
            titles[place] = category
    counts = Counter(titles.values())
    return {place: title for place, title in titles.items() if counts[title] == 1}


def _begins(lines: Sequence[str], pair: MarkPair | None) -> bool:
    """Return whether a paragraph begins an entry."""
    if pair is None:
        return bool(opening_question(lines[0]))
    mark = pair.mark_of(lines[0], is_due=False)
    return mark is not None and mark.is_question


def _ends_with_question(lines: Sequence[str], pair: MarkPair | None) -> bool:
    """Return whether a paragraph ends with a question, which what follows answers."""
    if pair is None:
        return all(map(opening_question, lines))
    marks = [mark for mark in pair.marks(lines) if mark]
    return bool(marks) and marks[-1].is_question


def _is_finished(entry: _Entry) -> bool:
    """Return whether an answer may end as it does: what follows is not its last line."""
    return not entry.questions or (
        bool(entry.answer) and entry.answer[-1].endswith((".", "!", ")"))
    )


def _add(entry: _Entry, line: str, mark: Mark | None, reading: Reading) -> None:
    """Add a line to the questions or the answer of an entry, as its mark says or the line before.

    What stands before the first question is no part of an entry.
    """
    if mark and mark.is_question:
        entry.questions.append([mark.text])
    elif not entry.questions:
        reading.drop(LINES_ABOVE)
    elif mark or entry.answer:
        entry.answer.append(mark.text if mark else line.strip())
    else:
        entry.questions[-1].append(line.strip())


def _implied_mark(entry: _Entry, line: str, place: int) -> Mark:
    """Return the mark that a line without one stands for: of a question before an answer, or not.

    `place` is that of the line in its paragraph.
    """
    asks = is_lone_question if place else opening_question
    is_question = not entry.answer and bool(asks(line))
    return Mark(is_question, "", "", question_of(line) if is_question else line.strip(), "")


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
