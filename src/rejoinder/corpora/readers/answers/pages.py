"""FAQs as HTML or Markdown pages.

The first of these that a page has is read: schema.org's FAQPage, details, definition lists, tables
of questions and answers, headings. Markdown becomes HTML by markdown-it.
"""

from __future__ import annotations

import dataclasses
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.limits import MAX_BRACKETS
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.columns import answering_columns
from rejoinder.corpora.readers.answers.faq_signs import is_marked
from rejoinder.corpora.readers.answers.linked_data import is_of_type, linked_data
from rejoinder.corpora.readers.answers.page_headings import (
    ALL_HEADINGS,
    plain_text_of,
    replies_below_headings,
)
from rejoinder.corpora.readers.answers.questions import MARKS_OF_QUESTIONS
from rejoinder.corpora.readers.answers.records import candidate_of, gathered, reply_to
from rejoinder.corpora.readers.answers.written import faq_of_lines
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.html_text import parse_html, text_of_element, text_of_html
from rejoinder.patterns import search_pattern

_FRONT_MATTER = search_pattern(r"\A---\n.*?\n---\n", re.DOTALL)
_HEADINGS_OF_MARKDOWN = search_pattern(r"^#{1,6} ", re.MULTILINE)


def read_page(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each question of a page."""
    text = sample.source.text(choice.encoding, reading)
    if sample.kind == "markdown":
        markdown = _few_brackets(_FRONT_MATTER.sub("", text))
        lines = text_of_html(_rendered(markdown, breaks=True)).splitlines()
        if is_marked(lines) and len(_HEADINGS_OF_MARKDOWN.findall(markdown)) < 2:
            yield from faq_of_lines(lines, str(sample.source), reading)
            return
        text = _rendered(markdown)
    tree = parse_html(text)
    if tree is None:
        raise InputError(f"{sample.source} holds no HTML with a text")
    notes: list[str] = []
    for name, find in _WAYS.items():
        replies = [reply for reply in find(tree, notes) if reply.text]
        if replies:
            reading.notes.append(f"{sample.source}: FAQ page, read by its {name}")
            reading.notes += [f"{sample.source}: {text}" for text in notes]
            yield from replies
            return
    raise InputError(
        f"{sample.source}: no FAQ in it: no schema.org FAQPage, details, definition list, "
        "table of questions and answers, or heading with a text below it"
        f"{choice.advice('; --set format=text reads one reply a line')}"
    )


def _rendered(markdown: str, *, breaks: bool = False) -> str:
    """Return Markdown as HTML; with `breaks` its line breaks stay."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True, "breaks": breaks}).enable("table")
    return str(parser.render(markdown))


def _few_brackets(markdown: str) -> str:
    """Escape the brackets of lines that have very many: the parser would try each for a link."""
    lines = markdown.splitlines(keepends=True)
    return "".join(
        line.replace("[", "\\[") if line.count("[") > MAX_BRACKETS else line for line in lines
    )


def _marked_up(tree: Any, notes: list[str]) -> Iterator[Candidate]:
    """Yield the questions of FAQPages, as JSON-LD or microdata."""
    for data in linked_data(tree, notes):
        waiting = deque([data])
        while waiting:  # an FAQPage may stand in a list, or in a graph
            value = waiting.popleft()
            waiting += value if isinstance(value, list) else []
            if not isinstance(value, dict):
                continue
            waiting += [value[key] for key in ("@graph", "mainEntity", "hasPart") if key in value]
            answer = value.get("acceptedAnswer")
            answer = answer[0] if isinstance(answer, list) and answer else answer
            if is_of_type(value, "Question") and isinstance(answer, dict):
                question = text_of_html(str(value.get("name") or value.get("text") or ""))
                yield _asked(reply_to(question, text_of_html(str(answer.get("text") or ""))))
    for item in tree.xpath("//*[contains(@itemtype, 'schema.org/Question')]"):
        names = item.xpath(".//*[@itemprop='name']")
        answers = item.xpath(".//*[@itemprop='acceptedAnswer']//*[@itemprop='text']")
        if names and answers:
            yield _asked(reply_to(text_of_element(names[0]), text_of_element(answers[0])))


def _asked(reply: Candidate) -> Candidate:
    """Return a reply whose title is a question, whatever it ends with."""
    return dataclasses.replace(reply, examples=((reply.title,),) if reply.title else ())


def _details(tree: Any, _: list[str]) -> Iterator[Candidate]:
    for details in tree.xpath("//details[summary]"):
        summary = details.find("summary")
        question = text_of_element(summary)
        summary.drop_tree()
        yield reply_to(question, text_of_element(details))


def _definitions(tree: Any, _: list[str]) -> Iterator[Candidate]:
    for term in tree.xpath("//dl/dt"):
        answers = []
        for follower in term.itersiblings():
            if follower.tag != "dd":
                break
            answers.append(text_of_element(follower))
        yield reply_to(text_of_element(term), "\n".join(filter(None, answers)))


def _tables(tree: Any, _: list[str]) -> Iterator[Candidate]:
    """Yield a reply for each row of the tables that name questions and answers.

    A page of several headings, or one that asks, is read by these.
    """
    read = [
        reply for table in tree.xpath("//table[not(ancestor::table)]") for reply in _rows(table)
    ]
    headings = tree.xpath(ALL_HEADINGS)
    asks = any(plain_text_of(heading).endswith(MARKS_OF_QUESTIONS) for heading in headings)
    if not asks and len(headings) < 2:
        yield from gathered(read, Reading(), "")


def _rows(table: Any) -> Iterator[Candidate]:
    rows = [
        [text_of_element(cell) for cell in row.xpath("./th | ./td")] for row in table.xpath(".//tr")
    ]
    header = rows[0] if rows else []
    columns = answering_columns(header)
    if "text" not in columns or "questions" not in columns:
        return
    for row in rows[1:]:
        record: dict[str, str] = dict(zip(header, row, strict=False))
        if record.get(columns["text"]):
            yield candidate_of(record, columns, "the table of the page")


_WAYS: dict[str, Callable[[Any, list[str]], Iterator[Candidate]]] = {
    "schema.org markup": _marked_up,
    "details": _details,
    "definition lists": _definitions,
    "tables": _tables,
    "headings": replies_below_headings,
}
FAQ_PAGE = Form(
    name="faq-page",
    title="FAQ page (HTML, Markdown)",
    holds="replies",
    export="save the page of questions and answers as .html or .md, or take it from its source",
    matches=lambda sample: (
        sample.kind == "html"
        or (sample.kind == "markdown" and sample.source.name.suffix.lower() != ".txt")
    ),
    read=read_page,
)
