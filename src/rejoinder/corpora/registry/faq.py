"""The corpus `faq`: a user's own questions with their answers (forms: docs/corpora.md)."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from rejoinder.corpora.corpus import Corpus, Shares, split_by_shares
from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import is_name
from rejoinder.corpora.forms.csv_pairs import pair_columns, read_csv
from rejoinder.corpora.forms.delimited import find_delimiter, header_place, sampled_rows
from rejoinder.corpora.forms.formats import OwnSettings, describe_fields, text_of
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading, strip_compression
from rejoinder.corpora.readers.answers.columns import KNOWN_COLUMNS, answering_columns
from rejoinder.corpora.readers.answers.table import NO_REPLY
from rejoinder.corpora.readers.standing import is_inactive, why_unused
from rejoinder.corpora.records import BadRecordError, parse_lines, parse_object
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.corpora.registry.recognition import inspect
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import content_thread
from rejoinder.settings import documented

UNASKED = "replies without a question"  # a key of `Reading.dropped`
_FOUND = Choice(is_settable=False)  # the form of a file is found by its content


@documented
class FaqSettings(Shares, OwnSettings):
    """Settings of the held-out threads."""

    thread: Literal["question", "answer"] = "question"
    """`question`: the ways to ask for one answer may fall into different parts, so that a test asks
    new words for a known question; `answer`: they stay together, so that a test asks for answers
    that were never seen."""


def read_faq(path: Path, reading: Reading, settings: FaqSettings) -> Generator[Example]:
    """Yield an example of each question: of CSV, JSON lines, or replies in any other form."""
    plain = strip_compression(path)
    stem = reading.stem(path)

    def parse(number: int, line: str) -> Iterator[Example]:
        questions, answer = _questions(parse_object(line))
        if not questions:
            reading.drop(UNASKED)
        for index, question in enumerate(questions):
            yield Example((question,), answer, f"{stem}:{number}:{index}")

    suffix = plain.suffix.lower()
    if suffix == ".csv":
        examples = _of_csv(path, reading)
    elif suffix in ("", ".jsonl", ".ndjson"):
        examples = parse_lines(path, reading, parse)
    else:
        examples = _of_replies(path, reading)
    for example in settings.finish(examples, reading):
        key = example.context[-1] if settings.thread == "question" else example.response
        yield replace(example, thread=content_thread([key]), source="faq")


def _of_csv(path: Path, reading: Reading) -> Generator[Example]:
    """Yield the examples of a table of replies, or of pairs, which may have no header."""
    sample = inspect(path, _FOUND) if path.is_file() else None
    if sample is not None and (_names_replies(sample.columns) or _has_titles(sample)):
        return _of_replies(path, reading)
    return read_csv(path, reading, left_out=_left_out)


def _has_titles(sample: Sample) -> bool:
    """Return whether titles stand above the names of the columns."""
    rows = sampled_rows(sample.lines, find_delimiter(sample.lines, KNOWN_COLUMNS))
    return header_place(rows, KNOWN_COLUMNS) > 0


def _names_replies(header: Sequence[str]) -> bool:
    """Return whether the first row names columns, other than those of pairs."""
    if not all(map(is_name, header)) or pair_columns(header):
        return False
    return len(answering_columns(header)) > 1 or len(header) > 2


def _left_out(pair: Mapping[str, str]) -> str:
    """Return why a row is not an example, or nothing."""
    if not pair["response"].strip():
        return NO_REPLY
    if not pair["context"].strip():
        return UNASKED
    others = {name: cell for name, cell in pair.items() if name not in ("context", "response")}
    return why_unused(_FOUND) if is_inactive(others) else ""


def _of_replies(path: Path, reading: Reading) -> Generator[Example]:
    """Yield an example of each conversation that a reply answers."""
    name = reading.stem(path)
    replies = read_candidates(path, choice=_FOUND, reading=reading)
    for number, reply in enumerate(replies, 1):
        reading.lines += 1
        if not reply.examples:
            reading.drop(UNASKED)
        for index, context in enumerate(reply.examples):
            yield Example(context, reply.text, f"{name}:{number}:{index}")


def _questions(record: Mapping[str, Any]) -> tuple[list[str], str]:
    value = record.get("question", record.get("questions"))
    questions: list[Any] = value if isinstance(value, list) else [value]
    if value == "":
        questions = []
    texts = [*questions, record.get("answer")]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise BadRecordError(
            "question (a text), or questions (a list of texts), and answer (a text) are read; "
            f"none may be missing or blank; {describe_fields(record)}"
        )
    answer = text_of(record["answer"], "answer")
    return [text_of(question, "question") for question in questions], answer


FAQ = Corpus(
    name="faq",
    title="Your own questions with their answers, several questions an answer.",
    reads="*.csv with the columns question and answer, *.jsonl with question (or questions) and "
    "answer, and every form of replies that `rejoinder list formats` lists",
    licence="yours",
    origin="your own export",
    read=read_faq,
    split=split_by_shares,
    settings=FaqSettings,
)
