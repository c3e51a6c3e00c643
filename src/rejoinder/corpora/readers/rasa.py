"""Rasa: responses with the examples of the intents that they answer.

A bot's folder (or zip file) is read whole: nlu and responses or domain files, and the rules and
stories that say which intent is answered by which response. YAML of Rasa 2 and 3, Markdown of 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rejoinder.corpora.example import Candidate
from rejoinder.corpora.form import Form
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.source import Sample, Source, dicts, texts_of
from rejoinder.corpora.tables import Choice
from rejoinder.errors import InputError

_ENTITY = re.compile(r"\[([^\[\]]+)\](?:\([^()]*\)|\{[^{}]*\})")
_KEYS = re.compile(r"^(?:nlu|responses|templates|intents|rules|stories):", re.MULTILINE)
_INTENT = re.compile(r"^## *intent:", re.MULTILINE)
_FILES = (".yml", ".yaml", ".md")


@dataclass
class _Bot:
    """The contents of a bot's files."""

    intents: dict[str, list[str]] = field(default_factory=dict)  # examples by intent
    responses: dict[str, list[str]] = field(default_factory=dict)  # alternatives by response
    answers: dict[str, list[str]] = field(default_factory=dict)  # intents by response
    silent: int = 0  # responses without a text

    def link(self, intents: list[str], response: str) -> None:
        """Note that a response answers intents."""
        self.answers.setdefault(response, []).extend(intents)


def read_rasa(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each response; its alternatives are in the payload's `variants`."""
    bot = _Bot()
    source = sample.source
    names = [name for name in sample.members if name.lower().endswith(_FILES)]
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
    used: set[str] = set()
    for name, (first, *others) in bot.responses.items():
        own = name.removeprefix("utter_")
        intents = dict.fromkeys([own, *bot.answers.get(name, ())])
        used.update(intents)
        texts = [(text,) for intent in intents for text in bot.intents.get(intent, ())]
        payload: dict[str, Any] = {"id": name}
        if others:
            payload["variants"] = others
        title = own.replace("_", " ").replace("/", " ")
        yield Candidate(first, payload, title, tuple(dict.fromkeys(texts)))
    if unused := sum(intent not in used for intent in bot.intents):
        reading.drop("intents without a response of their name or in a rule", unused)


def load_yaml(text: str, name: str) -> Any:
    """Return what YAML says, with all scalars as texts."""
    import yaml

    try:
        return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))  # noqa: S506
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
            bot.intents.setdefault(item["intent"], []).extend(_examples(item.get("examples")))
    for key in ("responses", "templates"):
        responses = values.get(key)
        for name, variants in responses.items() if isinstance(responses, dict) else ():
            _read_response(str(name), variants, bot)
    for item in [*dicts(values.get("rules")), *dicts(values.get("stories"))]:
        _link_steps(dicts(item.get("steps")), bot)


def _read_response(name: str, variants: Any, bot: _Bot) -> None:
    texts = texts_of(
        variant.get("text") if isinstance(variant, dict) else variant
        for variant in (variants if isinstance(variants, list) else [variants])
    )
    if texts:
        bot.responses[name] = [text.strip() for text in texts]
    bot.silent += not texts


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


def _examples(value: Any) -> list[str]:
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
            intent = re.split(r"[{ ]", line[2:].strip())[0]
        elif line.startswith("- ") and section.startswith("intent:"):
            name = section.removeprefix("intent:").strip()
            bot.intents.setdefault(name, []).extend(_examples([line[2:]]))
        elif line.startswith("- ") and intent and not section.startswith(("synonym", "regex")):
            answer = line[2:].strip()
            if re.fullmatch(r"(?:utter_|action_|slot|form|reset)\S*", answer):
                bot.link([intent], answer)
            else:
                bot.responses.setdefault(f"utter_{intent}", []).append(answer)


def _is_rasa(sample: Sample) -> bool:
    if sample.kind in ("folder", "zip"):
        names = [name.rpartition("/")[2].lower() for name in sample.members]
        parts = ("nlu", "domain", "responses", "stories", "rules")
        return any(name.endswith(_FILES) and name.startswith(parts) for name in names)
    if sample.kind == "markdown":
        return _INTENT.search(sample.text) is not None
    return sample.kind == "yaml" and _KEYS.search(sample.text) is not None


FORM = Form(
    name="rasa",
    title="Rasa bot's responses",
    holds="replies",
    export="Rasa: name the bot's folder, or domain.yml alone; nlu and rules give the questions",
    matches=_is_rasa,
    read=read_rasa,
)
