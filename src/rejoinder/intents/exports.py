"""Utterances of LUIS, wit.ai, Watson Assistant and Rasa's JSON, with their intents."""

from __future__ import annotations

from typing import Any

from rejoinder.corpora.json_values import dicts

# Objects in which exports have their lists: Rasa's, CLU's, wit.ai's and Watson's.
_WITHIN = ("rasa_nlu_data", "assets", "data", "workspace")


def utterances(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the texts and intents of an export; none of other files."""
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
    return [
        (each["text"], each["intent"])
        for each in listed
        if isinstance(each.get("text"), str) and isinstance(each.get("intent"), str)
    ]
