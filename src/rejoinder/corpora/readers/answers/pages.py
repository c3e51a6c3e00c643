"""FAQs as HTML or Markdown pages: schema.org's FAQPage, details, definition lists, headings.

The first of these that a page has is read. A heading is the title of what follows it, and a
question where it ends with a question mark; headings with nothing below them are the category of
the next. Markdown becomes HTML by markdown-it.
"""

from __future__ import annotations

import dataclasses
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.limits import MAX_BRACKETS
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.linked_data import is_of_type, linked_data
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.html_text import parse_html, text_of_element, text_of_html
from rejoinder.patterns import search_pattern

_MARK = "\ue000"  # before and after a heading, in the text of a page
_HEADING = search_pattern(f"{_MARK}([1-7])([^{_MARK}]*){_MARK}")
_FRONT_MATTER = search_pattern(r"\A---\n.*?\n---\n", re.DOTALL)
_MARKS_OF_QUESTIONS = ("?", "\uff1f", "\u061f")
_FAQ_WORDS = search_pattern(
    r"faq|frequent|questions|answers|help|support|hilfe|fragen|aide|preguntas|perguntas|domande"
    r"|vragen|pytania|вопрос|よくある|常见问题|자주"
)
_BESIDES = "//nav | //header | //footer | //aside | //form | //script | //style | //button"


def read_page(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each question of a page."""
    text = sample.source.text(choice.encoding, reading)
    if sample.kind == "markdown":
        from markdown_it import MarkdownIt

        text = (
            MarkdownIt("commonmark", {"html": True})
            .enable("table")
            .render(_few_brackets(_FRONT_MATTER.sub("", text)))
        )
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
        f"{sample.source}: no FAQ in it: no schema.org FAQPage, details, definition list, or "
        "heading with a text below it"
        f"{choice.advice('; --set format=text reads one reply a line')}"
    )


def _few_brackets(markdown: str) -> str:
    """Escape the brackets of lines that have very many: the parser would try each for a link."""
    lines = markdown.splitlines(keepends=True)
    return "".join(
        line.replace("[", "\\[") if line.count("[") > MAX_BRACKETS else line for line in lines
    )


def _reply(question: str, answer: str, category: str = "") -> Candidate:
    question = " ".join(question.split())
    examples = ((question,),) if question.endswith(_MARKS_OF_QUESTIONS) else ()
    return Candidate(answer, {"category": category} if category else {}, question, examples)


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
                yield _asked(_reply(question, text_of_html(str(answer.get("text") or ""))))
    for item in tree.xpath("//*[contains(@itemtype, 'schema.org/Question')]"):
        names = item.xpath(".//*[@itemprop='name']")
        answers = item.xpath(".//*[@itemprop='acceptedAnswer']//*[@itemprop='text']")
        if names and answers:
            yield _asked(_reply(text_of_element(names[0]), text_of_element(answers[0])))


def _asked(reply: Candidate) -> Candidate:
    """Return a reply whose title is a question, whatever it ends with."""
    return dataclasses.replace(reply, examples=((reply.title,),) if reply.title else ())


def _details(tree: Any, _: list[str]) -> Iterator[Candidate]:
    for details in tree.xpath("//details[summary]"):
        summary = details.find("summary")
        question = text_of_element(summary)
        summary.drop_tree()
        yield _reply(question, text_of_element(details))


def _definitions(tree: Any, _: list[str]) -> Iterator[Candidate]:
    for term in tree.xpath("//dl/dt"):
        answers = []
        for follower in term.itersiblings():
            if follower.tag != "dd":
                break
            answers.append(text_of_element(follower))
        yield _reply(text_of_element(term), "\n".join(filter(None, answers)))


def _headings(tree: Any, notes: list[str]) -> Iterator[Candidate]:
    """Yield a reply for each heading that asks, with the text below it."""
    for besides in tree.xpath(_BESIDES):
        besides.drop_tree()
    bold = "//p[count(*)=1][strong or b][not(normalize-space(text()))]"
    for heading in tree.xpath(f"//h1 | //h2 | //h3 | //h4 | //h5 | //h6 | {bold}"):
        text = " ".join(text_of_element(heading).split())
        level = heading.tag[1] if heading.tag != "p" else "7"
        if level == "7" and not text.endswith("?"):
            continue
        for child in list(heading):
            heading.remove(child)
        heading.text = f"{_MARK}{level}{text.replace(_MARK, '')}{_MARK}"
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
            yield _reply(question, body.strip(), next(reversed(categories.values()), ""))
        else:
            categories[level] = question


def _is_title_of_page(title: str, below: Sequence[str], tree: Any) -> bool:
    """Return whether the one outermost heading names the page, not an entry like the others."""
    if title.endswith(_MARKS_OF_QUESTIONS):
        return False
    shown = " ".join(" ".join(tree.xpath("//title/text()")).split()).casefold()
    is_named = bool(title) and title.casefold() in shown
    asks = any(question.endswith(_MARKS_OF_QUESTIONS) for question in below)
    return is_named or asks or _FAQ_WORDS.search(title.casefold()) is not None


_WAYS: dict[str, Callable[[Any, list[str]], Iterator[Candidate]]] = {
    "schema.org markup": _marked_up,
    "details": _details,
    "definition lists": _definitions,
    "headings": _headings,
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
