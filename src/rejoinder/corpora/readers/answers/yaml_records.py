"""Replies as YAML: a list of entries, each with its answer and questions, or lists by category."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import dicts
from rejoinder.corpora.limits import check_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.columns import names_a_reply
from rejoinder.corpora.readers.answers.records import candidate_of, gathered
from rejoinder.corpora.readers.answers.shapes import RecordShapes, is_blank
from rejoinder.corpora.readers.answers.table import NO_REPLY
from rejoinder.corpora.readers.form import OF_JSON, Form
from rejoinder.corpora.readers.standing import is_inactive, why_unused
from rejoinder.corpora.readers.yaml_text import load_sample
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.patterns import search_pattern

_ANSWER = search_pattern(r"^[ \t]{0,8}-?[ \t]{0,8}(?:answer|reply|response|a):", re.MULTILINE)
_ASKED = search_pattern(
    r"^[ \t]{0,8}-?[ \t]{0,8}(?:questions?|examples|patterns|utterances|q):",
    re.MULTILINE,
)


def read_yaml(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield the replies of the lists of a file."""
    name = str(sample.source)
    entries = [
        {key: value for key, value in entry.items() if value is not None}
        for entry in _entries(load_sample(sample, choice, reading, nulls=True))
    ]
    named = [entry for entry in entries if choice.columns or names_a_reply(tuple(entry))]
    if not named:
        fields = dict.fromkeys(str(key) for entry in entries for key in entry)
        there = f"the entries have {', '.join(fields)[:200]}" if fields else "there is no list"
        raise InputError(
            f"{name}: no entry with an answer, {there}; write a list of entries, each with "
            "`answer: ...` and `questions: [...]`"
        )
    if len(entries) > len(named):
        reading.drop(NO_REPLY, len(entries) - len(named))
    shapes = RecordShapes(choice)
    shapes.judge(named)
    candidates = list(_candidates(named, shapes, choice, reading, name))
    if notes := shapes.notes():
        reading.notes.append(f"{name}: {YAML.title}: {notes[0]}")
        reading.notes += [f"{name}: {note}" for note in notes[1:]]
    yield from gathered(candidates, reading, sample.source)


def _candidates(
    entries: Iterable[dict[str, Any]],
    shapes: RecordShapes,
    choice: Choice,
    reading: Reading,
    name: str,
) -> Iterator[Candidate]:
    count = 0
    for number, entry in enumerate(entries, 1):
        where = f"{name}: entry {number}"
        if not choice.inactive and is_inactive(entry):
            reading.drop(why_unused(choice))
            continue
        count += sum(len(value) for value in entry.values() if isinstance(value, list))
        check_values(count, name)  # which references may repeat
        columns = shapes.columns(entry, where)
        if is_blank(entry[columns["text"]]):
            reading.drop(NO_REPLY)
        else:
            yield candidate_of(entry, columns, where)


def _entries(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the mappings of a list, or of the lists in a mapping, by whatever categories."""
    waiting = [value]
    known: set[int] = set()  # references may repeat a mapping
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, list):
            yield from dicts(inner)
        elif isinstance(inner, dict) and id(inner) not in known:
            known.add(id(inner))
            waiting.extend(reversed(inner.values()))


YAML = Form(
    name="yaml",
    title="YAML of replies",
    holds="replies",
    export="write a list of entries with answer and questions",
    matches=lambda sample: (
        sample.kind == "yaml"
        and _ANSWER.search(sample.text) is not None
        and _ASKED.search(sample.text) is not None
    ),
    read=read_yaml,
    takes=OF_JSON,
)
