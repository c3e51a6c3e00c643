"""Replies as YAML: a list of entries, each with its answer and questions, or lists by category."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.columns import names_a_reply
from rejoinder.corpora.readers.answers.nested import CategoryRecord, candidates_of, entries_of
from rejoinder.corpora.readers.form import OF_JSON, Form
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
        CategoryRecord(category, {key: value for key, value in record.items() if value is not None})
        for category, record in entries_of(load_sample(sample, choice, reading, nulls=True))
    ]
    if not choice.columns and not any(names_a_reply(entry.record) for entry in entries):
        fields = dict.fromkeys(str(key) for entry in entries for key in entry.record)
        there = f"the entries have {', '.join(fields)[:200]}" if fields else "there is no list"
        raise InputError(
            f"{name}: no entry with an answer, {there}; write a list of entries, each with "
            "`answer: ...` and `questions: [...]`"
        )
    yield from candidates_of(entries, choice, reading, name, YAML.title)


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
