"""SemEval task 3, community question answering: forum questions with their comments.

The files are the XML of 2015 and 2016. The context is the question, the response a comment
labelled Good. 1-of-100 (ACL19) allows no question twice: except in training only its first Good
comment counts. Format: README 2.0 of 2015's data and 3.2 of 2016's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.forms.tab_pairs import tab_pairs
from rejoinder.corpora.forms.xml import xml_elements
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import content_thread, split_of
from rejoinder.errors import InputError
from rejoinder.settings import documented

if TYPE_CHECKING:
    from lxml.etree import _Element


GOOD = "Good"
_UNLABELLED = ("", "?", "N/A")
_REPEATED = "SubtaskA_Skip_Because_Same_As_RelQuestion_ID"
_QUESTIONS = ("Question", "Thread")
# Elements that hold a comment, and their attributes with its id and its label.
_COMMENTS = {"Comment": ("CID", "CGOLD"), "RelComment": ("RELC_ID", "RELC_RELEVANCE2RELQ")}


@documented
class SemevalSettings:
    """Settings of `rejoinder data semeval`."""

    answers: Literal["train", "all"] = "train"
    """Good comments that are responses: all in training, elsewhere a question's first; or `all`
    everywhere."""
    gold: str = ""
    """File with labels for comments that have none in the XML (2015's development and test sets):
    lines of a comment's id, a tab and its label."""

    def __post_init__(self) -> None:
        if self.gold and not Path(self.gold).is_file():
            raise InputError(
                f"gold is {self.gold}, which is not a file; name the file with the comments' labels"
            )


def read_semeval(path: Path, reading: Reading, settings: SemevalSettings) -> Iterator[Example]:
    """Yield the examples of a file; InputError also: no question, or no comment with a label."""
    wanted = "no label; a line is the id of a comment, a tab and its label"
    gold = dict(tab_pairs(settings.gold, reading, wanted)) if settings.gold else {}
    questions = 0
    labelled = 0
    count = 0
    for element in xml_elements(path, reading, _QUESTIONS):
        subject = _text(element, "QSubject", "RelQSubject")
        question = question_text(subject, _text(element, "QBody", "RelQBody"))
        comments = list(_comments(element, gold))
        reading.lines += 1
        questions += 1
        labelled = labelled + sum(bool(label) for _, label, _ in comments)
        count = count + len(comments)
        if _REPEATED in element.attrib:
            reading.drop("comments of repeated questions", len(comments))
        elif not question:
            reading.drop("comments of blank questions", len(comments))
        else:
            name = reading.stem(path)
            yield from _examples(question, comments, name, reading, settings)
    if not questions:
        raise InputError(
            f"{path} has no <Question> or <Thread>, the questions of SemEval's XML of 2015 and "
            "2016; check that it is a file of task 3"
        )
    if count and not labelled:
        raise InputError(
            f"{path} has no labels; name the file that has those of its comments: --set gold=FILE"
        )


def question_text(subject: str, body: str) -> str:
    """Join subject and body to one message; return the body alone if it begins with the subject."""
    subject = subject.strip()
    body = body.strip()
    start = " ".join(subject.rstrip(". ").split()).lower()
    if body and " ".join(body.split()).lower().startswith(start):
        return body
    return f"{subject}\n{body}".strip()


def _comments(element: _Element, gold: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Give id, label (nothing if it has none) and text of each comment."""
    for comment in element.iter(*_COMMENTS):
        name, label = (comment.get(attribute, "").strip() for attribute in _COMMENTS[comment.tag])
        label = gold.get(name, "") if label in _UNLABELLED else label
        text = _text(comment, "CBody", "RelCText", "RelCBody")
        yield name, "" if label in _UNLABELLED else label, text.strip()


def _text(element: _Element, *tags: str) -> str:
    """Return the text of the last of these elements."""
    return "".join(["", *("".join(part.itertext()) for part in element.iter(*tags))][-1])


def _examples(
    question: str,
    comments: list[tuple[str, str, str]],
    file: str,
    reading: Reading,
    settings: SemevalSettings,
) -> Iterator[Example]:
    """Make the examples of a question; of each comment that is not a response, count why."""
    thread = content_thread([question])
    only_first = settings.answers == "train" and (reading.part or split_of(thread)) != "train"
    has_answer = False
    for name, label, text in comments:
        if label != GOOD:
            reading.drop("comments not labelled Good" if label else "comments without a label")
        elif not text:
            reading.drop("blank comments")
        elif only_first and has_answer:
            reading.drop("Good comments after the first")
        else:
            has_answer = True
            yield Example((question,), text, f"{file}:{name}", thread, "semeval")


SEMEVAL = Corpus(
    name="semeval",
    title="SemEval 2015 and 2016 task 3: questions of a forum about life in Qatar, with labelled "
    "comments.",
    reads="CQA-QL-{train,devel}.xml of 2015, SemEval2016-Task3-CQA-QL-*.xml, 2015's files "
    "reformatted in 2016",
    licence="free for general research use",
    origin="alt.qcri.org/semeval2015/task3 and alt.qcri.org/semeval2016/task3, data and tools",
    expected="Good comments: 2015 train 8,069, development 875; 2016 (without repeated questions) "
    "train part 1 5,287, part 2 1,364, development 818",
    read=read_semeval,
    settings=SemevalSettings,
)
