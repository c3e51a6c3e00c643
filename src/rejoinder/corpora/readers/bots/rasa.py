"""Rasa: responses with the examples of the intents that they answer.

A bot's folder (or zip file) is read whole: nlu and responses or domain files, and the rules and
stories that say which intent is answered by which response. YAML of Rasa 2 and 3, Markdown of 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample, Source, keep_open
from rejoinder.corpora.json_values import dicts, texts_of
from rejoinder.corpora.limits import check_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.yaml_text import load_yaml
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.patterns import match_pattern, search_pattern
from rejoinder.progress import counted

_ENTITY = search_pattern(r"\[([^\[\]]+)\](?:\([^()]*\)|\{[^{}]*\})")
_KEYS = search_pattern(r"^(?:nlu|responses|templates|intents|rules|stories):", re.MULTILINE)
_INTENT_STEP = search_pattern(r"^## *intent:", re.MULTILINE)
_ACTION = match_pattern(r"(?:utter_|action_|slot|form|reset)\S*")
_FILES = (".yml", ".yaml", ".md")


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
    names = [name for name in sample.members if name.lower().endswith(_FILES)]
    with keep_open(source.path):
        for file in [Source(source.path, name) for name in names] or [source]:
            _read_file(file, sample, choice, reading, bot)
    if not bot.responses:
        raise InputError(
            f"{source} holds no response with a text, {counted(len(bot.intents), 'intent')}; name"
            " the bot's folder, in which domain.yml or responses.yml is"
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


def examples_of_intents(sample: Sample) -> dict[str, list[str]]:
    """Return the examples of each intent in a file, in their order, without its responses."""
    bot = _Bot()
    _read_file(sample.source, sample, Choice(), Reading(), bot)
    return bot.intents


def _read_file(file: Source, sample: Sample, choice: Choice, reading: Reading, bot: _Bot) -> None:
    text = file.text(choice.encoding, reading)
    if file.name.suffix.lower() == ".md" or sample.kind == "markdown":
        _read_markdown(text, bot)
    else:
        _read_yaml(load_yaml(text, str(file)), bot)


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
        return any(name.endswith(_FILES) and name.startswith(parts) for name in names)
    if sample.kind == "markdown":
        return _INTENT_STEP.search(sample.text) is not None
    return sample.kind == "yaml" and _KEYS.search(sample.text) is not None


RASA = Form(
    name="rasa",
    title="Rasa bot's responses",
    holds="replies",
    export="Rasa: name the bot's folder, or domain.yml alone; nlu and rules give the questions",
    matches=_is_rasa,
    read=read_rasa,
)
