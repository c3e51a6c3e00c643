"""Utterances of LUIS, wit.ai, Watson Assistant, Alexa and Rasa's JSON, with their intents."""

from __future__ import annotations

from typing import Any

from rejoinder.corpora.json_values import dicts, texts_of
from rejoinder.patterns import search_pattern

# Objects in which exports have their lists: Rasa's, CLU's, wit.ai's, Watson's and Alexa's.
_WITHIN = ("rasa_nlu_data", "assets", "data", "workspace", "languageModel")
_SLOT = search_pattern(r"\{([^{}]{0,80})\}")  # of an Alexa sample: the name of what is said there

NONE_OF_LUIS = "None"  # its intent of texts out of scope, which every app has


def is_luis(content: dict[str, Any]) -> bool:
    """Return whether a file is an export of LUIS."""
    return "luis_schema_version" in content


def utterances(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the texts and intents of an export; none of other files."""
    skill = content.get("interactionModel")
    content = skill if isinstance(skill, dict) else content
    parts = [content, *(content.get(name) for name in _WITHIN)]
    listed: list[dict[str, Any]] = []
    for part in parts:
        if not isinstance(part, dict):
            continue
        listed += dicts(part.get("utterances"))
        listed += dicts(part.get("common_examples"))
        listed += (
            {"text": example.get("text"), "intent": intent.get("intent")}
            for intent in dicts(part.get("intents"))
            for example in dicts(intent.get("examples"))
        )
        listed += (
            {"text": _SLOT.sub(r"\1", sample), "intent": intent.get("name")}
            for intent in dicts(part.get("intents"))
            if isinstance(intent.get("samples"), list)
            for sample in texts_of(intent["samples"])
        )
    return [
        (each["text"], each["intent"])
        for each in listed
        if isinstance(each.get("text"), str) and isinstance(each.get("intent"), str)
    ]
