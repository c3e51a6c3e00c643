"""Columns by their names: the usual ones, as `fold` writes them, and those of a file."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.errors import InputError
from rejoinder.patterns import search_pattern

MESSAGE = ("text", "message", "body", "content", "comment", "utterance", "msg")
REPLY = ("text", "response", "reply", "answer")
QUESTIONS = ("question", "questions", "examples", "patterns", "utterances", "phrases")
INTENT = ("intent", "intents", "label", "labels", "intent_name")
MAX_NAME = 100  # letters of a name whose keys are kept: it is compared with many
_CAMEL = search_pattern(r"(?<=[a-z0-9])(?=[A-Z])")


def fold(name: object) -> str:
    """Return the key by which names of columns are compared: no case, spaces, hyphens or dots."""
    return name_keys(name)[0]


def name_keys(name: object) -> tuple[str, str]:
    """Return the keys of a column's name, as it is and with camel case split: `ticketId`."""
    text = str(name)
    return _known_keys(text) if len(text) <= MAX_NAME else _keys(text)


def _keys(text: str) -> tuple[str, str]:
    return _key(text), _key(_CAMEL.sub(" ", text))


@functools.lru_cache(maxsize=4096)
def _known_keys(text: str) -> tuple[str, str]:
    return _keys(text)


def _key(text: str) -> str:
    return "_".join(text.casefold().replace("-", " ").replace(".", " ").split())


def is_known(name: object, known: Set[str]) -> bool:
    """Return whether a column's name is one of the known ones."""
    return not known.isdisjoint(name_keys(name))


def is_name(text: str) -> bool:
    """Return whether a cell may be the name of a column, and is not a sentence."""
    return len(text.split()) <= 3 and not any(char in text for char in ".!?,:;")


def find_column(names: Iterable[str], wanted: Sequence[str]) -> str | None:
    """Return the name that equals the first of the wanted ones that is there."""
    by_key = {key: name for name in reversed(list(names)) for key in name_keys(name)}
    return next((by_key[key] for key in wanted if key in by_key), None)


def columns_of(
    names: Sequence[str], words: Mapping[str, Sequence[str]], choice: Choice, where: str
) -> dict[str, str]:
    """Return the column of each role: the chosen one, or the first of the role's usual words.

    InputError: the choice names an unknown role, or a column that is not there.
    """
    if unknown := [role for role in choice.columns if role not in words]:
        raise InputError(f"columns={unknown[0]}=...: the columns are {', '.join(words)}")
    columns: dict[str, str] = {}
    for role, usual in words.items():
        name = find_column(names, usual)
        if role in choice.columns:
            wanted = choice.columns[role]
            name = find_column(names, [fold(wanted)])
            if name is None:
                raise InputError(
                    f"{where}: no column {wanted!r} for {role}; there is {_listed(names)}"
                )
        if name is not None and (role in choice.columns or name not in columns.values()):
            columns[role] = name
    return columns


def value_of(row: Mapping[str, Any], columns: Mapping[str, str], role: str) -> Any:
    """Return what a row has in the column of a role; None where no column has that role."""
    return row.get(columns[role]) if role in columns else None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(str, names[:12]))[:200] or "none"
