"""The intents.json of chatbot tutorials: tags with patterns and responses.

A bot draws one of the responses, so an intent is one reply; the others are its `variants`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import json_values, texts_of
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError

_FIELDS = ("tag", "intent", "name")


def read_intents(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each intent that has a response."""
    del choice
    path = "item" if "item.responses" in sample.keys else "intents.item"
    for number, (_, intent) in enumerate(
        json_values(sample.source, {path}, sample.encoding, reading), 1
    ):
        if not isinstance(intent, dict):
            raise InputError(f"{sample.source}: intent {number} is not an object with responses")
        responses = _texts_of_intent(intent.get("responses"))
        if not responses:
            reading.drop("intents without a response")
            continue
        name = next((str(intent[key]) for key in _FIELDS if intent.get(key)), "")
        questions = _texts_of_intent(intent.get("patterns")) or _texts_of_intent(
            intent.get("examples")
        )
        questions = questions or _texts_of_intent(intent.get("utterances"))
        payload: dict[str, Any] = {"id": name} if name else {}
        if responses[1:]:
            payload["variants"] = responses[1:]
        examples = tuple((question,) for question in dict.fromkeys(questions))
        yield Candidate(responses[0], payload, name.replace("_", " "), examples)


def _texts_of_intent(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text.strip() for text in texts_of(values)]


INTENTS_JSON = Form(
    name="intents-json",
    title="intents.json",
    holds="replies",
    export="the bot's own file: a list `intents` of objects with tag, patterns and responses",
    matches=lambda sample: any(
        f"{base}.responses" in sample.keys
        and any(f"{base}.{key}" in sample.keys for key in ("patterns", "tag", "utterances"))
        for base in ("intents.item", "item")
    ),
    read=read_intents,
)
