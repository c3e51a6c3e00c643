"""Replies as JSON: an object a line, in an array, or in the lists of an object."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import REPLY, find_column
from rejoinder.corpora.forms.json_rows import json_rows
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.columns import (
    BODY,
    misspelt,
    names_a_reply,
    numbered_questions,
    reply_columns,
    roles_of,
)
from rejoinder.corpora.readers.answers.records import candidate_of, gathered
from rejoinder.corpora.readers.form import OF_JSON, Form
from rejoinder.corpora.readers.standing import is_inactive, why_unused
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError

_JUDGED = 1_000  # records: if none of them has a question, the file is not gathered by answer


def read_json(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each object (or text) of JSON lines, an array, or lists in an object."""
    rows = json_rows(sample, _list_paths(sample), reading)
    columns: dict[tuple[str, ...], dict[str, str]] = {}  # by the names of the fields
    used = (
        (where, value)
        for where, value in rows
        if choice.inactive or not _is_unused(value, choice, reading)
    )
    candidates = (_of_json(value, choice, where, columns) for where, value in used)
    first = list(itertools.islice(candidates, _JUDGED))
    if columns:
        names, roles = next(iter(columns.items()))
        words = roles_of(roles, numbered_questions(names))
        reading.notes.append(f"{sample.source}: JSON: {words}")
        reading.notes += [f"{sample.source}: {note}" for note in misspelt(names, roles)]
    rest = itertools.chain(first, candidates)
    has_questions = any(candidate.examples for candidate in first)
    yield from gathered(rest, reading, sample.source) if has_questions else rest


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
    fields = [key.removesuffix(".item") for key in sorted(sample.keys) if key.endswith(".item")]
    lists = [f"{name}.item" for name in fields if "." not in name and name != "item"]
    answers = [path for path in lists if _names(sample, f"{path}.", REPLY)]
    answers = answers or [
        path
        for path in lists
        if not _names(sample, f"{path}.", BODY) and names_a_reply(_fields(sample, f"{path}."))
    ]
    texts = [path for path in lists if _names(sample, f"{path}.", BODY)]
    return answers or (texts if len(texts) == 1 else [])


def _names(sample: Sample, base: str, wanted: Sequence[str]) -> bool:
    return find_column(_fields(sample, base), wanted) is not None


def _fields(sample: Sample, base: str) -> list[str]:
    """Return the names of the fields at a path in JSON."""
    keys = (key.removeprefix(base) for key in sample.keys if key.startswith(base))
    return sorted(key for key in keys if key and "." not in key)


def _of_json(
    value: Any, choice: Choice, where: str, columns: dict[tuple[str, ...], dict[str, str]]
) -> Candidate:
    if isinstance(value, str) and value.strip() and "object" in where:
        return Candidate(value.strip())
    if not isinstance(value, dict):
        raise InputError(
            f'{where}: a JSON {type(value).__name__}; an object is read, as {{"text": "Hello!"}}'
        )
    names = tuple(value)
    if names not in columns:
        columns[names] = reply_columns(names, choice, where, "field")
    return candidate_of(value, columns[names], where)


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
