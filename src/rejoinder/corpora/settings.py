"""Settings of a corpus: what there are, and reading those that a user gives, strictly."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import json
import textwrap
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rejoinder.checking import setting_value
from rejoinder.corpora.corpus import Corpus
from rejoinder.errors import InputError


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a corpus."""

    name: str
    kind: str
    """Its type, as the code writes it."""
    default: Any
    meaning: str
    """Its documentation."""

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}, default {json.dumps(self.default, default=str)}): {self.meaning}"


def settings_of(corpus: Corpus) -> list[Setting]:
    """The settings of a corpus, in the order of its dataclass."""
    meanings = _meanings(corpus.settings)
    return [
        Setting(field.name, _kind(field), _default(field), meanings.get(field.name, ""))
        for field in dataclasses.fields(corpus.settings)
    ]


def read_settings(corpus: Corpus, given: Sequence[str]) -> Any:
    """The settings of a corpus with some changed.

    Args:
        corpus: the corpus.
        given: "name=value" each; values in TOML's syntax, where a bare word may stand for a string. Of equal names
            the last one counts.

    Returns:
        An instance of `corpus.settings`.

    Raises:
        InputError: a setting is unknown, its value of the wrong type or not allowed; what is allowed is listed.
    """
    known = {setting.name: setting for setting in settings_of(corpus)}
    values: dict[str, Any] = {}
    for each in given:
        name, equals, text = (part.strip() for part in each.partition("="))
        if not equals or not name:
            raise InputError(f"--set {each}: write it as name=value")
        if name not in known:
            raise InputError(f"--set {each}: {_unknown(corpus, name, known)}")
        values[name] = setting_value(each, text)
    try:
        # As JSON, where strict validation takes arrays for tuples.
        return TypeAdapter(corpus.settings).validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        raise InputError(_refusal(corpus, error, values, known)) from None
    except InputError as error:  # from the dataclass's own checks
        raise InputError(f"settings of {corpus.name}: {error}") from None


def _unknown(corpus: Corpus, name: str, known: dict[str, Setting]) -> str:
    if not known:
        return f"{corpus.name} has no settings"
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]}?" if near else ";"
    return f"{corpus.name} has no such setting{hint} allowed: {'; '.join(map(str, known.values()))}"


def _refusal(corpus: Corpus, error: ValidationError, values: dict[str, Any], known: dict[str, Setting]) -> str:
    """One line about the first value that pydantic complains of."""
    details = error.errors(include_url=False)
    name = next((str(part) for part in details[0]["loc"] if part in values), "")
    reason = details[0]["msg"].removeprefix("Value error, ").replace("Input should be", "it should be")
    if not name:
        return f"settings of {corpus.name}: {reason}"
    return f"--set {name}={json.dumps(values[name], default=str)[:60]} is not allowed: {reason}; {known[name]}"


def _kind(field: dataclasses.Field[Any]) -> str:
    return field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    assert field.default_factory is not dataclasses.MISSING, f"{field.name} has no default"
    return field.default_factory()


def _meanings(settings: type) -> dict[str, str]:
    """The documentation below each field, by its name."""
    meanings = {}
    for each in reversed(settings.__mro__):
        if not dataclasses.is_dataclass(each):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                text = _text_of(below)
                if text:
                    meanings[field.target.id] = " ".join(text.split())
    return meanings


def _text_of(node: ast.stmt) -> str:
    value = node.value if isinstance(node, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
