"""Dialogflow ES: the exported zip file of an agent, or its unpacked folder.

`intents/NAME.json` has the responses, `intents/NAME_usersays_LANG.json` the training phrases.
The texts of one message are alternatives, of which the bot draws one: they are `variants`.
Several messages of an intent are sent one after the other: they are one reply. Intents that need
an earlier one (input contexts, follow-ups), and fallback intents, answer no question: they are left
out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample, Source, keep_open
from rejoinder.corpora.json_values import texts_of
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.bots.intent_reply import candidate_of_messages
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.standing import CONDITIONAL
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.json_parsing import parse_json
from rejoinder.patterns import search_pattern

_PHRASES = search_pattern(r"_(?:usersays|entries)_([A-Za-z-]+)$")
_INTENT = search_pattern(r"(?:^|/)intents/[^/]+\.json$")


def read_dialogflow(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each intent that answers with a text, in each of its languages."""
    del choice
    with keep_open(sample.source.path):
        yield from _read_dialogflow(sample, reading)


def _read_dialogflow(sample: Sample, reading: Reading) -> Iterator[Candidate]:
    """Yield the replies of an agent's intents."""
    phrases: dict[str, dict[str, list[str]]] = {}  # by intent and language
    intents = {}
    for name in filter(_INTENT.search, sample.members):
        source = Source(sample.source.path, name)
        stem = PurePosixPath(name).with_suffix("").as_posix()
        try:
            values = parse_json(source.text(reading=reading))
        except ValueError as error:
            raise InputError(f"{source}: not JSON ({error}); export the agent again") from None
        if match := _PHRASES.search(stem):
            phrases.setdefault(stem[: match.start()], {})[match[1]] = _phrases(values)
        else:
            intents[stem] = values
    for stem, intent in intents.items():
        languages = _messages(intent)
        if reason := _why_left_out(intent) if languages else "intents without a response of text":
            reading.drop(reason)
            continue
        for language, messages in languages.items():
            by_language = phrases.get(stem, {})
            own = by_language.get(language) or (
                next(iter(by_language.values()), []) if len(languages) == 1 else []
            )
            name = str(intent.get("name") or PurePosixPath(stem).name)
            spoken = language if len(languages) > 1 else ""
            yield candidate_of_messages(name, messages, list(dict.fromkeys(own)), spoken)


def _why_left_out(intent: dict[str, Any]) -> str:
    """Return why an intent that has a response is no reply: a key of `Reading.dropped`."""
    if intent.get("fallbackIntent") is True:
        return "fallback intents"
    return CONDITIONAL if intent.get("contexts") or intent.get("parentId") else ""


def _messages(intent: Any) -> dict[str, list[list[str]]]:
    """Return the texts of an intent's messages by language, each with its alternatives."""
    languages: dict[str, list[list[str]]] = {}
    responses = intent.get("responses") if isinstance(intent, dict) else None
    responses = responses if isinstance(responses, list) else []
    for response in responses:
        messages = response.get("messages") if isinstance(response, dict) else None
        for message in messages if isinstance(messages, list) else ():
            speech = message.get("speech") if isinstance(message, dict) else None
            texts = texts_of(speech if isinstance(speech, list) else [speech])
            if texts:
                language = str(message.get("lang") or "")
                languages.setdefault(language, []).append([text.strip() for text in texts])
    return languages


def _phrases(values: Any) -> list[str]:
    texts = []
    for phrase in values if isinstance(values, list) else ():
        data = phrase.get("data") if isinstance(phrase, dict) else None
        pieces = (piece.get("text") for piece in data or () if isinstance(piece, dict))
        texts.append("".join(piece for piece in pieces if isinstance(piece, str)).strip())
    return [text for text in texts if text]


DIALOGFLOW = Form(
    name="dialogflow",
    title="Dialogflow agent",
    holds="replies",
    export="Dialogflow ES: agent settings (the wheel), Export and Import, Export as ZIP",
    matches=lambda sample: any(map(_INTENT.search, sample.members)),
    read=read_dialogflow,
)
