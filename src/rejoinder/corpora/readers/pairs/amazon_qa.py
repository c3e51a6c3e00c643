"""AmazonQA: questions about products and what owners answered.

DATA19, section 3.3, and its published code. A line is a Python dictionary (not JSON): a question
and its answer (qa_*.json.gz), or a product with all its questions and their answers
(QA_*.json.gz). The split is by product.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.records import BadRecordError, parse_lines
from rejoinder.corpora.schema import Example

MIN_WORDS = 4  # words of a question and of an answer
MAX_WORDS = 59


def read_amazon_qa(path: Path, reading: Reading, _: object = None) -> Iterator[Example]:
    """Read a file of either shape: the question is the context, the product (asin) the thread."""
    name = reading.stem(path)
    for number, position, product, question, answer in parse_lines(path, reading, _pairs):
        if reason := fault_of_answer(question, answer):
            reading.drop(reason)
        else:
            yield Example((question,), answer, f"{name}:{number}:{position}", product, "amazon-qa")


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
    return [(number, position, product, *pair) for position, pair in enumerate(pairs)]


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
        content = (
            ", ".join(map(str, list(record)[:6])) if is_record else f"a {type(record).__name__}"
        )
        raise BadRecordError(f"no {name} ({wanted}); there is {content[:100] or 'nothing'}")
    if not isinstance(value, str):
        return value
    try:  # Python 2 may write a character beyond U+FFFF as two halves
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise BadRecordError(f"{name} holds half of a surrogate pair, which is not text") from None


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
