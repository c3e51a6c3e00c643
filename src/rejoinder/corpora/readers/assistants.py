"""Exports of assistants whose replies belong to intents: Watson, Dialogflow CX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rejoinder.corpora.limits import check_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.schema import Candidate
from rejoinder.corpora.source import Sample, Source, dicts, json_values, keep_open, texts_of
from rejoinder.corpora.tables import Choice
from rejoinder.errors import InputError
from rejoinder.files import parse_json
from rejoinder.patterns import match_pattern, search_pattern

CONDITIONAL = "replies that are bound to a condition, an entity or an earlier step"

# IBM Watson Assistant: a dialog skill with its intents, and the nodes that answer them.
#
# A node's condition names intents (`#hours || #open`). Nodes below another one, and those whose
# condition asks for more than intents, answer only in their place, and are left out.

_INTENTS = match_pattern(r"\s*#[^\s#|&@$()!]+\s*(?:(?:\|\||or)\s*#[^\s#|&@$()!]+\s*)*")
_INTENT = search_pattern(r"#([^\s#|&@$()!]+)")
_WATSON_BASES = ("", "workspace.")


def _watson_base(sample: Sample) -> str | None:
    return next(
        (base for base in _WATSON_BASES if f"{base}dialog_nodes.item.output" in sample.keys), None
    )


def read_watson(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each node that answers intents alone."""
    del choice
    base = _watson_base(sample) or ""
    phrases: dict[str, list[str]] = {}
    nodes: list[dict[str, Any]] = []
    wanted = {f"{base}intents.item", f"{base}dialog_nodes.item"}
    for path, value in json_values(sample.source, wanted, sample.encoding, reading):
        if not isinstance(value, dict):
            continue
        if path.endswith("dialog_nodes.item"):
            nodes.append(value)
        else:
            examples = texts_of(item.get("text") for item in dicts(value.get("examples")))
            phrases[str(value.get("intent"))] = examples
    for node in nodes:
        yield from _of_node(node, phrases, reading)


def _of_node(
    node: Mapping[str, Any], phrases: Mapping[str, list[str]], reading: Reading
) -> Iterator[Candidate]:
    messages = _watson_messages(node.get("output"))
    if not messages:
        return
    condition = str(node.get("conditions") or "")
    if "#" not in condition:
        reading.drop("nodes without an intent (welcome, anything else)")
        return
    if node.get("parent") or not _INTENTS.fullmatch(condition):
        reading.drop(CONDITIONAL)
        return
    intents = _INTENT.findall(condition)
    texts = dict.fromkeys(text for name in intents for text in phrases.get(name, ()))
    yield _with_messages(intents[0], messages, list(texts))


def _with_messages(
    name: str, messages: list[list[str]], questions: list[str], language: str = ""
) -> Candidate:
    """Return a reply of messages that follow each other, each with its alternatives."""
    payload: dict[str, Any] = {"id": name}
    if language:
        payload["language"] = language
    if len(messages) > 1:
        payload["messages"] = [alternatives[0] for alternatives in messages]
    elif messages[0][1:]:
        payload["variants"] = messages[0][1:]
    text = " ".join(alternatives[0] for alternatives in messages)
    title = " ".join(name.replace("_", " ").replace("-", " ").replace(".", " ").split())
    return Candidate(text, payload, title, tuple((each,) for each in questions))


def _watson_messages(output: Any) -> list[list[str]]:
    """Return the messages of a node's output, in its forms of before and after 2018."""
    output = output if isinstance(output, dict) else {}
    messages = []
    for entry in dicts(output.get("generic")):
        values = texts_of(value.get("text") for value in dicts(entry.get("values")))
        alternatives = values or texts_of([entry.get("text")])
        if entry.get("selection_policy") == "multiline":
            messages += [[text.strip()] for text in alternatives]
        elif alternatives:
            messages.append([text.strip() for text in alternatives])
    text = output.get("text")
    if not messages and text is not None:
        given = text.get("values") if isinstance(text, dict) else text
        alternatives = texts_of(given if isinstance(given, list) else [given])
        messages = [[own.strip() for own in alternatives]] if alternatives else []
    return messages


WATSON = Form(
    name="watson",
    title="Watson Assistant dialog skill",
    holds="replies",
    export="Watson Assistant: the dialog skill's menu, Export (or Download); the .json",
    matches=lambda sample: _watson_base(sample) is not None,
    read=read_watson,
)


# Dialogflow CX: the zip file of an agent exported as a JSON package, or its unpacked folder.
#
# Training phrases are in intents/NAME/trainingPhrases/LANGUAGE.json, the answers in the routes of
# flows/NAME/NAME.json and of their groups. Routes of pages answer only on those pages.

_PHRASES = search_pattern(r"(?:^|/)intents/([^/]+)/trainingPhrases/([^/]+)\.json$")
_FLOW = search_pattern(r"(?:^|/)flows/([^/]+)/(?:[^/]+|transitionRouteGroups/[^/]+)\.json$")
_PAGE = search_pattern(r"(?:^|/)flows/([^/]+)/pages/([^/]+)\.json$")


def read_dialogflow_cx(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each intent that a flow answers with a text, in each of its languages."""
    del choice
    with keep_open(sample.source.path):
        yield from _read_cx(sample, reading)


def _read_cx(sample: Sample, reading: Reading) -> Iterator[Candidate]:
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
            phrases.setdefault(match[1], {})[match[2]] = _cx_phrases(content(name))
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
    intent = str(route["intent"])
    languages = _cx_messages(route.get("triggerFulfillment"))
    if not languages:
        page = pages.get((flow, str(route.get("targetPage") or "")), {})
        languages = _cx_messages(page.get("entryFulfillment"))
    if not languages:
        reading.drop("intents without a response of text")
    by_language = phrases.get(intent, {})
    for language, messages in languages.items():
        own = by_language.get(language)
        if own is None:
            own = next(iter(by_language.values()), []) if len(languages) == 1 else []
        shown = language if len(languages) > 1 else ""
        yield _with_messages(intent, messages, list(dict.fromkeys(own)), shown)


def _cx_messages(fulfillment: Any) -> dict[str, list[list[str]]]:
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


def _cx_phrases(values: Mapping[str, Any]) -> list[str]:
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
