"""Texts of LUIS, CLU, wit.ai, Watson, Alexa, Rasa's JSON and intents.json, with their intents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from rejoinder.corpora.json_values import dicts, texts_of
from rejoinder.patterns import search_pattern

# Objects in which exports have their lists: Rasa's, CLU's, wit.ai's, Watson's and Alexa's.
_WITHIN = ("rasa_nlu_data", "assets", "data", "workspace", "languageModel")
_SLOT = search_pattern(r"\{([^{}]{0,80})\}")  # of an Alexa sample: the name of what is said there
_TEXTS = ("examples", "patterns", "utterances")  # of an intent, in its object
_TITLES = ("intent", "tag", "name")  # of an intent, in its object
_NONE = "None"  # the intent of texts out of scope, which every app of LUIS or CLU has


@dataclass(frozen=True, slots=True)
class Utterance:
    """A text of an export."""

    text: str | None  # None: the entry is not a text
    intent: str | None
    part: str = "train"  # or test, as CLU has it
    out_of_scope: str = ""  # what the form has for texts out of scope, if this is one


def read_export(content: dict[str, Any]) -> list[Utterance]:
    """Return the texts of an export; none of a file that has no text with an intent."""
    skill = content.get("interactionModel")
    content = skill if isinstance(skill, dict) else content
    maker = _maker(content)
    read: list[Utterance] = []
    for part in (content, *(content.get(name) for name in _WITHIN)):
        if isinstance(part, dict):
            rows = filter(_has_text, dicts(part.get("utterances")))
            read += (_utterance(row, maker) for row in rows)
            read += _examples(part)
    has_intents = any(
        utterance.intent is not None and utterance.text is not None for utterance in read
    )
    return read if has_intents else []


def notes_on(read: Collection[Utterance]) -> Iterator[str]:
    """Yield how many texts are read as out of scope, and how many entries are left out."""
    for form, count in Counter(
        utterance.out_of_scope for utterance in read if utterance.out_of_scope
    ).items():
        yield f"{form} read as out of scope, {count:,} texts"
    if count := sum(utterance.text is None for utterance in read):
        yield f"entries of intents that are not texts are left out, {count:,} in all"
    if count := sum(
        utterance.text is not None and utterance.intent is None and not utterance.out_of_scope
        for utterance in read
    ):
        yield f"texts without an intent are left out, {count:,} texts"


def _maker(content: dict[str, Any]) -> str:
    """Return whose utterances these are, if that is known."""
    if "luis_schema_version" in content:
        return "LUIS"
    return "CLU" if isinstance(content.get("assets"), dict) else "wit.ai"


def _utterance(row: dict[str, Any], maker: str) -> Utterance:
    """Return a text with its intent; wit.ai gives one that is out of scope none."""
    intent = _name(row.get("intent"))
    form = ""
    if maker == "wit.ai":
        is_tagged = "entities" in row or "traits" in row
        form = "wit.ai's utterances without an intent are" if intent is None and is_tagged else ""
    elif intent == _NONE:
        form = f"{maker}'s intent None is"
    is_test = maker == "CLU" and str(row.get("dataset")).lower() == "test"
    return Utterance(row["text"], intent, "test" if is_test else "train", form)


def _examples(part: dict[str, Any]) -> Iterator[Utterance]:
    """Yield the examples of Rasa, Watson, Alexa and intents.json."""
    for row in filter(_has_text, dicts(part.get("common_examples"))):
        yield Utterance(row["text"], _name(row.get("intent")))
    for intent in dicts(part.get("intents")):
        yield from _intent_texts(intent)
    for row in filter(_has_text, dicts(part.get("counterexamples"))):
        yield Utterance(row["text"], None, out_of_scope="Watson's counterexamples are")


def _intent_texts(intent: dict[str, Any]) -> Iterator[Utterance]:
    """Yield the texts of an intent's object, which are strings or have a field `text`."""
    title = next((intent[key] for key in _TITLES if isinstance(intent.get(key), str)), None)
    for sample in texts_of(_listed(intent.get("samples"))):
        yield Utterance(_SLOT.sub(r"\1", sample), title)
    entries = [entry for key in _TEXTS for entry in _listed(intent.get(key))]
    entries += intent["text"] if isinstance(intent.get("text"), list) else []
    for entry in entries:
        text = entry.get("text") if isinstance(entry, dict) else entry
        if not isinstance(text, str):
            yield Utterance(None, title)
        elif text.strip():
            yield Utterance(text, title)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _has_text(row: dict[str, Any]) -> bool:
    return isinstance(row.get("text"), str)


def _name(intent: Any) -> str | None:
    return intent if isinstance(intent, str) else None
