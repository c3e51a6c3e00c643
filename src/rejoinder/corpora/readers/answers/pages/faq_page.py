"""FAQs as HTML or Markdown pages.

The first of these that a page has is read: schema.org's FAQPage, details, definition lists, and its
sections with their headings, tables and questions. Markdown becomes HTML by markdown-it.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.pages.headings import SectionReader
from rejoinder.corpora.readers.answers.pages.linked_data import is_of_type, linked_data
from rejoinder.corpora.readers.answers.pages.markdown import html_of_markdown
from rejoinder.corpora.readers.answers.records import gathered, reply_to
from rejoinder.corpora.readers.answers.texts.faq_signs import is_marked
from rejoinder.corpora.readers.answers.texts.mail_headers import refuse_mails
from rejoinder.corpora.readers.answers.texts.marks import find_pair
from rejoinder.corpora.readers.answers.texts.written import faq_of_lines
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.html_text import parse_html, text_of_element, text_of_html, write_out_links
from rejoinder.patterns import search_pattern

_FRONT_MATTER = search_pattern(r"\A---\n.*?\n---\n", re.DOTALL)
_HEADINGS_OF_MARKDOWN = search_pattern(r"^#{1,6} ", re.MULTILINE)
_QUESTION_ABOVE = search_pattern(r"^[^#|>\n]*[?\uff1f\u061f][ \t]*\n[ \t]*[^\s=-]", re.MULTILINE)


def read_page(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each question of a page."""
    source = str(sample.source)
    text = sample.source.text(choice.encoding, reading)
    if sample.kind == "markdown":
        refuse_mails(text, sample.source, choice, "faq-page")
        markdown = _FRONT_MATTER.sub("", text)
        text = html_of_markdown(markdown, breaks=True)
        lines = text_of_html(text, with_links=True).splitlines()
        if is_marked(lines) and len(_HEADINGS_OF_MARKDOWN.findall(markdown)) < 2:
            reading.notes.append(f"{source}: FAQ page, read by its marks of questions and answers")
            yield from gathered(faq_of_lines(lines, source, reading), reading, source)
            return
        if find_pair(lines) is None and _QUESTION_ABOVE.search(markdown) is None:
            text = html_of_markdown(markdown)
    tree = parse_html(text)
    if tree is None:
        raise InputError(f"{source} holds no HTML with a text")
    write_out_links(tree)
    place = len(reading.notes)
    sections = SectionReader(source, reading)
    for name in (*_WAYS, ""):
        read = _WAYS[name](tree, reading) if name else sections.replies(tree)
        replies = [reply for reply in read if reply.text]
        if replies:
            reading.notes[place:] = [
                f"{source}: FAQ page, read by its {name or sections.ways}",
                *reading.notes[place:],
            ]
            yield from gathered(replies, reading, source)
            return
    raise InputError(
        f"{source}: no FAQ in it: no schema.org FAQPage, details, definition list, "
        "table of questions and answers, questions with answers below them, or heading with a text "
        f"below it{choice.advice('; --set format=text reads one reply a line')}"
    )


def _marked_up(tree: Any, reading: Reading) -> Iterator[Candidate]:
    """Yield the questions of FAQPages, as JSON-LD or microdata."""
    for data in linked_data(tree, reading.notes):
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
                text = text_of_html(str(answer.get("text") or ""), with_links=True)
                yield _asked(reply_to(question, text))
    for item in tree.xpath("//*[contains(@itemtype, 'schema.org/Question')]"):
        names = item.xpath(".//*[@itemprop='name']")
        answers = item.xpath(".//*[@itemprop='acceptedAnswer']//*[@itemprop='text']")
        if names and answers:
            yield _asked(reply_to(text_of_element(names[0]), text_of_element(answers[0])))


def _asked(reply: Candidate) -> Candidate:
    """Return a reply whose title is a question, whatever it ends with."""
    return dataclasses.replace(reply, examples=((reply.title,),) if reply.title else ())


def _details(tree: Any, _: Reading) -> Iterator[Candidate]:
    for details in tree.xpath("//details[summary]"):
        summary = details.find("summary")
        question = text_of_element(summary)
        summary.drop_tree()
        yield reply_to(question, text_of_element(details))


def _definitions(tree: Any, _: Reading) -> Iterator[Candidate]:
    terms: list[str] = []  # that the next descriptions answer
    for term in tree.xpath("//dl//dt"):
        above = term.getprevious()
        terms = terms if above is not None and above.tag == "dt" else []
        terms.append(text_of_element(term))
        followers = list(itertools.takewhile(lambda node: node.tag == "dd", term.itersiblings()))
        if followers:
            answer = "\n".join(filter(None, map(text_of_element, followers)))
            yield from (reply_to(question, answer) for question in terms)


_WAYS: dict[str, Callable[[Any, Reading], Iterator[Candidate]]] = {
    "schema.org markup": _marked_up,
    "details": _details,
    "definition lists": _definitions,
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
