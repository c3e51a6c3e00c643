"""Exports of bots: Rasa, Dialogflow ES, and the intents.json of tutorials."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from rejoinder.corpora.limits import MAX_DEPTH, check_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.schema import Candidate
from rejoinder.corpora.source import Sample, Source, dicts, json_values, keep_open, texts_of
from rejoinder.corpora.tables import Choice
from rejoinder.errors import InputError
from rejoinder.files import parse_json
from rejoinder.patterns import match_pattern, search_pattern

# Rasa: responses with the examples of the intents that they answer.
#
# A bot's folder (or zip file) is read whole: nlu and responses or domain files, and the rules and
# stories that say which intent is answered by which response. YAML of Rasa 2 and 3, Markdown of 1.

_ENTITY = search_pattern(r"\[([^\[\]]+)\](?:\([^()]*\)|\{[^{}]*\})")
_RASA_KEYS = search_pattern(r"^(?:nlu|responses|templates|intents|rules|stories):", re.MULTILINE)
_INTENT_STEP = search_pattern(r"^## *intent:", re.MULTILINE)
_ACTION = match_pattern(r"(?:utter_|action_|slot|form|reset)\S*")
_RASA_FILES = (".yml", ".yaml", ".md")


@dataclass
class _Bot:
    """The contents of a bot's files."""

    intents: dict[str, list[str]] = field(default_factory=dict)  # examples by intent
    responses: dict[str, list[str]] = field(default_factory=dict)  # alternatives by response
    answers: dict[str, list[str]] = field(default_factory=dict)  # intents by response
    silent: int = 0  # responses without a text
    bound: int = 0  # variants for a channel, or while a slot has a value
    count: int = 0  # examples, which YAML may repeat by reference

    def add_examples(self, intent: str, texts: list[str]) -> None:
        """Add examples of an intent. InputError: they are too many."""
        self.count += len(texts)
        check_values(self.count, f"intent {intent}")
        self.intents.setdefault(intent, []).extend(texts)

    def link(self, intents: list[str], response: str) -> None:
        """Note that a response answers intents."""
        self.answers.setdefault(response, []).extend(intents)


def read_rasa(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each response; its alternatives are in the payload's `variants`."""
    bot = _Bot()
    source = sample.source
    names = [name for name in sample.members if name.lower().endswith(_RASA_FILES)]
    with keep_open(source.path):
        for file in [Source(source.path, name) for name in names] or [source]:
            text = file.text(choice.encoding, reading)
            if file.name.suffix.lower() == ".md" or sample.kind == "markdown":
                _read_markdown(text, bot)
            else:
                _read_yaml(load_yaml(text, str(file)), bot)
    if not bot.responses:
        raise InputError(
            f"{source} holds no response with a text, {len(bot.intents)} intents; name the bot's "
            "folder, in which domain.yml or responses.yml is"
        )
    if bot.silent:
        reading.drop("responses without a text", bot.silent)
    if bot.bound:
        reading.drop("variants of responses that are bound to a slot or a channel", bot.bound)
    used: set[str] = set()
    for name, (first, *others) in bot.responses.items():
        own = name.removeprefix("utter_")
        intents = dict.fromkeys([own, *bot.answers.get(name, ())])
        used.update(intents)
        texts = [(text,) for intent in intents for text in bot.intents.get(intent, ())]
        bot.count += len(texts)
        check_values(bot.count, f"{source}: response {name}")
        payload: dict[str, Any] = {"id": name}
        if others:
            payload["variants"] = others
        title = own.replace("_", " ").replace("/", " ")
        yield Candidate(first, payload, title, tuple(dict.fromkeys(texts)))
    if unused := sum(intent not in used for intent in bot.intents):
        reading.drop("intents without a response of their name or in a rule", unused)


def load_yaml(text: str, name: str) -> Any:
    """Return what YAML says, with all scalars as texts.

    InputError: it is none, too large, or nested too deep.
    """
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        depth = 0
        for count, event in enumerate(yaml.parse(text, Loader=loader)):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            check_values(count, name)
            if depth > MAX_DEPTH:  # the loader would use up the stack, and Python with it
                raise InputError(f"{name}: YAML nested more than {MAX_DEPTH} deep")
        return yaml.load(text, Loader=loader)  # noqa: S506
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        reason = getattr(error, "problem", None) or " ".join(str(error).split())
        raise InputError(f"{where}: not YAML ({str(reason)[:120]})") from None
    except RecursionError:
        raise InputError(f"{name}: YAML nested too deep") from None


def _read_yaml(values: Any, bot: _Bot) -> None:
    if not isinstance(values, dict):
        return
    for item in dicts(values.get("nlu")):
        if isinstance(item.get("intent"), str):
            bot.add_examples(item["intent"], _example_texts(item.get("examples")))
    for key in ("responses", "templates"):
        responses = values.get(key)
        for name, variants in responses.items() if isinstance(responses, dict) else ():
            _read_response(str(name), variants, bot)
    for item in [*dicts(values.get("rules")), *dicts(values.get("stories"))]:
        _link_steps(dicts(item.get("steps")), bot)


def _read_response(name: str, variants: Any, bot: _Bot) -> None:
    listed = variants if isinstance(variants, list) else [variants]
    free = [variant for variant in listed if not _is_bound(variant)]
    texts = _variant_texts(free)
    bot.bound += len(_variant_texts(listed)) - len(texts)
    if texts:
        bot.responses[name] = [text.strip() for text in texts]
    bot.silent += not _variant_texts(listed)


def _variant_texts(variants: list[Any]) -> list[str]:
    return texts_of(
        variant.get("text") if isinstance(variant, dict) else variant for variant in variants
    )


def _is_bound(variant: Any) -> bool:
    """Return whether a variant is only for some channel, or while a slot has some value."""
    return isinstance(variant, dict) and bool(variant.get("condition") or variant.get("channel"))


def _link_steps(steps: list[dict[str, Any]], bot: _Bot) -> None:
    """Note which actions follow which intents in a rule or story."""
    intents: list[str] = []
    answered = True
    for step in steps:
        if isinstance(step.get("intent"), str):
            intents = [step["intent"]] if answered else [*intents, step["intent"]]
            answered = False
        elif isinstance(step.get("action"), str):
            answered = True
            bot.link(intents, step["action"])


def _example_texts(value: Any) -> list[str]:
    """Return the examples of an intent: a text with lines that begin with "- ", or a list."""
    if isinstance(value, list):
        texts = texts_of(item.get("text") if isinstance(item, dict) else item for item in value)
    else:
        lines = value.splitlines() if isinstance(value, str) else []
        texts = [line.strip()[2:] for line in lines if line.strip().startswith("- ")]
    return [_ENTITY.sub(r"\1", text).strip() for text in texts]


def _read_markdown(text: str, bot: _Bot) -> None:
    section = intent = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("## "):
            section = line[3:].strip()
        elif line.startswith("* "):
            intent = line[2:].strip().partition("{")[0].partition(" ")[0]
        elif line.startswith("- ") and section.startswith("intent:"):
            name = section.removeprefix("intent:").strip()
            bot.add_examples(name, _example_texts([line[2:]]))
        elif line.startswith("- ") and intent and not section.startswith(("synonym", "regex")):
            answer = line[2:].strip()
            if _ACTION.fullmatch(answer):
                bot.link([intent], answer)
            else:
                bot.responses.setdefault(f"utter_{intent}", []).append(answer)


def _is_rasa(sample: Sample) -> bool:
    if sample.kind in ("folder", "zip"):
        names = [name.rpartition("/")[2].lower() for name in sample.members]
        parts = ("nlu", "domain", "responses", "stories", "rules")
        return any(name.endswith(_RASA_FILES) and name.startswith(parts) for name in names)
    if sample.kind == "markdown":
        return _INTENT_STEP.search(sample.text) is not None
    return sample.kind == "yaml" and _RASA_KEYS.search(sample.text) is not None


RASA = Form(
    name="rasa",
    title="Rasa bot's responses",
    holds="replies",
    export="Rasa: name the bot's folder, or domain.yml alone; nlu and rules give the questions",
    matches=_is_rasa,
    read=read_rasa,
)


# Rasa: the conversations that its trackers record.


def read_trackers(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the conversation of each tracker."""
    del choice
    for _, tracker in json_values(sample.source, {"", "item"}, sample.encoding, reading):
        for record in tracker if isinstance(tracker, list) else [tracker]:
            if isinstance(record, dict) and isinstance(record.get("events"), list):
                yield _tracked(record)


def _tracked(record: dict[str, Any]) -> Chat:
    chat = Chat(name=str(record.get("sender_id", "")))
    for event in dicts(record["events"]):
        kind = event.get("event")
        text = event.get("text")
        if kind == "restart" or (kind == "session_started" and not chat.messages):
            continue
        if kind in ("user", "bot") and isinstance(text, str) and not text.startswith("/"):
            time = event.get("timestamp")
            when = float(time) if isinstance(time, int | float) else None
            chat.messages.append(ChatMessage(str(kind), text, when, agent=kind == "bot"))
    return chat


RASA_TRACKERS = Form(
    name="rasa-trackers",
    title="Rasa trackers",
    holds="chats",
    export="Rasa: GET /conversations/ID/tracker of each conversation, an object a line",
    matches=lambda sample: sample.has("events", "events.item.event", "sender_id"),
    read=read_trackers,
)


# Dialogflow ES: the exported zip file of an agent, or its unpacked folder.
#
# `intents/NAME.json` has the responses, `intents/NAME_usersays_LANG.json` the training phrases.
# The texts of one message are alternatives, of which the bot draws one: they are `variants`.
# Several messages of an intent are sent one after the other: they are one reply.

_NAME_SIGNS = search_pattern(r"[._\s-]+")
_PHRASES = search_pattern(r"_(?:usersays|entries)_([A-Za-z-]+)$")
_INTENT = search_pattern(r"(?:^|/)intents/[^/]+\.json$")


def read_dialogflow(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each intent that answers with a text, in each of its languages."""
    del choice
    with keep_open(sample.source.path):
        yield from _read_dialogflow(sample, reading)


def _read_dialogflow(sample: Sample, reading: Reading) -> Iterator[Candidate]:
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
        if not languages:
            reading.drop("intents without a response of text")
        for language, messages in languages.items():
            by_language = phrases.get(stem, {})
            own = by_language.get(language) or (
                next(iter(by_language.values()), []) if len(languages) == 1 else []
            )
            name = str(intent.get("name") or PurePosixPath(stem).name)
            yield _reply(name, language if len(languages) > 1 else "", messages, own)


def _reply(name: str, language: str, messages: list[list[str]], phrases: list[str]) -> Candidate:
    payload: dict[str, Any] = {"id": name}
    if language:
        payload["language"] = language
    if len(messages) > 1:
        payload["messages"] = [alternatives[0] for alternatives in messages]
    elif messages[0][1:]:
        payload["variants"] = messages[0][1:]
    text = " ".join(alternatives[0] for alternatives in messages)
    examples = tuple((phrase,) for phrase in dict.fromkeys(phrases))
    return Candidate(text, payload, _NAME_SIGNS.sub(" ", name).strip(), examples)


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


# The intents.json of chatbot tutorials: tags with patterns and responses.
#
# A bot draws one of the responses, so an intent is one reply; the others are its `variants`.

_INTENTS_FIELDS = ("tag", "intent", "name")


def read_intents(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each intent that has a response."""
    del choice
    path = "item" if "item.responses" in sample.keys else "intents.item"
    for number, (_, intent) in enumerate(
        json_values(sample.source, {path}, sample.encoding, reading), 1
    ):
        if not isinstance(intent, dict):
            raise InputError(f"{sample.source}: intent {number} is no object with responses")
        responses = _texts_of_intent(intent.get("responses"))
        if not responses:
            reading.drop("intents without a response")
            continue
        name = next((str(intent[key]) for key in _INTENTS_FIELDS if intent.get(key)), "")
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
