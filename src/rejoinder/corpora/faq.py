"""Frequently asked questions: each answer with all the ways in which people ask for it.

| file | a line or row |
|---|---|
| JSON lines | `{"question": "Where is my card?", "answer": "..."}`, or `"questions": ["Where is my card?", "Card?"]` |
| CSV | columns `question` and `answer` (a header; without one, two columns in this order); a row a question |

Several lines may have the same answer. Every question is an example of its own. Two settings decide what a test on the
data asks: `thread`, whether new words for a known question or questions whose answer was never seen, and the shares of
the parts. Equal answers are one candidate in `rejoinder evaluate MODEL DATA --candidates all`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.csv_pairs import read_csv
from rejoinder.corpora.example import Example, Split
from rejoinder.corpora.lines import Reading, open_lines, strip_compression
from rejoinder.corpora.records import BadRecordError
from rejoinder.corpora.splits import content_thread, thread_share
from rejoinder.errors import InputError


@dataclass(frozen=True)
class FaqSettings:
    """What is held out."""

    thread: Literal["question", "answer"] = "question"
    """`question`: the ways to ask for one answer may fall into different parts; `answer`: they stay together."""
    valid_share: float = 0.02
    """Share of the threads that are for validation."""
    test_share: float = 0.1
    """Share of the threads that are for testing."""

    def __post_init__(self) -> None:
        if not (self.valid_share >= 0 and self.test_share >= 0 and self.valid_share + self.test_share < 1):
            raise InputError(
                "valid_share and test_share must be 0 or more and leave something for training, not "
                f"{self.valid_share} and {self.test_share}"
            )


def read_faq(
    path: str | Path, reading: Reading | None = None, settings: FaqSettings | None = None
) -> Iterator[Example]:
    """Read the examples of a CSV file (if it is named so) or a file of JSON lines, compressed or not.

    Raises:
        InputError: a fault of the file; or of a line, with its number, unless bad lines are skipped.
    """
    path, reading, settings = Path(path), reading or Reading(), settings or FaqSettings()
    read = read_csv if strip_compression(path).suffix.lower() == ".csv" else _read_lines
    for example in read(path, reading):
        thread = content_thread([example.context[-1] if settings.thread == "question" else example.response])
        yield dataclasses.replace(example, thread=thread, source="faq")


def split_faq(example: Example, settings: FaqSettings) -> Split:
    """The part of an example: as `splits.split_of`, with the shares of the settings."""
    left = 1 - thread_share(example.thread)
    if left < settings.test_share:
        return "test"
    return "valid" if left < settings.test_share + settings.valid_share else "train"


def _read_lines(path: Path, reading: Reading) -> Iterator[Example]:
    name = strip_compression(path).stem
    for number, line in open_lines(path, reading):
        if not line or line.isspace():
            continue
        reading.lines += 1
        try:
            questions, answer = questions_and_answer(line)
        except BadRecordError as error:
            reading.bad_line(path, number, str(error))
            continue
        for place, question in enumerate(questions):
            yield Example((question,), answer, f"{name}:{number}:{place}")


def questions_and_answer(line: str) -> tuple[list[str], str]:
    """The questions and the answer of a line of JSON.

    Raises:
        BadRecordError: it is in none of the two forms, or a text is blank.
    """
    try:
        record = json.loads(line)
    except RecursionError:
        raise BadRecordError("JSON nested too deep; a line holds one flat object") from None
    except ValueError as error:
        raise BadRecordError(f"not JSON ({error}); one object a line is read") from None
    if not isinstance(record, dict):
        raise BadRecordError(f"JSON, but a {type(record).__name__}; one object a line is read")
    asked = record.get("question", record.get("questions"))
    questions: list[Any] = asked if isinstance(asked, list) else [asked]
    texts = [*questions, record.get("answer")]
    if not questions or not all(map(_is_text, texts)):
        raise BadRecordError(
            "question (a text), or questions (a list of texts), and answer (a text) are read; none may be missing or "
            f"blank; the fields are {', '.join(list(record)[:6])[:100] or 'none'}"
        )
    return questions, record["answer"]


def _is_text(value: Any) -> bool:
    """Whether a value is a text with something in it that a file can hold."""
    return isinstance(value, str) and bool(value.strip()) and not any("\ud800" <= sign <= "\udfff" for sign in value)


CORPUS = Corpus(
    name="faq",
    title="Your own questions with their answers, several questions an answer.",
    reads="*.csv with the columns question and answer, or *.jsonl with question (or questions) and answer",
    licence="yours",
    origin="your own export",
    expected="",
    read=read_faq,
    split=split_faq,
    settings=FaqSettings,
)
