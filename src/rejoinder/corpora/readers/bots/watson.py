"""IBM Watson Assistant: a dialog skill with its intents, and the nodes that answer them.

A node's condition names intents (`#hours || #open`). Nodes below another one, and those whose
condition asks for more than intents, answer only in their place, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import dicts, json_values, texts_of
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.bots.intent_reply import candidate_of_messages
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.standing import CONDITIONAL
from rejoinder.corpora.schema import Candidate
from rejoinder.patterns import match_pattern, search_pattern

_INTENTS = match_pattern(r"\s*#[^\s#|&@$()!]+\s*(?:(?:\|\||or)\s*#[^\s#|&@$()!]+\s*)*")
_INTENT = search_pattern(r"#([^\s#|&@$()!]+)")
_BASES = ("", "workspace.")


def _base(sample: Sample) -> str | None:
    return next((base for base in _BASES if f"{base}dialog_nodes.item.output" in sample.keys), None)


def read_watson(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each node that answers intents alone."""
    del choice
    base = _base(sample) or ""
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
    messages = _messages(node.get("output"))
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
    yield candidate_of_messages(intents[0], messages, list(texts))


def _messages(output: Any) -> list[list[str]]:
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
        texts = text.get("values") if isinstance(text, dict) else text
        alternatives = texts_of(texts if isinstance(texts, list) else [texts])
        messages = [[own.strip() for own in alternatives]] if alternatives else []
    return messages


WATSON = Form(
    name="watson",
    title="Watson Assistant dialog skill",
    holds="replies",
    export="Watson Assistant: the dialog skill's menu, Export (or Download); the .json",
    matches=lambda sample: _base(sample) is not None,
    read=read_watson,
)
