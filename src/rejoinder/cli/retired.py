"""Retired spellings of commands, and what replaces each."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rejoinder.errors import InputError

OPTIONS: dict[str, Mapping[str, str]] = {
    "data": {"--about": "", "--redact": "--set redact=true", "--respond": "--set respond={}"},
    "evaluate": {"--index": "{}", "--context-table": "--context table"},
    "reply": {"--no-repeat": "--omit both", "--copies": "--omit nothing"},
    "chat": {"--repeat": "--omit copies", "--copies": "--omit repeats"},
    "intents train": {"--several": "--multi-label"},
}
"""Retired options of a verb; {} stands for the option's value."""
VERBS = {("evaluate", "--index"): "index evaluate", ("data", "--about"): "corpora"}
"""Verbs to which an option has moved."""
PAIRS = {"reply": {"--no-repeat", "--copies"}, "chat": {"--repeat", "--copies"}}
"""Options of a verb that together are one value of --omit."""
TOGETHER = {"reply": "--omit repeats", "chat": "--omit nothing"}


def refuse_retired(verb: str, words: Sequence[str]) -> None:
    """Raise InputError with today's spelling if `words` are an earlier one.

    They follow the verb.
    """
    today = _index(words) if verb == "index" else _options(verb, words)
    if today:
        raise InputError(f"this was the spelling of an earlier release; now it is: {today}")


def _options(verb: str, words: Sequence[str]) -> str | None:
    """Return the command with today's options, None if none of its options is retired."""
    retired = dict(OPTIONS.get(verb, {}))
    if verb in PAIRS and PAIRS[verb] <= set(words):
        first, second = sorted(PAIRS[verb])
        retired = {first: TOGETHER[verb], second: ""}
    renewed = list[str]()
    target = verb
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "--":
            renewed += [word, *rest]
        elif name not in retired:
            renewed.append(word)
        else:
            target = VERBS.get((verb, name), target)
            template = retired[name]
            if "{}" in template and not equals:
                value = next(rest, "VALUE")
            renewed += [part.replace("{}", value) for part in template.split()]
    return None if renewed == list(words) else _line(target, renewed)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"not the spelling of an earlier release: {message}")


def _old_index() -> _Parser:
    """Return a parser of `rejoinder index` as it was: one verb with an option for each job."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("names", nargs="*")
    parser.add_argument("-o", "--output")
    for job in ("append", "reencode", "compact", "approximate", "exact", "map"):
        parser.add_argument(f"--{job}", action="store_true")
    parser.add_argument("--delete", action="append", default=[])
    parser.add_argument("--delete-id", action="append", default=[])
    for flag in _FLAGS:
        parser.add_argument(f"--{flag}", action="store_true")
    for option in _VALUES:
        parser.add_argument(f"--{option}")
    return parser


_FLAGS = ("deduplicate", "overwrite", "json")
_VALUES = ("split", "limit", "store", "engine", "address", "recall", "method", "data")
_OF_TUNE = ("recall", "method", "data")


def _index(words: Sequence[str]) -> str | None:
    """Return the commands of today that do what `rejoinder index` did with these words."""
    try:
        old = _old_index().parse_intermixed_args(list(words))
    except (InputError, argparse.ArgumentError):
        return None
    if old.output is None and len(old.names) == 1:  # a folder alone, as it is written today
        old.output = old.names.pop()
    if old.output is None or len(old.names) > 2:
        return None
    lines = _changes(old) if len(old.names) < 2 else [_encoding(old)]
    if old.approximate:
        named = ["--model", old.names[0]] if old.names else []
        lines.append(_line("index tune", [old.output, *named, *_given(old, (*_OF_TUNE, "json"))]))
    if old.exact:
        lines.append(_line("index tune", [old.output, "--method", "exact", *_given(old, ["json"])]))
    if old.map:
        lines.append(_line("index map", [old.output, *_given(old, ["json"])]))
    return " && ".join(lines) or None


def _changes(old: Any) -> list[str]:
    """Return the commands for what was deleted and compacted."""
    ids = [word for name in old.delete_id for word in ("--id", name)]
    lines = []
    if old.delete or ids:
        lines.append(_line("index delete", [old.output, *old.delete, *ids, *_given(old, ["json"])]))
    if old.compact:
        lines.append(_line("index compact", [old.output, *_given(old, ["json"])]))
    return lines


def _encoding(old: Any) -> str:
    """Return the command that encodes replies."""
    model, replies = old.names
    options = _given(old, [name for name in (*_FLAGS, *_VALUES) if name not in _OF_TUNE])
    if old.reencode:
        return _line("index reencode", [replies, model, "-o", old.output, *options])
    if old.append:
        return _line("index add", [old.output, replies, "--model", model, *options])
    return _line("index build", [model, replies, "-o", old.output, *options])


def _given(old: Any, names: Sequence[str]) -> list[str]:
    """Return those of some options that the command has."""
    words = []
    for name in names:
        value = getattr(old, name)
        if value:
            words += [f"--{name}"] if value is True else [f"--{name}", value]
    return words


def _line(verb: str, words: Sequence[str]) -> str:
    return f"rejoinder {verb} {shlex.join(words)}"
