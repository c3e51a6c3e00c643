"""Pages that are read by their headings: h1 to h6, and questions in bold type.

A heading is the title of what follows it, and a question where it ends with a question mark;
headings with nothing below them are the category of the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rejoinder.corpora.readers.answers.questions import FAQ_WORDS, MARKS_OF_QUESTIONS
from rejoinder.corpora.readers.answers.records import reply_to
from rejoinder.corpora.schema import Candidate
from rejoinder.html_text import text_of_element
from rejoinder.patterns import search_pattern

_MARK = "\ue000"  # before and after a heading, in the text of a page
_HEADING = search_pattern(f"{_MARK}([1-7])([^{_MARK}]*){_MARK}")
_BESIDES = "//nav | //header | //footer | //aside | //form | //script | //style"
ALL_HEADINGS = " | ".join(f"//{name}" for name in ("h1", "h2", "h3", "h4", "h5", "h6"))
_OPENERS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6", "dt", "summary"))  # of accordions


def replies_below_headings(tree: Any, notes: list[str]) -> Iterator[Candidate]:
    """Yield a reply for each heading that asks, with the text below it."""
    for besides in [*tree.xpath(_BESIDES), *_loose_buttons(tree)]:
        besides.drop_tree()
    headings = tree.xpath(ALL_HEADINGS)
    is_asked = any(plain_text_of(heading).endswith(MARKS_OF_QUESTIONS) for heading in headings)
    for heading in headings:
        _mark(heading, heading.tag[1])
    for lead in _bold_questions(tree, alone=is_asked):
        _mark(lead, "7")
    pieces = _HEADING.split(text_of_element(tree))
    sections = list(zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True))
    outermost = min((level for level, _, _ in sections), default="1")
    is_alone = sum(level == outermost for level, _, _ in sections) == 1 and len(sections) > 1
    title = next((question for level, question, _ in sections if level == outermost), "")
    below = [question for level, question, _ in sections if level != outermost]
    is_title = is_alone and _is_title_of_page(title, below, tree)
    categories: dict[str, str] = {}
    for level, question, body in sections:
        categories = {outer: name for outer, name in categories.items() if outer < level}
        if is_title and level == outermost:
            if body.strip():
                notes.append(f"the text below the page's title was left out: {body.strip()[:60]!r}")
            continue
        if body.strip():
            yield reply_to(question, body.strip(), next(reversed(categories.values()), ""))
        else:
            categories[level] = question


def _loose_buttons(tree: Any) -> list[Any]:
    """Return the buttons of a page but for those that are all of a heading: of accordions."""
    loose = []
    for button in tree.xpath("//button"):
        outer = next((own for own in button.iterancestors() if own.tag in _OPENERS), None)
        if outer is None or plain_text_of(outer) != plain_text_of(button):
            loose.append(button)
    return loose


def _bold_questions(tree: Any, *, alone: bool) -> list[Any]:
    """Return the questions in bold type that begin a paragraph or an item.

    Those that are all of it count; others if most paragraphs begin so, and not `alone`: where
    headings ask they are part of an answer.
    """
    whole: list[Any] = []
    leads: list[Any] = []
    paragraphs = [own for own in tree.xpath("//p | //li") if plain_text_of(own)]
    for paragraph in paragraphs:
        lead = paragraph[0] if len(paragraph) else None
        is_lead = lead is not None and lead.tag in ("strong", "b")
        if not is_lead or (paragraph.text or "").strip():
            continue
        text = plain_text_of(lead)
        if text.endswith(MARKS_OF_QUESTIONS):
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


def _is_title_of_page(title: str, below: Sequence[str], tree: Any) -> bool:
    """Return whether the one outermost heading names the page, not an entry like the others."""
    if title.endswith(MARKS_OF_QUESTIONS):
        return False
    shown = " ".join(" ".join(tree.xpath("//title/text()")).split()).casefold()
    is_named = bool(title) and title.casefold() in shown
    asks = any(question.endswith(MARKS_OF_QUESTIONS) for question in below)
    return is_named or asks or FAQ_WORDS.search(title.casefold()) is not None
