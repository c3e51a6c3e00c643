"""The corpus `faq`: a user's own questions with their answers (forms: docs/corpora.md)."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from rejoinder.corpora.corpus import Corpus, Shares, split_by_shares
from rejoinder.corpora.forms.csv_pairs import read_csv
from rejoinder.corpora.forms.formats import OwnSettings, describe_fields, text_of
from rejoinder.corpora.lines import Reading, strip_compression
from rejoinder.corpora.records import BadRecordError, parse_lines, parse_object
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import content_thread
from rejoinder.settings import documented

UNASKED = "replies without a question"  # a key of `Reading.dropped`


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

    def parse(number: int, line: str) -> Iterator[Example]:
        questions, answer = _questions(parse_object(line))
        if not questions:
            reading.drop(UNASKED)
        for index, question in enumerate(questions):
            yield Example((question,), answer, f"{plain.stem}:{number}:{index}")

    suffix = plain.suffix.lower()
    if suffix == ".csv":
        examples = read_csv(path, reading, unasked=UNASKED)
    elif suffix in ("", ".jsonl", ".ndjson"):
        examples = parse_lines(path, reading, parse)
    else:
        examples = _of_replies(path, reading)
    for example in settings.finish(examples, reading):
        key = example.context[-1] if settings.thread == "question" else example.response
        yield replace(example, thread=content_thread([key]), source="faq")


def _of_replies(path: Path, reading: Reading) -> Generator[Example]:
    """Yield an example of each conversation that a reply answers."""
    name = strip_compression(path).stem
    for number, reply in enumerate(read_candidates(path, reading=reading), 1):
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
