"""AmazonQA: questions about products and what owners answered.

Source: DATA19, section 3.3, and its published code: question and answer have 4 to 59 words, a word being what single
spaces separate; equal pairs count once (`build.build_data` drops them); the split is by product. The lines are Python
dictionaries, not JSON. They come in two shapes: one question and its answer a line (qa_*.json.gz), or a product with
all its questions and their answers (QA_*.json.gz).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.example import Example
from rejoinder.corpora.lines import Reading, open_lines, strip_compression
from rejoinder.corpora.literals import parse_literal
from rejoinder.corpora.records import BadRecordError
from rejoinder.errors import InputError

MAX_LINE = 1 << 22
"""Most characters of a line; what is parsed of it takes some ten times as much memory. The published ones have up to
tens of thousands."""


@dataclass(frozen=True)
class AmazonQASettings:
    """Which texts are too short or too long."""

    min_words: int = 4
    """Fewest words of a question and of an answer."""
    max_words: int = 59
    """Most words of a question and of an answer."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_words <= self.max_words:
            raise InputError(
                f"min_words must be 1 or more and max_words not less, not {self.min_words} and {self.max_words}"
            )


def read_amazon_qa(
    path: str | Path, reading: Reading | None = None, settings: AmazonQASettings | None = None
) -> Iterator[Example]:
    """Read the examples of a file of either shape: the question is the context, the product (asin) the thread.

    Raises:
        InputError: a fault of the file; or of a line, with its number, unless bad lines are skipped.
    """
    path, reading, settings = Path(path), reading or Reading(), settings or AmazonQASettings()
    name = strip_compression(path).stem
    for number, line in open_lines(path, reading):
        if not line or line.isspace():
            continue
        reading.lines += 1
        try:
            product, pairs = _pairs(_parse(line))
        except BadRecordError as error:
            reading.bad_line(path, number, str(error))
            continue
        for place, (question, answer) in enumerate(pairs):
            reason = fault_of_pair(question, answer, settings)
            if reason:
                reading.drop(reason)
            else:
                yield Example((question,), answer, f"{name}:{number}:{place}", product, "amazon-qa")


def fault_of_pair(question: str, answer: str, settings: AmazonQASettings) -> str:
    """Why the pair is left out, or nothing. Words are counted as DATA19 does: two spaces enclose an empty one."""
    for text, name in ((question, "question"), (answer, "answer")):
        if not text.strip():
            return f"pairs with a blank {name}"
        if not settings.min_words <= text.count(" ") + 1 <= settings.max_words:
            return f"pairs whose {name} has fewer than {settings.min_words} or more than {settings.max_words} words"
    return ""


def _parse(line: str) -> Mapping[str, Any]:
    if len(line) > MAX_LINE:
        raise BadRecordError(f"{len(line):,} characters; a line has up to {MAX_LINE:,}")
    try:
        record = parse_literal(line)
    except ValueError as error:
        raise BadRecordError(f"no Python dictionary ({error}); AmazonQA's published lines are read") from None
    if not isinstance(record, dict):
        raise BadRecordError(f"a {type(record).__name__}; AmazonQA's lines are Python dictionaries")
    return record


def _pairs(record: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """The product of a record, and its questions with an answer each."""
    product = _field(record, "asin", str)
    if not product:
        raise BadRecordError("asin is empty; the split goes by it")
    if "question" in record:
        return product, [(_field(record, "question", str), _field(record, "answer", str))]
    pairs = []
    for question in _field(record, "questions", list):
        text = _field(question, "questionText", str)
        pairs += [(text, _field(answer, "answerText", str)) for answer in _field(question, "answers", list)]
    return product, pairs


def _field(record: Any, name: str, kind: type) -> Any:
    value = record.get(name) if isinstance(record, dict) else None
    if not isinstance(value, kind):
        wanted = "a text" if kind is str else "a list"
        there = ", ".join(list(record)[:6]) if isinstance(record, dict) else f"a {type(record).__name__}"
        raise BadRecordError(f"no {name} ({wanted}); there is {there[:100] or 'nothing'}")
    return value


CORPUS = Corpus(
    name="amazon-qa",
    title="Questions about products with their answers.",
    reads="qa_*.json.gz (an answer a line) and QA_*.json.gz (a product a line), Python dictionaries",
    licence="research use, as its publisher says",
    origin="http://jmcauley.ucsd.edu/data/amazon/qa/",
    expected="all 38 files: 1,569,513 lines, 4,035,625 pairs, 3,689,912 distinct ones, 373,007 of them test (DATA19)",
    read=read_amazon_qa,
    settings=AmazonQASettings,
)
