"""Replies as JSON: an object a line, in an array, or in the lists of an object."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import REPLY, find_column
from rejoinder.corpora.forms.json_rows import json_rows
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.columns import BODY, names_a_reply
from rejoinder.corpora.readers.answers.records import candidate_of, gathered
from rejoinder.corpora.readers.answers.shapes import RecordShapes, is_blank
from rejoinder.corpora.readers.answers.table import NO_REPLY
from rejoinder.corpora.readers.form import OF_JSON, Form
from rejoinder.corpora.readers.standing import is_inactive, why_unused
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError

_JUDGED = 1_000  # records: if none of them has a question, the file is not gathered by answer


def read_json(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each object (or text) of JSON lines, an array, or lists in an object."""
    paths = _list_paths(sample)
    rows = json_rows(sample, paths, reading)
    used = (
        (where, value)
        for where, value in rows
        if choice.inactive or not _is_unused(value, choice, reading)
    )
    shapes = RecordShapes(choice)
    judged, values = _peek(used)
    shapes.judge(value for _, value in judged if isinstance(value, dict))
    candidates = _candidates(values, shapes, reading)
    first = list(itertools.islice(candidates, _JUDGED))
    if notes := shapes.notes():
        reading.notes.append(f"{sample.source}: JSON: {notes[0]}")
        reading.notes += [f"{sample.source}: {note}" for note in notes[1:]]
    if unread := _unread_lists(sample, paths):
        reading.notes.append(
            f"{sample.source}: not read: {', '.join(unread)[:200]} (no field there is a reply by "
            "its name, such as answer); save what is one in a file of its own"
        )
    rest = itertools.chain(first, candidates)
    has_questions = any(candidate.examples for candidate in first)
    yield from gathered(rest, reading, sample.source) if has_questions else rest


def _peek(
    rows: Iterator[tuple[str, Any]],
) -> tuple[list[tuple[str, Any]], Iterator[tuple[str, Any]]]:
    """Return the first rows, and an iterator of all; an error of these comes at its place."""
    first: list[tuple[str, Any]] = []
    errors: list[InputError] = []
    try:
        first.extend(itertools.islice(rows, _JUDGED))
    except InputError as error:
        errors.append(error)

    def values() -> Iterator[tuple[str, Any]]:
        yield from first
        for error in errors:
            raise error
        yield from rows

    return first, values()


def _candidates(
    rows: Iterable[tuple[str, Any]], shapes: RecordShapes, reading: Reading
) -> Iterator[Candidate]:
    for where, value in rows:
        if isinstance(value, str) and value.strip() and "object" in where:
            yield Candidate(value.strip())
            continue
        if not isinstance(value, dict):
            raise InputError(
                f"{where}: a JSON {type(value).__name__}; an object is read, as "
                '{"text": "Hello!"}'
            )
        columns = shapes.columns(value, where)
        if is_blank(value[columns["text"]]):
            reading.drop(NO_REPLY)
        else:
            yield candidate_of(value, columns, where)


def _is_unused(value: Any, choice: Choice, reading: Reading) -> bool:
    """Return whether an object is not in use; count it then."""
    unused = isinstance(value, dict) and is_inactive(value)
    if unused:
        reading.drop(why_unused(choice))
    return unused


def _list_paths(sample: Sample) -> list[str]:
    """Return the paths of the lists of replies in an object; none if it is a reply itself.

    Lists of answers go before those of other texts, of which only one can be meant.
    """
    if _names(sample, "", (*REPLY, *BODY)):
        return []
    lists = _lists(sample)
    texts = [path for path in lists if _names(sample, f"{path}.", BODY)]
    answers = [
        path
        for path in lists
        if _names(sample, f"{path}.", REPLY)
        or (path not in texts and names_a_reply(_fields(sample, f"{path}.")))
    ]
    return answers or (texts if len(texts) == 1 else [])


def _lists(sample: Sample) -> list[str]:
    """Return the paths of the values of all lists that are fields of an object."""
    fields = [key.removesuffix(".item") for key in sorted(sample.keys) if key.endswith(".item")]
    return [f"{name}.item" for name in fields if "." not in name and name != "item"]


def _unread_lists(sample: Sample, paths: Sequence[str]) -> list[str]:
    """Return the names of the lists of objects with a text that are not read beside others."""
    others = [path for path in _lists(sample) if paths and path not in paths]
    return [
        path.removesuffix(".item")
        for path in others
        if _names(sample, f"{path}.", BODY) or len(_fields(sample, f"{path}.")) > 1
    ]


def _names(sample: Sample, base: str, wanted: Sequence[str]) -> bool:
    return find_column(_fields(sample, base), wanted) is not None


def _fields(sample: Sample, base: str) -> list[str]:
    """Return the names of the fields at a path in JSON."""
    keys = (key.removeprefix(base) for key in sample.keys if key.startswith(base))
    return sorted(key for key in keys if key and "." not in key)


JSON = Form(
    name="json",
    title="JSON of replies, an object a line or in an array",
    holds="replies",
    export="any tool or API: write an object with a text (and title, questions) for each reply",
    matches=lambda sample: (
        sample.kind == "json lines" or "item" in sample.keys or bool(_list_paths(sample))
    ),
    read=read_json,
    takes=OF_JSON,
)
