"""Replies as YAML: a list of entries, each with its answer and questions, or lists by category."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import dicts
from rejoinder.corpora.limits import check_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.columns import names_a_reply, reply_columns
from rejoinder.corpora.readers.answers.records import candidate_of, gathered
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
_NULL = frozenset(("", "~", "null", "Null", "NULL"))  # what the texts of YAML have for nothing


def read_yaml(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield the replies of the lists of a file."""
    name = str(sample.source)
    entries = [
        {key: value for key, value in entry.items() if not _is_null(value)}
        for entry in _entries(load_sample(sample, choice, reading))
    ]
    if choice.columns:
        named = entries
    else:
        named = [entry for entry in entries if names_a_reply(tuple(entry))]
    if not named:
        raise InputError(f"{name}: a list of entries with an answer is read")
    if len(entries) > len(named):
        reading.drop(NO_REPLY, len(entries) - len(named))

    def candidates() -> Iterator[Candidate]:
        count = 0
        for number, entry in enumerate(named, 1):
            where = f"{name}: entry {number}"
            if not choice.inactive and is_inactive(entry):
                reading.drop(why_unused(choice))
                continue
            count += sum(len(value) for value in entry.values() if isinstance(value, list))
            check_values(count, name)  # which references may repeat
            columns = reply_columns(tuple(entry), choice, where, "field")
            yield candidate_of(entry, columns, where)

    yield from gathered(candidates(), reading, sample.source)


def _is_null(value: Any) -> bool:
    return isinstance(value, str) and value in _NULL


def _entries(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the mappings of a list, or of the lists of a mapping."""
    lists = value.values() if isinstance(value, dict) else [value]
    for entries in lists:
        if isinstance(entries, list):
            yield from dicts(entries)


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
