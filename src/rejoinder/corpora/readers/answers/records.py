"""A reply of a record, and one reply of all records with the same text."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rejoinder.corpora.forms.columns import fold, value_of
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.columns import holds_several, numbered_questions
from rejoinder.corpora.readers.answers.question_cells import (
    are_questions,
    itemized_questions,
    listed_questions,
    split_questions,
)
from rejoinder.corpora.readers.answers.texts.marks import asks, without_marks
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.html_text import text_of_html


def candidate_of(record: Mapping[str, Any], columns: Mapping[str, str], where: str) -> Candidate:
    """Return the reply of a record; all of it but the text and the questions is payload."""
    name = columns["text"]
    text = record[name]
    messages = text if isinstance(text, list) and text else [text]
    if not all(isinstance(message, str) and message.strip() for message in messages):
        raise InputError(
            f"{where}: {name} is {json.dumps(text, default=str)[:60]}; "
            "a text is needed, or a list of messages"
        )
    numbered = numbered_questions(tuple(record))
    taken = {name, columns.get("questions"), *numbered}
    payload = {key: value for key, value in record.items() if key not in taken}
    if messages is text:
        if "messages" in payload:
            raise InputError(
                f"{where}: {name} is a list of messages, but there is a field messages too; "
                "leave one out"
            )
        payload["messages"] = text
    joined = " ".join(messages)
    joined = text_of_html(joined, with_links=True) if fold(name).endswith("html") else joined
    title = value_of(record, columns, "title")
    asked = [columns["questions"]] if "questions" in columns else []
    examples = tuple(
        example
        for column in dict.fromkeys([*asked, *numbered])
        for example in _examples(record.get(column), column, where)
    )
    is_title = isinstance(title, str | int | float)
    return Candidate(joined, payload, str(title).strip() if is_title else "", examples)


def _examples(value: Any, name: str, where: str) -> tuple[tuple[str, ...], ...]:
    """Return the conversations of a field: a text, or a list of texts or of conversations."""
    if value is None or value in ("", []):
        return ()
    if isinstance(value, int | float):
        value = str(value)
    if isinstance(value, str):
        listed = itemized_questions(value) or listed_questions(value)
        is_split = holds_several(name) or are_questions(value.splitlines())
        written = split_questions(value) if is_split else [value]
        value = written if listed is None else listed
    if isinstance(value, list):
        examples = [[example] if isinstance(example, str) else example for example in value]
        if all(isinstance(messages, list) for messages in examples):
            texts = [text for messages in examples for text in messages]
            if all(isinstance(text, str) for text in texts):
                full = (tuple(filter(None, map(str.strip, messages))) for messages in examples)
                return tuple(filter(None, full))
    raise InputError(
        f"{where}: {name} is {json.dumps(value, default=str)[:60]}; a text is read, or a list of "
        "texts or of conversations"
    )


def gathered(
    candidates: Iterable[Candidate], reading: Reading, source: object
) -> Iterator[Candidate]:
    """Yield one reply for all with the same text, with the questions of all, in their first order.

    The first one's title and payload are kept; `reading` notes which fields of others are not.
    """
    replies: dict[str, Candidate] = {}
    questions: dict[str, dict[tuple[str, ...], None]] = {}
    lost: dict[str, None] = {}
    for candidate in candidates:
        first = replies.setdefault(candidate.text, candidate)
        questions.setdefault(candidate.text, {}).update(dict.fromkeys(candidate.examples))
        lost |= dict.fromkeys(
            name
            for name, value in candidate.payload.items()
            if name != "id" and value not in (None, "") and value != first.payload.get(name)
        )
        told = ("", first.title, *candidate.payload.values(), *itertools.chain(*candidate.examples))
        if candidate.title not in told:
            lost["title"] = None
    if lost:
        reading.notes.append(
            f"{source}: replies with the same text are one, with the questions of all and the "
            f"fields of the first: others differ in {', '.join(lost)}"
        )
    for text, candidate in replies.items():
        yield dataclasses.replace(candidate, examples=tuple(questions[text]))


def reply_to(question: str, answer: str, category: str = "") -> Candidate:
    """Return the reply to what a page asks; what ends without a question mark is a title alone."""
    question, answer = without_marks(" ".join(question.split()), answer)
    examples = ((question,),) if asks(question) else ()
    return Candidate(answer, {"category": category} if category else {}, question, examples)
