"""Replies in YAML: text expanders, ticket systems and small bots."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers import gathered
from rejoinder.corpora.readers.bots import load_yaml
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.html_text import text_of_html
from rejoinder.corpora.readers.standing import INACTIVE, is_inactive
from rejoinder.corpora.schema import Candidate
from rejoinder.corpora.source import Sample, dicts, texts_of
from rejoinder.corpora.tables import Choice
from rejoinder.errors import InputError
from rejoinder.patterns import search_pattern

# Espanso: a match file, whose matches replace a trigger by a text.

_MATCHES = search_pattern(r"^matches:", re.MULTILINE)
_TRIGGER = search_pattern(r"^[ \t]{0,20}-?[ \t]{0,20}(?:triggers?|regex):", re.MULTILINE)


def _loaded(sample: Sample, choice: Choice, reading: Reading) -> Any:
    return load_yaml(sample.source.text(choice.encoding, reading), str(sample.source))


def read_espanso(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each match that writes a text."""
    values = _loaded(sample, choice, reading)
    for match in dicts(values.get("matches") if isinstance(values, dict) else None):
        texts = texts_of(match.get(key) for key in ("replace", "markdown", "form"))
        if not texts and isinstance(match.get("html"), str):
            texts = texts_of([text_of_html(match["html"])])
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


# ChatterBot: a training corpus, whose conversations are lists of statements.

_CONVERSATIONS = search_pattern(r"^conversations:", re.MULTILINE)
_STATEMENT = search_pattern(r"^[ \t]{0,8}-[ \t]{1,8}-[ \t]", re.MULTILINE)


def read_chatterbot(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each statement that answers another one."""
    values = _loaded(sample, choice, reading)
    conversations = values.get("conversations") if isinstance(values, dict) else None
    categories = values.get("categories") if isinstance(values, dict) else None
    named = texts_of(categories if isinstance(categories, list) else [])
    payload = {"category": named[0]} if named else {}

    def replies() -> Iterator[Candidate]:
        for conversation in conversations if isinstance(conversations, list) else ():
            texts = texts_of(conversation if isinstance(conversation, list) else ())
            statements = [text.strip() for text in texts]
            if len(statements) < 2:
                reading.drop("conversations of one statement")
            for asked, answer in itertools.pairwise(statements):
                yield Candidate(answer, payload, "", ((asked,),))

    yield from gathered(replies())


CHATTERBOT = Form(
    name="chatterbot",
    title="ChatterBot corpus",
    holds="replies",
    export="ChatterBot: the .yml files of the corpus that the bot was trained on",
    matches=lambda sample: (
        sample.kind == "yaml"
        and _CONVERSATIONS.search(sample.text) is not None
        and _STATEMENT.search(sample.text) is not None
    ),
    read=read_chatterbot,
)


# osTicket: canned responses in the YAML that its command line writes.

_RESPONSE = search_pattern(r"^[ \t]{0,8}-?[ \t]{0,8}response:", re.MULTILINE)
_TITLE = search_pattern(r"^[ \t]{0,8}-?[ \t]{0,8}title:", re.MULTILINE)


def read_osticket(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each canned response that is enabled."""
    values = _loaded(sample, choice, reading)
    if not isinstance(values, list):
        raise InputError(f"{sample.source}: a list of canned responses is read")
    for entry in dicts(values):
        if not choice.inactive and is_inactive(entry):
            reading.drop(INACTIVE)
            continue
        text = text_of_html(str(entry.get("response") or ""))
        if not text:
            reading.drop("entries without a text")
            continue
        title = str(entry.get("title") or "").strip()
        examples = ((title,),) if title.endswith("?") else ()
        yield Candidate(text, {}, title, examples)


OSTICKET = Form(
    name="osticket",
    title="osTicket canned responses",
    holds="replies",
    export="osTicket: php manage.php canned export -f canned.yaml, or templates/premade.yaml",
    matches=lambda sample: (
        sample.kind == "yaml"
        and _RESPONSE.search(sample.text) is not None
        and _TITLE.search(sample.text) is not None
    ),
    read=read_osticket,
)
