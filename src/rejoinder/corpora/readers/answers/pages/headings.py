"""Pages that are read by their headings: h1 to h6, openers of accordions, questions in bold type.

A heading is the title of what follows it, and a question where it ends with a question mark;
headings with nothing below them are the category of the next. Tables of questions and answers, and
questions and answers in the text below a heading, have it as their category.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.pages.accordions import tidy_buttons
from rejoinder.corpora.readers.answers.pages.tables import PageTables
from rejoinder.corpora.readers.answers.records import reply_to
from rejoinder.corpora.readers.answers.texts.faq_signs import FAQ_WORDS, is_faq, is_marked
from rejoinder.corpora.readers.answers.texts.marks import asks, find_pair
from rejoinder.corpora.readers.answers.texts.written import faq_of_lines
from rejoinder.corpora.schema import Candidate
from rejoinder.html_text import text_of_element
from rejoinder.patterns import search_pattern

_MARK = "\ue000"  # before and after a heading, in the text of a page
_BLANK = "\ue002"  # the line between two paragraphs, in the text of a page
_HEADING = search_pattern(f"{_MARK}([1-7])([^{_MARK}]*){_MARK}")
_BESIDES = "//nav | //header | //footer | //aside | //form | //script | //style"
_ALL_HEADINGS = " | ".join(f"//{name}" for name in ("h1", "h2", "h3", "h4", "h5", "h6"))
_LEAST_TURNS = 2  # of a question and its answer in the text below a heading


class _Section(NamedTuple):
    """A heading, and the text below it up to the next one."""

    level: str  # "0": the text above all headings
    heading: str
    body: str


class SectionReader:
    """Reads the replies of a page by its sections."""

    def __init__(self, source: str, reading: Reading) -> None:
        """Set the name of the page, for notes, and what counts and notes what is left out."""
        self._source = source
        self._reading = reading
        self._ways: dict[str, None] = {}

    @property
    def ways(self) -> str:
        """By what the page was read, in words."""
        return " and ".join(self._ways)

    def replies(self, tree: Any) -> Iterator[Candidate]:
        """Yield the replies of each section: of its tables, its questions, or its whole text."""
        for besides in tree.xpath(_BESIDES):
            besides.drop_tree()
        openers = tidy_buttons(tree)
        tables = PageTables(tree, self._reading)
        above, *sections = _sections(tree, openers)
        title = _title_of_page(sections, tree)
        yield from self._of_section(above, tables, "", is_left_out=True)
        categories: dict[str, str] = {}
        for section in sections:
            level, heading, body = section
            categories = {outer: name for outer, name in categories.items() if outer < level}
            if not body.replace(_BLANK, "").strip():
                if section != title:
                    categories[level] = heading
                continue
            category = next(reversed(categories.values()), "")
            is_only = len(sections) == 1 and self._names_entries(section, tables)
            is_left_out = section == title or is_only
            yield from self._of_section(section, tables, category, is_left_out=is_left_out)

    def _names_entries(self, section: _Section, tables: PageTables) -> bool:
        """Return whether a heading names the questions and answers below it, and asks nothing."""
        has_tables = tables.count(section.body) > 0
        holds_faq = has_tables or is_faq(_lines(section.body), _LEAST_TURNS)
        return holds_faq and not asks(section.heading)

    def _of_section(
        self, section: _Section, tables: PageTables, category: str, *, is_left_out: bool
    ) -> Iterator[Candidate]:
        """Yield the replies of a section; its other text is one, or left out with a note."""
        own_category = category if is_left_out else section.heading
        body = section.body
        is_answer = asks(section.heading) and tables.take(body)[0].strip(f"{_BLANK}\n ") != ""
        if tables.count(body) and not is_answer:
            self._ways["tables"] = None
            body, replies = tables.take(body)
            for reply in replies:
                payload = {"category": own_category} if own_category else {}
                yield dataclasses.replace(reply, payload={**payload, **reply.payload})
        lines = _lines(tables.as_text(body))
        text = "\n".join(filter(None, lines))
        if _holds_faq(section.heading, lines):
            self._ways["questions"] = None
            yield from faq_of_lines(lines, self._source, self._reading, own_category)
        elif text and is_left_out:
            place = "above its headings" if section.level == "0" else "below the page's title"
            self._reading.notes.append(
                f"{self._source}: the text {place} was left out: {text[:60]!r}"
            )
        elif text:
            self._ways["headings"] = None
            yield reply_to(section.heading, text, category)


def _sections(tree: Any, openers: Sequence[Any]) -> list[_Section]:
    """Return the text above all headings, and the sections of a page; openers are headings, too."""
    headings = tree.xpath(_ALL_HEADINGS)
    is_asked = any(asks(plain_text_of(heading)) for heading in [*headings, *openers])
    for heading in headings:
        _mark(heading, heading.tag[1])
    for lead in [*openers, *_bold_questions(tree, alone=is_asked)]:
        _mark(lead, "7")
    for paragraph in tree.xpath("//p"):
        blank = paragraph.makeelement("p")
        blank.text = _BLANK
        paragraph.addnext(blank)
    above, *pieces = _HEADING.split(text_of_element(tree))
    parts = zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)
    return [_Section("0", "", above), *(_Section(*part) for part in parts)]


def _lines(body: str) -> list[str]:
    """Return the lines of a section; those between paragraphs are blank."""
    return [line.replace(_BLANK, "").strip() for line in body.split("\n")]


def _holds_faq(heading: str, lines: Sequence[str]) -> bool:
    """Return whether questions and answers are the text below a heading.

    Below one that asks they have marks, from the first line on; others are part of its answer.
    """
    if not asks(heading):
        return is_faq(lines, _LEAST_TURNS)
    pair = find_pair(lines)
    return pair is not None and is_marked(lines) and pair.marks(lines)[0] is not None


def _title_of_page(sections: Sequence[_Section], tree: Any) -> _Section | None:
    """Return the section whose heading names the page, and is not an entry like the others."""
    outermost = min((section.level for section in sections), default="1")
    outer = [section for section in sections if section.level == outermost]
    if len(outer) != 1 or len(sections) == 1 or asks(outer[0].heading):
        return None
    title = outer[0].heading
    shown = " ".join(" ".join(tree.xpath("//title/text()")).split()).casefold()
    is_named = bool(title) and title.casefold() in shown
    is_asked = any(asks(section.heading) for section in sections)
    is_title = is_named or is_asked or FAQ_WORDS.search(title.casefold()) is not None
    return outer[0] if is_title else None


def _bold_questions(tree: Any, *, alone: bool) -> list[Any]:
    """Return the questions in bold type that begin a paragraph or an item.

    Those that are all of it count; others if most paragraphs begin so, and not `alone`: where
    headings ask they are part of an answer.
    """
    whole: list[Any] = []
    leads: list[Any] = []
    paragraphs = [node for node in tree.xpath("//p | //li") if plain_text_of(node)]
    for paragraph in paragraphs:
        lead = paragraph[0] if len(paragraph) else None
        is_lead = lead is not None and lead.tag in ("strong", "b")
        if not is_lead or (paragraph.text or "").strip():
            continue
        text = plain_text_of(lead)
        if asks(text):
            is_all = len(text) == len(plain_text_of(paragraph))
            (whole if is_all else leads).append(lead)
    are_usual = len(leads) > 1 and 2 * len(leads) > len(paragraphs)
    return whole + leads if are_usual and not alone else whole


def plain_text_of(element: Any) -> str:
    """Return the text of an element in one line."""
    return " ".join(text_of_element(element).split())


def _mark(heading: Any, level: str) -> None:
    """Put marks around a heading, by which its level is found in the text of the page."""
    text = plain_text_of(heading)
    for child in list(heading):
        heading.remove(child)
    heading.text = f"{_MARK}{level}{text.replace(_MARK, '')}{_MARK}"
