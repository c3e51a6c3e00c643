"""Dialogflow CX: the zip file of an agent exported as a JSON package, or its unpacked folder.

Training phrases are in intents/NAME/trainingPhrases/LANGUAGE.json, the answers in the routes of
flows/NAME/NAME.json and of their groups. Routes of pages answer only on those pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample, Source, keep_open
from rejoinder.corpora.json_values import dicts, texts_of
from rejoinder.corpora.limits import check_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.bots.intent_reply import candidate_of_messages
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.standing import CONDITIONAL
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.json_parsing import parse_json
from rejoinder.patterns import search_pattern

_PHRASES = search_pattern(r"(?:^|/)intents/([^/]+)/trainingPhrases/([^/]+)\.json$")
_FLOW = search_pattern(r"(?:^|/)flows/([^/]+)/(?:[^/]+|transitionRouteGroups/[^/]+)\.json$")
_PAGE = search_pattern(r"(?:^|/)flows/([^/]+)/pages/([^/]+)\.json$")


def read_dialogflow_cx(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each intent that a flow answers with a text, in each of its languages."""
    del choice
    with keep_open(sample.source.path):
        yield from _read(sample, reading)


def _read(sample: Sample, reading: Reading) -> Iterator[Candidate]:
    """Yield the replies of an agent's flows."""

    def content(name: str) -> dict[str, Any]:
        source = Source(sample.source.path, name)
        try:
            value = parse_json(source.text(reading=reading))
        except ValueError as error:
            raise InputError(f"{source}: not JSON ({error}); export the agent again") from None
        return value if isinstance(value, dict) else {}

    phrases: dict[str, dict[str, list[str]]] = {}
    pages: dict[tuple[str, str], dict[str, Any]] = {}
    for name in sample.members:
        if match := _PHRASES.search(name):
            phrases.setdefault(match[1], {})[match[2]] = _phrases_of(content(name))
        elif match := _PAGE.search(name):
            page = content(name)
            pages[match[1], str(page.get("displayName") or match[2])] = page
            count = sum(bool(route.get("intent")) for route in dicts(page.get("transitionRoutes")))
            if count:
                reading.drop(CONDITIONAL, count)
    count = 0
    flows = ((name, match[1]) for name in sample.members if (match := _FLOW.search(name)))
    for name, flow in flows:
        for route in _free_routes(content(name), reading):
            for reply in _of_route(route, flow, pages, phrases, reading):
                count += 1 + len(reply.examples)
                check_values(count, str(sample.source))
                yield reply


def _free_routes(flow: Mapping[str, Any], reading: Reading) -> Iterator[dict[str, Any]]:
    """Yield the routes of a flow that an intent takes, whatever the parameters are."""
    for route in dicts(flow.get("transitionRoutes")):
        if route.get("intent"):
            if str(route.get("condition") or "true").strip().lower() == "true":
                yield route
            else:
                reading.drop(CONDITIONAL)


def _of_route(
    route: Mapping[str, Any],
    flow: str,
    pages: Mapping[tuple[str, str], Mapping[str, Any]],
    phrases: Mapping[str, Mapping[str, list[str]]],
    reading: Reading,
) -> Iterator[Candidate]:
    """Yield a route's reply in each language, with the phrases of its intent."""
    intent = str(route["intent"])
    languages = _messages(route.get("triggerFulfillment"))
    if not languages:
        page = pages.get((flow, str(route.get("targetPage") or "")), {})
        languages = _messages(page.get("entryFulfillment"))
    if not languages:
        reading.drop("intents without a response of text")
    by_language = phrases.get(intent, {})
    for language, messages in languages.items():
        own = by_language.get(language)
        if own is None:
            own = next(iter(by_language.values()), []) if len(languages) == 1 else []
        shown = language if len(languages) > 1 else ""
        yield candidate_of_messages(intent, messages, list(dict.fromkeys(own)), shown)


def _messages(fulfillment: Any) -> dict[str, list[list[str]]]:
    """Return the texts of messages by language, each with its alternatives."""
    languages: dict[str, list[list[str]]] = {}
    messages = fulfillment.get("messages") if isinstance(fulfillment, dict) else None
    for message in dicts(messages):
        text = message.get("text")
        values = text.get("text") if isinstance(text, dict) else None
        alternatives = texts_of(values if isinstance(values, list) else [values])
        if alternatives:
            language = str(message.get("languageCode") or "")
            languages.setdefault(language, []).append([own.strip() for own in alternatives])
    return languages


def _phrases_of(values: Mapping[str, Any]) -> list[str]:
    joined = (
        "".join(str(part.get("text") or "") for part in dicts(phrase.get("parts"))).strip()
        for phrase in dicts(values.get("trainingPhrases"))
    )
    return [text for text in joined if text]


def _is_cx(sample: Sample) -> bool:
    return any(_PHRASES.search(name) or _FLOW.search(name) for name in sample.members)


DIALOGFLOW_CX = Form(
    name="dialogflow-cx",
    title="Dialogflow CX agent",
    holds="replies",
    export="Dialogflow CX: the agent's menu, Export, Export format: JSON package; the .zip",
    matches=_is_cx,
    read=read_dialogflow_cx,
)
