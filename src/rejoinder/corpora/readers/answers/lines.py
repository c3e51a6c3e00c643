"""Replies as text, one a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.texts.marks import asks, mark_of
from rejoinder.corpora.readers.chat_apps.whatsapp import whatsapp_line
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.html_text import is_tag_name
from rejoinder.patterns import search_pattern

# JSON, YAML, headers of mails, cells with tabs: none of them is a line that somebody says.
_STRUCTURE = search_pattern(
    r""""\s*:\s*["\[{\d]|^\s*-\s+[a-z_]+:\s"""
    r"""|"\s*[}\]]|\S *\t *\S|^(?:Message-ID|Content-Type|MIME-Version):\s"""
)
_EDGE_TAG = search_pattern(
    r"^</?([a-zA-Z][\w-]*)(?:\s[^<>]*)?|</?([a-zA-Z][\w-]*)(?:\s[^<>]*)?>$"
)  # at the beginning or end of a line
_DATA = search_pattern(r"""^\s*-\s+[a-z_]+:\s|"\s*:\s*["\[{\d]|"\s*[}\]]""")
_MARKED_OR_UTF_16 = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be")
_MOST_ASKING = 1 / 3  # of the lines: of more it is noted that they may be an FAQ


def read_text(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each line that is not blank. InputError: one cannot be a reply.

    Many questions, or marks of them and of answers, are noted: it may be an FAQ.
    """
    signs = _FaqSigns()
    unsure = choice.encoding or sample.encoding in _MARKED_OR_UTF_16
    encoding = choice.encoding or (sample.encoding if unsure else "utf-8")
    for number, line in sample.source.lines(encoding, reading):
        text = line.strip()
        if not choice.form and _is_structured(text):
            is_data = _DATA.search(text) is not None
            advice = (
                "give the file the ending of its form, .json or .yml"
                if is_data
                else choice.advice(
                    "--set format=text reads one reply a line all the same",
                    "give it the ending of its form",
                )
            )
            raise InputError(
                f"{sample.source}:{number}: this looks like HTML, JSON, YAML, a table or a chat "
                f"in a file of text; {advice}"
            )
        if text:
            signs.look(text)
            yield Candidate(text)
    if not choice.form and signs.are_many:
        advice = choice.advice(
            "if customers ask them: --set format=faq-text",
            'if customers ask them, write "Q:" and "A:" before questions and answers',
        )
        reading.notes.append(
            f"{sample.source}: {signs.questions:,} of {signs.lines:,} replies, one a line, are "
            f"questions; {advice}"
        )


def _is_structured(text: str) -> bool:
    """Return whether a line is of HTML, JSON, YAML, a table or a chat: "Dear <name>" is not."""
    if _STRUCTURE.search(text) or whatsapp_line(text) is not None:
        return True
    tags = _EDGE_TAG.finditer(text) if "<" in text else ()
    return any(
        tag[0].startswith("</") or "=" in tag[0] or is_tag_name(tag[1] or tag[2]) for tag in tags
    )


@dataclass
class _FaqSigns:
    """Counts of lines that are questions, or are marked as questions and answers."""

    lines: int = 0
    questions: int = 0
    marks: set[bool] = field(default_factory=set)  # of questions, of answers

    def look(self, text: str) -> None:
        """Count a line."""
        mark = mark_of(text)
        is_marked = mark is not None and mark.sign == ":"
        if mark is not None and is_marked:
            self.marks.add(mark.is_question)
        self.lines += 1
        self.questions += asks(text) or (mark is not None and is_marked and mark.is_question)

    @property
    def are_many(self) -> bool:
        """Whether the lines may be those of an FAQ."""
        return len(self.marks) > 1 or self.questions > _MOST_ASKING * self.lines


TEXT = Form(
    name="text",
    title="text, one reply a line",
    holds="replies",
    export="save a list of replies as plain text (.txt, UTF-8), one a line",
    matches=lambda sample: (
        sample.kind == "text" and sample.source.name.suffix.lower() == ".txt" and not sample.columns
    ),
    read=read_text,
)
