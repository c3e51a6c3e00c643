"""Espanso: a match file, whose matches replace a trigger by a text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import dicts, texts_of
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.yaml_text import load_sample
from rejoinder.corpora.schema import Candidate
from rejoinder.html_text import text_of_html
from rejoinder.patterns import search_pattern

_MATCHES = search_pattern(r"^matches:", re.MULTILINE)
_TRIGGER = search_pattern(r"^[ \t]{0,20}-?[ \t]{0,20}(?:triggers?|regex):", re.MULTILINE)


def read_espanso(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each match that writes a text."""
    values = load_sample(sample, choice, reading)
    for match in dicts(values.get("matches") if isinstance(values, dict) else None):
        texts = texts_of(match.get(key) for key in ("replace", "markdown", "form"))
        if not texts and isinstance(match.get("html"), str):
            texts = texts_of([text_of_html(match["html"], with_links=True)])
        if not texts:
            reading.drop("matches without a text")
            continue
        triggers = match.get("triggers")
        named = texts_of(triggers if isinstance(triggers, list) else [match.get("trigger")])
        payload = {"id": named[0]} if named else {}
        title = next(iter(texts_of([match.get("label")])), "")
        yield Candidate(texts[0].strip(), payload, title.strip())


ESPANSO = Form(
    name="espanso",
    title="Espanso matches",
    holds="replies",
    export="Espanso: a file of the folder match (`espanso path`), such as base.yml",
    matches=lambda sample: (
        sample.kind == "yaml"
        and _MATCHES.search(sample.text) is not None
        and _TRIGGER.search(sample.text) is not None
    ),
    read=read_espanso,
)
