"""Research corpora of pairs: AmazonQA, SemEval, Ubuntu and OpenSubtitles."""

from __future__ import annotations

import ast
import string
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rejoinder.corpora.corpus import (
    BadRecordError,
    Corpus,
    dialogue_examples,
    parse_lines,
    parse_records,
    tab_pairs,
    xml_elements,
)
from rejoinder.corpora.formats import csv_rows
from rejoinder.corpora.lines import Reading, open_lines, strip_compression
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import content_thread, split_of
from rejoinder.errors import InputError
from rejoinder.patterns import search_pattern

if TYPE_CHECKING:
    from lxml.etree import _Element

# AmazonQA: questions about products and what owners answered (DATA19, section 3.3, and its
# published code).
#
# A line is a Python dictionary (not JSON): a question and its answer (qa_*.json.gz), or a product
# with all its questions and their answers (QA_*.json.gz). The split is by product.

MIN_WORDS = 4  # words of a question and of an answer
MAX_WORDS = 59


def read_amazon_qa(path: Path, reading: Reading, _: object = None) -> Iterator[Example]:
    """Read a file of either shape: the question is the context, the product (asin) the thread."""
    name = strip_compression(path).stem
    for number, place, product, question, answer in parse_lines(path, reading, _pairs):
        if reason := fault_of_answer(question, answer):
            reading.drop(reason)
        else:
            yield Example((question,), answer, f"{name}:{number}:{place}", product, "amazon-qa")


def fault_of_answer(question: str, answer: str) -> str:
    """Return why a pair is left out, or nothing; as in DATA19, two spaces enclose an empty word."""
    for text, name in ((question, "question"), (answer, "answer")):
        if not text.strip():
            return f"pairs with a blank {name}"
        if not MIN_WORDS <= text.count(" ") + 1 <= MAX_WORDS:
            return f"pairs whose {name} has fewer than {MIN_WORDS} or more than {MAX_WORDS} words"
    return ""


def _pairs(number: int, line: str) -> list[tuple[int, int, str, str, str]]:
    """Return the line's number, place, product, question and answer of each pair in a line."""
    record = _parse(line)
    product = _field(record, "asin", str)
    if not product:
        raise BadRecordError("asin is empty; the split goes by it")
    if "question" in record:
        pairs = [(_field(record, "question", str), _field(record, "answer", str))]
    else:
        pairs = []
        for question in _field(record, "questions", list):
            text = _field(question, "questionText", str)
            pairs += [
                (text, _field(answer, "answerText", str))
                for answer in _field(question, "answers", list)
            ]
    return [(number, place, product, *pair) for place, pair in enumerate(pairs)]


def _parse(line: str) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of escapes that there are not
            record = ast.literal_eval(line.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        reason = str(error).partition("\n")[0][:80] or "nested too deep"
        raise BadRecordError(
            f"no Python dictionary ({reason}); AmazonQA's published lines are read"
        ) from None
    if not isinstance(record, dict):
        raise BadRecordError(f"a {type(record).__name__}; AmazonQA's lines are Python dictionaries")
    return record


def _field(record: Any, name: str, kind: type) -> Any:
    value = record.get(name) if isinstance(record, dict) else None
    if not isinstance(value, kind):
        wanted = "a text" if kind is str else "a list"
        is_record = isinstance(record, dict)
        there = ", ".join(map(str, list(record)[:6])) if is_record else f"a {type(record).__name__}"
        raise BadRecordError(f"no {name} ({wanted}); there is {there[:100] or 'nothing'}")
    if not isinstance(value, str):
        return value
    try:  # Python 2 may write a character beyond U+FFFF as two halves
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise BadRecordError(f"{name} holds half of a surrogate pair, which is no text") from None


AMAZON_QA = Corpus(
    name="amazon-qa",
    title="Questions about products with their answers.",
    reads="qa_*.json.gz (an answer a line) and QA_*.json.gz (a product a line), Python "
    "dictionaries",
    licence="research use, as its publisher says",
    origin="http://jmcauley.ucsd.edu/data/amazon/qa/",
    expected="all 38 files: 1,569,513 lines, 4,035,625 pairs, 3,689,912 distinct ones, 373,007 of "
    "them test (DATA19)",
    read=read_amazon_qa,
)


# SemEval task 3, community question answering: forum questions with their comments, in the XML of
# 2015 and 2016.
#
# The context is the question, the response a comment labelled Good. 1-of-100 (ACL19) allows no
# question twice: except in training only its first Good comment counts. Format: README 2.0 of
# 2015's data and 3.2 of 2016's.

GOOD = "Good"
_UNLABELLED = ("", "?", "N/A")
_REPEATED = "SubtaskA_Skip_Because_Same_As_RelQuestion_ID"
_QUESTIONS = ("Question", "Thread")
# Elements that hold a comment, and their attributes with its id and its label.
_COMMENTS = {"Comment": ("CID", "CGOLD"), "RelComment": ("RELC_ID", "RELC_RELEVANCE2RELQ")}


@dataclass(frozen=True)
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
                f"gold is {self.gold}, which is no file; name the file with the comments' labels"
            )


def read_semeval(path: Path, reading: Reading, settings: SemevalSettings) -> Iterator[Example]:
    """Yield the examples of a file; InputError also: no comment has a label."""
    wanted = "no label; a line is the id of a comment, a tab and its label"
    gold = dict(tab_pairs(settings.gold, reading, wanted)) if settings.gold else {}
    labelled = 0
    count = 0
    for element in xml_elements(path, reading, _QUESTIONS):
        subject = _text(element, "QSubject", "RelQSubject")
        question = question_text(subject, _text(element, "QBody", "RelQBody"))
        comments = list(_comments(element, gold))
        reading.lines += 1
        labelled = labelled + sum(bool(label) for _, label, _ in comments)
        count = count + len(comments)
        if _REPEATED in element.attrib:
            reading.drop("comments of repeated questions", len(comments))
        elif not question:
            reading.drop("comments of blank questions", len(comments))
        else:
            name = strip_compression(path).stem
            yield from _examples(question, comments, name, reading, settings)
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
    return "".join(["", *("".join(each.itertext()) for each in element.iter(*tags))][-1])


def _examples(
    question: str,
    comments: list[tuple[str, str, str]],
    file: str,
    reading: Reading,
    settings: SemevalSettings,
) -> Iterator[Example]:
    """Make the examples of a question; of each comment that is no response, count why."""
    thread = content_thread([question])
    only_first = settings.answers == "train" and (reading.part or split_of(thread)) != "train"
    found = False
    for name, label, text in comments:
        if label != GOOD:
            reading.drop("comments not labelled Good" if label else "comments without a label")
        elif not text:
            reading.drop("blank comments")
        elif only_first and found:
            reading.drop("Good comments after the first")
        else:
            found = True
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


# The Ubuntu Dialogue Corpus, version 2: technical support on IRC between two people, as CSV.
#
# `__eot__` ends a turn and `__eou__` an utterance within it. The rows name no dialogues, so the
# thread is the hash of the first turn. Format: github.com/rkadlec/ubuntu-ranking-dataset-creator.

_PAIR = ["context", "utterance", "label"]
_WIDE = ["context", "ground truth utterance"]
_LABELS = {"1": True, "1.0": True, "0": False, "0.0": False}


@dataclass(frozen=True)
class UbuntuSettings:
    """Settings of `rejoinder data ubuntu`."""

    pairs: bool = False
    """Every message of a row with what precedes it, without candidates: the consecutive pairs that
    ACL19 takes. The rows repeat the beginnings of their dialogues; what is equal is dropped with
    the duplicates."""


def split_turns(context: str) -> list[str]:
    """Return the turns of a context, oldest first, blank ones included."""
    turns = context.split("__eot__")
    if not turns[-1].strip():  # what follows the last mark
        turns.pop()
    return [join_utterances(turn) for turn in turns]


def join_utterances(turn: str) -> str:
    """Return the utterances of a turn as one message."""
    return " ".join(filter(None, (utterance.strip() for utterance in turn.split("__eou__"))))


def read_ubuntu(path: Path, reading: Reading, settings: UbuntuSettings) -> Iterator[Example]:
    """Read the examples of a file of the corpus, compressed or not."""
    for number, context, responses in _choices(path, reading):
        turns = split_turns(context)
        messages = [turn for turn in turns if turn]
        response, *others = map(join_utterances, responses)
        reading.blank_messages += len(turns) - len(messages)
        if not messages or not response:
            reading.drop("blank responses" if messages else "blank contexts")
            continue
        name = f"{strip_compression(path).stem}:{number}"
        thread = content_thread(messages[:1])
        if settings.pairs:
            turns = [*messages, response]
            yield from dialogue_examples(
                turns, name=name, thread=thread, source="ubuntu", reading=reading
            )
        else:
            candidates, label = ((response, *others), 0) if others else ((), None)
            yield Example(
                reading.newest(messages), response, name, thread, "ubuntu", candidates, label
            )


def _choices(path: Path, reading: Reading) -> Iterator[tuple[int, str, Sequence[str]]]:
    """Yield line, context and responses of each row that counts; the first response is right."""
    rows = csv_rows(path, reading)
    number, first = next(rows, (0, []))
    header = [cell.strip().lower() for cell in first]
    if first and header != _PAIR and (header[:2] != _WIDE or len(header) < 3):
        raise InputError(
            f"{path}:{number}: the first row is {', '.join(first)[:60]!r}; Context,Utterance,Label "
            "or Context,Ground Truth Utterance,Distractor_0,... is read"
        )

    def parse(number: int, row: list[str]) -> Iterator[tuple[int, str, Sequence[str]]]:
        if len(row) != len(header):
            raise BadRecordError(
                f"{len(row)} columns instead of {len(header)}, which the header has"
            )
        if header != _PAIR:
            yield number, row[0], row[1:]
        elif row[2].strip() not in _LABELS:
            raise BadRecordError(f"the label is {row[2][:20]!r}; it is 1 or 0")
        elif _LABELS[row[2].strip()]:
            yield number, row[0], row[1:2]
        else:
            reading.drop("responses drawn at random (label 0)")

    return parse_records(path, reading, rows, parse)


UBUNTU = Corpus(
    name="ubuntu",
    title="Ubuntu Dialogue Corpus V2: technical support on IRC between two people.",
    reads="train.csv, valid.csv and test.csv of V2",
    licence="none stated for the data; the scripts that make V2 are Apache-2.0",
    origin="github.com/rkadlec/ubuntu-ranking-dataset-creator makes V2",
    expected="V2: 1,000,000 training rows, about half of label 1; 19,560 validation and 18,920 "
    "test examples",
    read=read_ubuntu,
    settings=UbuntuSettings,
)


# OpenSubtitles: each line of a film's subtitles answers the line before it (DATA19, section 3.2,
# and its code).
#
# In OPUS's file of a language films follow each other without a mark. DATA19 cut it with `split -a
# 3 -l 100000` and split by the parts' names (lines-aaa, ...); so is a longer file here.
# docs/choices.md lists where we differ.

# A word and a colon where a sentence begins; neither a time (10:30) nor an address (http://).
_SPEAKER = search_pattern(r"(?:^|(?<=[.!?]\s))(?!\d++:\d)\w++:(?!//)")
_BRACKETED = search_pattern(r"[\[(][^\])]*+(?:[\])]|\Z)")
_EDGES = " \t-\N{EN DASH}\N{EM DASH}"
MIN_LENGTH = 9  # characters of a response and of the line before it
MAX_LENGTH = 127
SHARD_LINES = 100_000  # of a thread, where a file has more lines than that: it holds many films


def read_opensubtitles(path: Path, reading: Reading, _: object = None) -> Iterator[Example]:
    """Read the examples of one film's subtitles, or of the one file of a language."""
    if reading.history is None:
        raise InputError(
            "opensubtitles: a film is one conversation of a thousand lines; give --history N, as 10"
        )
    name = strip_compression(path).name
    is_cut = _has_many_films(path)
    earlier: list[str] = []
    previous = 0
    for number, line in open_lines(path, reading):
        if number == 1 and line.lstrip().startswith(("<?xml", "<document")):
            raise InputError(
                f"{path} is XML; OPUS's plain text is read, one subtitle line a line "
                "(mono/en.txt.gz)"
            )
        if is_cut and (number - 1) // SHARD_LINES != (previous - 1) // SHARD_LINES:
            name = shard_name((number - 1) // SHARD_LINES)
            earlier.clear()
        elif number != previous + 1:  # the next line answers no bad line that was skipped
            earlier.clear()
        previous = number
        if not line or line.isspace():
            continue
        reading.lines += 1
        text = clean_line(line)
        if not text:
            reading.drop("lines of nothing that is said")
            continue
        if earlier and (reason := fault_of_lines(earlier[-1], text)):
            reading.drop(reason)
        elif earlier:
            yield Example(reading.newest(earlier), text, f"{name}:{number}", name, "opensubtitles")
        earlier.append(text)
        del earlier[: -2 - reading.history]  # one more than is kept shows that the context is cut


def clean_line(line: str) -> str:
    """Return what is said in a line of subtitles. The time is linear in its length."""
    end = max(line.rfind(")"), line.rfind("]")) + 1
    if end:  # so that every bracket searched from has its end
        line = _BRACKETED.sub("", line[:end]) + line[end:]
    line = line.strip(_EDGES)
    if ":" in line:
        line = _SPEAKER.sub("", line)
    return " ".join(line.split()).strip(_EDGES)


def fault_of_lines(context: str, response: str) -> str:
    """Return why the pair is left out, or nothing."""
    if min(len(context), len(response)) < MIN_LENGTH:
        return f"pairs with a line of fewer than {MIN_LENGTH} characters"
    too_long = max(len(context), len(response)) > MAX_LENGTH
    return f"pairs with a line of more than {MAX_LENGTH} characters" if too_long else ""


def shard_name(number: int) -> str:
    """Return the name of part 0, 1, ..., as `split -a 3` gives it: lines-aaa, lines-aab, ..."""
    letters = ""
    while number or len(letters) < 3:
        number, letter = divmod(number, 26)
        letters = string.ascii_lowercase[letter] + letters
    return f"lines-{letters}"


def _has_many_films(path: Path) -> bool:
    """Return whether a file has more lines than a film; a pipe, which is read once, counts so."""
    if path.exists() and not path.is_file() and not path.is_dir():
        return True
    # Faults are reported by whoever reads the file in earnest.
    return any(number > SHARD_LINES for number, _ in open_lines(path, Reading(skip_bad=True)))


OPENSUBTITLES = Corpus(
    name="opensubtitles",
    title="Consecutive lines of film and television subtitles, from OPUS.",
    reads="OPUS's monolingual plain text (mono/en.txt.gz), its parts, or text files of one film "
    "each; a line a line",
    licence="not stated; OPUS asks for a link to opensubtitles.org and a citation of Lison and "
    "Tiedemann 2016",
    origin="https://opus.nlpl.eu/OpenSubtitles-v2018.php, the plain text under the language's code",
    expected="English, v2018: 4,415 threads, 316,891,717 examples, 33,240,156 of them test "
    "(DATA19)",
    read=read_opensubtitles,
)
