"""SemEval task 3, community question answering: forum questions with their comments, in the XML of 2015 and 2016.

| | 2015 | 2016, and 2015 reformatted |
|---|---|---|
| a question with its comments | `Question` | `Thread` |
| its text | `QSubject`, `QBody` | `RelQSubject`, `RelQBody` |
| a comment and its label | `Comment` with `CGOLD` | `RelComment` with `RELC_RELEVANCE2RELQ` |
| its text | `CBody` | `RelCText`, or `RelCBody` in the multi-line files |

The context is one message: the question's subject and body, or the body alone where it begins with the subject. The
response is a comment labelled Good. Subjects of comments are left out: they repeat the question or the comment's first
words. 2016's threads that are marked as repeated (`SubtaskA_Skip_Because_Same_As_RelQuestion_ID`) are left out,
as in its subtask A. The thread is the hash of the question. Format: README 2.0 of 2015's data and 3.2 of 2016's.

By default there are no candidates, and `rejoinder evaluate` ranks 1-of-100 (ACL19), for which no question may be there
twice: of each only the first Good comment counts, except in training.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from xml.parsers import expat

from rejoinder.corpora.choices import check_choices
from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.example import Example
from rejoinder.corpora.lines import MAX_LINE_BYTES, Reading, open_lines, open_pieces, strip_compression
from rejoinder.corpora.splits import content_thread, split_of
from rejoinder.errors import InputError

GOOD = "Good"
_UNLABELLED = ("", "?", "N/A")
_REPEATED = "SubtaskA_Skip_Because_Same_As_RelQuestion_ID"
_QUESTIONS = {"Question": "QID", "Thread": "THREAD_SEQUENCE"}
"""Elements that hold a question and its comments, and the attribute with their id."""
_COMMENTS = {"Comment": ("CID", "CGOLD"), "RelComment": ("RELC_ID", "RELC_RELEVANCE2RELQ")}
_SUBJECTS = ("QSubject", "RelQSubject")
_BODIES = ("QBody", "RelQBody")
_TEXTS = ("CBody", "RelCText", "RelCBody")
_MAX_DEPTH = 16
_MAX_TAG = 1 << 20
"""Most bytes of a tag, or of what else the parser holds before it understands it."""


@dataclass(frozen=True)
class SemevalSettings:
    """Settings of `rejoinder data semeval`."""

    answers: Literal["train", "all", "first"] = "train"
    """Which Good comments are responses: in training all, elsewhere the first of a question; or `all` or `first`
    everywhere."""
    candidates: Literal["none", "thread"] = "none"
    """Whether the other comments of a question are candidates, those apart that are Good too."""
    repeated: bool = False
    """Whether threads are read that are marked as repeated; the first copy may be in another file."""
    gold: str = ""
    """File with labels for comments that have none in the XML (2015's development and test sets): lines of a comment's
    id, a tab and its label."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.gold and not Path(self.gold).is_file():
            raise InputError(f"gold is {self.gold}, which is no file; name the file with the comments' labels")


@dataclass
class _Comment:
    name: str
    label: str
    text: str = ""


@dataclass
class _Question:
    name: str
    repeated: bool
    subject: str = ""
    body: str = ""
    comments: list[_Comment] = field(default_factory=list)


def read_semeval(
    path: str | Path, reading: Reading | None = None, settings: SemevalSettings | None = None
) -> Generator[Example]:
    """Read the examples of a file, compressed or not; memory holds one question with its comments at a time.

    Raises:
        InputError: the file is no such XML, declares entities, is nested too deep, or has no labels; with the line.
    """
    path, reading, settings = Path(path), reading or Reading(), settings or SemevalSettings()
    gold = read_gold(settings.gold, reading) if settings.gold else {}
    labels: dict[bool, int] = {True: 0, False: 0}
    for question in _questions(path, reading):
        reading.lines += 1
        for comment in question.comments:
            comment.label = gold.get(comment.name, "") if comment.label in _UNLABELLED else comment.label
            labels[comment.label not in _UNLABELLED] += 1
        yield from _examples(question, path, reading, settings)
    if labels[False] and not labels[True]:
        raise InputError(f"{path} has no labels; name the file that has those of its comments: --set gold=FILE")


def read_gold(path: str | Path, reading: Reading) -> dict[str, str]:
    """Read a file of labels: `Q1_C1<tab>Good`.

    Raises:
        InputError: a fault of the file; or of a line, unless bad lines are skipped.
    """
    gold = {}
    for number, line in open_lines(path, reading):
        name, _, label = (part.strip() for part in line.partition("\t"))
        if name and label:
            gold[name] = label
        elif line.strip():
            reading.bad_line(path, number, "no label; a line is the id of a comment, a tab and its label")
    return gold


def question_text(subject: str, body: str) -> str:
    """Subject and body as one message; the body alone if it begins with the subject, as forums make them."""
    subject, body = subject.strip(), body.strip()
    start = " ".join(subject.rstrip(". ").split()).lower()
    if body and " ".join(body.split()).lower().startswith(start):
        return body
    return f"{subject}\n{body}".strip()


def _examples(question: _Question, path: Path, reading: Reading, settings: SemevalSettings) -> Iterator[Example]:
    """Of each comment that does not become a response is counted why."""
    text = question_text(question.subject, question.body)
    if question.repeated and not settings.repeated:
        reading.drop("comments of repeated questions", len(question.comments))
        return
    if not text:
        reading.drop("comments of blank questions", len(question.comments))
        return
    thread = content_thread([text])
    only_first = settings.answers == "first" or (
        settings.answers == "train" and (reading.part or split_of(thread)) != "train"
    )
    found = 0
    for comment in question.comments:
        reason = _why_not(comment) or ("Good comments after the first" if only_first and found else "")
        candidates, label = _candidates(question, comment, settings)
        if not reason and settings.candidates == "thread" and len(candidates) < 2:
            reason = "Good comments of questions without another"
        if reason:
            reading.drop(reason)
            continue
        found += 1
        name = f"{strip_compression(path).stem}:{comment.name}"
        yield Example((text,), comment.text.strip(), name, thread, "semeval", candidates, label)


def _why_not(comment: _Comment) -> str:
    """Why a comment is no response; nothing if it is one."""
    if comment.label in _UNLABELLED:
        return "comments without a label"
    if comment.label != GOOD:
        return "comments not labelled Good"
    return "" if comment.text.strip() else "blank comments"


def _candidates(question: _Question, right: _Comment, settings: SemevalSettings) -> tuple[tuple[str, ...], int | None]:
    """The comments of the question that are labelled and not Good, and the right one, in their order; its place."""
    if settings.candidates == "none":
        return (), None
    shown = [each for each in question.comments if each is right or _is_wrong(each)]
    return tuple(each.text.strip() for each in shown), next(i for i, each in enumerate(shown) if each is right)


def _is_wrong(comment: _Comment) -> bool:
    return comment.label not in (GOOD, *_UNLABELLED) and bool(comment.text.strip())


def _questions(path: Path, reading: Reading) -> Iterator[_Question]:
    """The questions of a file, as soon as each is complete."""
    parser = _Parser(path)
    for piece in open_pieces(path, reading):
        yield from parser.feed(piece)
    yield from parser.feed(b"", final=True)


class _Parser:
    """Finds questions in XML that comes in pieces. It refuses entities, which is all that bombs are made of."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._expat = expat.ParserCreate()
        self._expat.buffer_text = True
        self._expat.specified_attributes = True  # defaults that a DTD declares could be long, and would come each time
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._characters
        self._expat.EntityDeclHandler = self._refuse_entity
        self._expat.SkippedEntityHandler = self._refuse_entity
        self._done: deque[_Question] = deque()
        self._question: _Question | None = None
        self._text: list[str] | None = None
        self._fed = self._depth = self._size = 0

    def feed(self, piece: bytes, *, final: bool = False) -> Iterator[_Question]:
        """Parse more of the file; the questions that are now complete."""
        try:
            self._expat.Parse(piece, final)
        except expat.ExpatError as error:
            raise self._fault(f"not XML, or cut off ({expat.ErrorString(error.code)})", error.lineno) from None
        except (ValueError, LookupError) as error:  # the encoding that the file says it has
            raise self._fault(f"not XML ({error}); convert the file to UTF-8") from None
        self._fed += len(piece)
        if self._fed - self._expat.CurrentByteIndex > _MAX_TAG + len(piece):
            raise self._fault(f"a tag or comment above {_MAX_TAG // 2**20} MiB")
        while self._done:
            yield self._done.popleft()

    def _fault(self, reason: str, line: int | None = None) -> InputError:
        return InputError(f"{self._path}:{line or self._expat.CurrentLineNumber}: {reason}")

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self._fault(f"the entity {name[:40]}; files that declare or need entities are not read")

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._fault(f"elements nested more than {_MAX_DEPTH} deep")
        if tag in _QUESTIONS:
            if self._question is not None:
                raise self._fault(f"a {tag} within a question")
            name = attributes.get(_QUESTIONS[tag], "")
            self._question = _Question(name, _REPEATED in attributes)
            self._size = 0
        elif tag in _COMMENTS and self._question is not None:
            name, label = (attributes.get(attribute, "") for attribute in _COMMENTS[tag])
            self._question.comments.append(_Comment(name, label.strip()))
            self._grow(100 + len(name) + len(label))
        elif tag in (*_SUBJECTS, *_BODIES, *_TEXTS):
            self._text = []

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)
            self._grow(len(text))

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > MAX_LINE_BYTES:
            raise self._fault(f"a question with comments above {MAX_LINE_BYTES // 2**20} MiB")

    def _end(self, tag: str) -> None:
        self._depth -= 1
        question = self._question
        if tag in _QUESTIONS and question is not None:
            self._done.append(question)
            self._question = None
        if self._text is None or tag not in (*_SUBJECTS, *_BODIES, *_TEXTS):
            return
        text, self._text = "".join(self._text), None
        if question is None:
            return
        if tag in _SUBJECTS:
            question.subject = text
        elif tag in _BODIES:
            question.body = text
        elif question.comments:
            question.comments[-1].text = text


CORPUS = Corpus(
    name="semeval",
    title="SemEval 2015 and 2016 task 3: questions of a forum about life in Qatar, with labelled comments.",
    reads="CQA-QL-{train,devel}.xml of 2015, SemEval2016-Task3-CQA-QL-*.xml, 2015's files reformatted in 2016",
    licence="free for general research use",
    origin="alt.qcri.org/semeval2015/task3 and alt.qcri.org/semeval2016/task3, data and tools",
    expected="Good comments: 2015 train 8,069, development 875; 2016 (without repeated questions) train part 1 5,287, "
    "part 2 1,364, development 818",
    read=read_semeval,
    settings=SemevalSettings,
)
