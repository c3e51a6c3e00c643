"""Forms that hold neither replies nor chats, or are not read: named, with how to convert them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rejoinder.corpora.forms.source import Sample
from rejoinder.patterns import search_pattern

_UTTERANCES = (
    "these are messages that people wrote, with their intents, and no replies; train a classifier "
    "of them with `rejoinder intents train`, or use an export that has the bot's answers"
)
_AS_TABLE = (
    "write the replies as a table with the columns answer and question, or as JSON lines of "
    '{"text": "...", "questions": ["..."]}'
)


@dataclass(frozen=True)
class Refused:
    """A form that is not read."""

    title: str
    matches: Callable[[Sample], bool]
    advice: str


def _has(sample: Sample, *keys: str) -> bool:
    return sample.keys.issuperset(keys)


def _ends(sample: Sample, *suffixes: str) -> bool:
    return sample.source.name.suffix.lower() in suffixes


_UTTERANCE_LINE = search_pattern(r"^[ \t]{0,8}-[ \t]", re.MULTILINE)

REFUSED = [
    Refused(
        "LUIS or CLU utterances",
        lambda sample: (
            "luis_schema_version" in sample.keys
            or _has(sample, "assets.utterances.item.text", "assets.utterances.item.intent")
        ),
        _UTTERANCES,
    ),
    Refused(
        "Bot Framework's .lu utterances",
        lambda sample: _ends(sample, ".lu") and _UTTERANCE_LINE.search(sample.text) is not None,
        "these are messages that people wrote, with their intents, and no replies; write them as a "
        "table with the columns text and label for `rejoinder intents train`",
    ),
    Refused(
        "utterances of wit.ai, or of another trainer of intents",
        lambda sample: any(
            _has(sample, f"{base}.text", f"{base}.{intent}")
            for base in ("utterances.item", "data.utterances.item")
            for intent in ("intent", "intents", "label")
        ),
        _UTTERANCES,
    ),
    Refused(
        "Rasa's training data in JSON",
        lambda sample: "rasa_nlu_data.common_examples.item.intent" in sample.keys,
        _UTTERANCES,
    ),
    Refused(
        "an Alexa skill's interaction model",
        lambda sample: any(
            f"{base}languageModel.intents.item.samples" in sample.keys
            for base in ("", "interactionModel.")
        ),
        _UTTERANCES,
    ),
    Refused(
        "an Amazon Lex bot",
        lambda sample: any(  # a bot, or one of its intents (version 2: one Intent.json each)
            f"{base}{intent}sampleUtterances" in sample.keys
            for base in ("", "resource.")
            for intent in ("", "intents.item.")
        ),
        f"of its intents the closing responses are not read; {_AS_TABLE}",
    ),
    Refused(
        "intents of Watson Assistant without a dialog",
        lambda sample: any(
            _has(sample, f"{base}intents.item.intent", f"{base}intents.item.examples")
            and f"{base}intents.item.responses" not in sample.keys
            and f"{base}dialog_nodes.item.output" not in sample.keys
            and f"{base}actions.item" not in sample.keys
            for base in ("", "workspace.")
        ),
        _UTTERANCES,
    ),
    Refused(
        "an actions skill of Watson Assistant",
        lambda sample: any(
            f"{base}actions.item.steps" in sample.keys for base in ("", "workspace.")
        ),
        f"the steps of actions are not read; {_AS_TABLE}",
    ),
    Refused(
        "a flow of Botpress Cloud",
        lambda sample: _has(sample, "flows.item.nodes", "settings"),
        f"its nodes are not read; {_AS_TABLE}",
    ),
]


def refused_form(sample: Sample) -> Refused | None:
    """Return the form of a file that is not read, if it has one of these."""
    return next((form for form in REFUSED if form.matches(sample)), None)
