"""Replies as JSON within categories: of lists, or of objects of answers by their questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import json_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.columns import names_questions_too
from rejoinder.corpora.readers.answers.nested import candidates_of, entries_of
from rejoinder.corpora.readers.answers.texts.marks import asks
from rejoinder.corpora.readers.form import OF_JSON, Form
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError

_OUTERMOST = 2  # parts of a path such as "faq.item", whose records the form `json` reads


def read_categories(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield the replies of the records in a file, at any depth."""
    source = str(sample.source)
    values = json_values(sample.source, {""}, sample.encoding, reading)
    entries = [entry for _, value in values for entry in entries_of(value)]
    if not entries:
        raise InputError(f"{source}: no list of objects in it; each reply is an object of a list")
    yield from candidates_of(entries, choice, reading, source, JSON_CATEGORIES.title)


def _is_nested(sample: Sample) -> bool:
    """Return whether questions and their answers are deeper in a file than in a list of it."""
    if sample.kind == "json lines" and sum(map(bool, map(str.strip, sample.lines))) > 1:
        return False
    fields: dict[str, list[str]] = defaultdict(list)
    for key in sorted(sample.keys):
        base, _, name = key.rpartition(".")
        fields[base].append(name)
    answered = [base for base, names in fields.items() if names_questions_too(names)]
    asked = [base for base, names in fields.items() if base and all(map(asks, names))]
    is_outer = any(base.count(".") < _OUTERMOST for base in answered)
    return bool(asked or answered) and not is_outer


JSON_CATEGORIES = Form(
    name="json-categories",
    title="JSON of replies by category",
    holds="replies",
    export="any tool: write an object with answer and question for each reply, by category",
    matches=lambda sample: sample.kind in ("json", "json lines") and _is_nested(sample),
    read=read_categories,
    takes=OF_JSON,
)
