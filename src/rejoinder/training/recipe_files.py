"""Recipes as files: reading with overrides, writing with every default, comparing two of them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from rejoinder.checking import read_toml, setting_value, validate
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.models.families import FAMILIES, family
from rejoinder.training.init import fill_in_teacher, take_over
from rejoinder.training.recipe import Recipe
from rejoinder.training.toml_text import holds_tables, to_toml, toml_value

SHORTHANDS = ("optimizer", "schedule")
"""Tables of a stage that may be given by their kind alone."""

ALTERNATIVES = (
    ("steps", "epochs", "minutes"),
    ("steps", "share", "learned"),
    ("target_size", "minimum_count"),
    ("warm_up_steps", "warm_up_share"),
    ("every_steps", "every_epochs", "every_seconds"),
    ("margin", "share"),
)
"""Keys of one table of which one is given: setting one on the command line takes the recipe's other one away."""

VOCABULARIES = ("subwords", "ngrams", "bpe")
"""Kinds of tokenizers."""

COMBINED = ("checkpoint",)
"""Tables in which all of them may be given."""

PLACES = re.compile(r"init\.model|init\.transformer|distillation\.teacher|data\.(mix\.\d+\.)?train|data\.cache")
"""Keys that say where something is: a run may go on after its data moved, since what it holds is compared."""

MEMORY = re.compile(r"stage\.\d+\.micro_batch")
"""Keys that say how much memory is used: a run may go on with less of it, in fewer processes, say."""


def load_recipe(path: str | Path, overrides: Sequence[str] = (), *, resolved: bool = False) -> Recipe:
    """Read a recipe.

    Args:
        path: a TOML file.
        overrides: settings "section.key=value" that win over the file; values in TOML's syntax, where a bare word
            may stand for a string; `stage.0.key` is a key of the first stage.
        resolved: the file was written by `save_recipe`: what came from the model of `init.model` is in it already,
            and that model may be gone.

    Raises:
        InputError: the file is missing or not TOML, a key is unknown, a value of the wrong type or not allowed; or
            the model of `init.model` is missing, or another one than the recipe says.
    """
    path = Path(path)
    document = read_toml(path, "no such recipe; give the path of a TOML file")
    return parse_recipe(document, overrides, origin=str(path), resolved=resolved)


def parse_recipe(
    document: Mapping[str, Any], overrides: Sequence[str] = (), origin: str = "recipe", *, resolved: bool = False
) -> Recipe:
    """Validate a recipe that has been read already; see `load_recipe`. `origin` is what errors call it."""
    copy: dict[str, Any] = deepcopy(dict(document))
    for setting in overrides:
        override(copy, setting)
    stages = copy.get("stage")
    for stage in stages if isinstance(stages, list) else ():
        for key in SHORTHANDS:
            if isinstance(stage, dict) and isinstance(stage.get(key), str):
                stage[key] = {"kind": stage[key]}
    if isinstance(vocabulary := copy.get("vocabulary"), dict):
        vocabulary.setdefault("kind", "subwords")
    if not resolved:
        take_over(copy, origin, _resolve_model)
        fill_in_teacher(copy, origin)
    if isinstance(copy.get("model"), dict):
        copy["model"] = _resolve_model(copy["model"], origin)
    _check_tokenizer(copy, origin)
    return validate(Recipe, copy, origin)


def _check_tokenizer(document: Mapping[str, Any], origin: str) -> None:
    """Refuse a tokenizer that the model does not read; other mistakes are left to validation."""
    model, vocabulary = document.get("model"), document.get("vocabulary")
    if isinstance(model, dict) and isinstance(vocabulary, dict):
        kind, wanted, given = model["kind"], family(model["kind"]).vocabulary, vocabulary.get("kind")
        if given in VOCABULARIES and given != wanted:
            raise InputError(
                f"{origin}: a model of model.kind = '{kind}' reads vocabulary.kind = '{wanted}', not '{given}'"
            )


def recipe_document(recipe: Recipe) -> dict[str, Any]:
    """The recipe as nested dictionaries, every default written out, absent values left out."""
    document: dict[str, Any] = _without_none(dataclasses.asdict(recipe))
    return document


def save_recipe(recipe: Recipe, path: str | Path) -> None:
    """Write the resolved recipe; `load_recipe` gives an equal one back."""
    with atomic_file(path) as part:
        part.write_text(to_toml(recipe_document(recipe)), encoding="utf-8")


def first_difference(old: Recipe, new: Recipe) -> str | None:
    """Name the first key in which two recipes differ, with both values.

    Returns:
        None if a run of the old one can go on as the new one: they are equal but for the keys in `PLACES` and `MEMORY`.
    """
    olds, news = (dict(_leaves(recipe_document(recipe))) for recipe in (old, new))
    for key in [*news, *(key for key in olds if key not in news)]:
        free = PLACES.fullmatch(key) or MEMORY.fullmatch(key)
        if not free and olds.get(key) != news.get(key):
            was, now = (toml_value(values[key]) if key in values else "not given" for values in (olds, news))
            return f"{key} was {was} and is now {now}"
    return None


def _resolve_model(section: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Check [model] against the configuration of its kind; all its defaults written out."""
    kind = section.get("kind")
    if kind not in FAMILIES:
        given = "is missing" if kind is None else f"= {kind!r} is not allowed"
        raise InputError(f"{origin}: model.kind {given}; allowed: {', '.join(map(repr, FAMILIES))}")
    config = validate(family(kind).config, section, origin, "model")
    return {"kind": kind, **dataclasses.asdict(config)}


def override(document: dict[str, Any], setting: str) -> None:
    """Apply one setting "section.key=value" to a document that was read from TOML.

    Raises:
        InputError: it is not written so, or names something below a plain value or an entry that is not there.
    """
    key, equals, text = setting.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise InputError(f"--set {setting}: write it as section.key=value")
    table: Any = document
    for depth, part in enumerate(parts[:-1]):
        if part.isdecimal() and (table == [] or (isinstance(table, dict) and part not in table)):
            above = ".".join(parts[:depth])
            raise InputError(f"--set {setting}: the recipe lists nothing in '{above}', so there is no entry {part}")
        if isinstance(table, dict) and part in SHORTHANDS and isinstance(table.get(part), str):
            table[part] = {"kind": table[part]}
        table = table.setdefault(part, {}) if isinstance(table, dict) else _entry(table, part, setting)
    if not isinstance(table, dict):
        raise InputError(f"--set {setting}: '{'.'.join(parts[:-1])}' is not a table, so it has no key '{parts[-1]}'")
    if parts[0] not in COMBINED:
        for other in (key for keys in ALTERNATIVES if parts[-1] in keys for key in keys):
            table.pop(other, None)
    table[parts[-1]] = setting_value(setting, text.strip())


def _entry(table: Any, part: str, setting: str) -> Any:
    """One entry of an array of tables."""
    if not isinstance(table, list):
        raise InputError(f"--set {setting}: '{part}' is below a plain value, which has no keys")
    if not part.isdecimal() or int(part) >= len(table):
        raise InputError(f"--set {setting}: there is no entry {part}; there are 0 to {len(table) - 1}")
    return table[int(part)]


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list | tuple) else value


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of everything that is not a table."""
    if not holds_tables(value):
        yield prefix, value
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(item, f"{prefix}.{key}" if prefix else str(key))
