"""TOML files and settings, and their strict validation against a dataclass.

An error is one line that names the key, what was given, and what is allowed.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from rejoinder.errors import InputError
from rejoinder.files import refuse_endless

T = TypeVar("T")
_LARGEST = 2**63 - 1


def read_toml(path: str | Path, wanted: str) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        path: the file.
        wanted: what to say when it is not there: what is missing, and what to give instead.

    Raises:
        InputError: it is missing, no ordinary file, or not TOML.
    """
    path = Path(path)
    try:
        refuse_endless(path)
        return _parse_toml(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(f"{path}: {wanted}") from None
    except ValueError as error:
        raise InputError(f"{path}: not a TOML file: {error}") from None


def setting_value(setting: str, text: str) -> Any:
    """The value of `--set KEY=VALUE` in TOML's syntax, where a bare word may stand for a string (shells eat quotes).

    Raises:
        InputError: it is no value; `setting` is what the error calls it.
    """
    try:
        read = _parse_toml(f"value = {text}")
    except ValueError as error:
        if isinstance(error, tomllib.TOMLDecodeError) and re.fullmatch(r"[^\s\"'\[\]{}=,]+", text):
            return text
        raise InputError(f"--set {_short(setting)}: the value is not TOML: {error}") from None
    if list(read) != ["value"]:
        raise InputError(f"--set {_short(setting)}: give one value")
    return read["value"]


def _parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML whose integers have 64 bits, as TOML says; all that is wrong is a ValueError."""
    try:
        document = tomllib.loads(text)
        _refuse_large_integers(document)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return document


def _refuse_large_integers(value: Any) -> None:
    if isinstance(value, int) and not -_LARGEST - 1 <= value <= _LARGEST:
        raise ValueError("an integer of more than 64 bits")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_large_integers(item)


def validate(target: type[T], table: Mapping[str, Any], origin: str, above: str = "") -> T:
    """Make an instance of a dataclass from a table.

    Args:
        target: a dataclass, of pydantic or of the standard library.
        table: its fields.
        origin: what an error calls the source, the recipe's path say.
        above: dotted name of the table within the source; empty at the top.

    Raises:
        InputError: an unknown or missing key, a value of the wrong type, or one that is not allowed.
    """
    unknown = _first_unknown(target, table, above)
    if unknown:
        raise InputError(f"{origin}: {unknown}")
    try:
        # As JSON, where strict validation takes tables for dataclasses and arrays for tuples.
        return TypeAdapter(target).validate_json(json.dumps(table, default=str), strict=True)
    except ValidationError as error:
        raise InputError(f"{origin}: {_describe(error, table, above)}") from None
    except InputError as error:  # from the dataclass's own checks, which do not know where they are used
        raise InputError(f"{origin}: {above}.{error}" if above else f"{origin}: {error}") from None


def _first_unknown(target: Any, table: Any, above: str) -> str | None:
    """Describe the first key that no field takes, in the table or below it."""
    fields = _fields(target, table)
    if fields is None:
        return None
    for key, value in table.items():
        name = _dotted(above, key)
        if key not in fields:
            near = difflib.get_close_matches(key, fields, 1)
            hint = f"; did you mean '{near[0]}'?" if near else ";"
            return f"unknown key '{name}'{hint} allowed: {', '.join(fields)}"
        if isinstance(value, list):
            inner = [(item, _dotted(name, str(i))) for i, item in enumerate(value)]
        else:
            inner = [(value, name)]
        for item, item_name in inner:
            found = _first_unknown(_item_type(fields[key]), item, item_name)
            if found:
                return found
    return None


def _fields(target: Any, table: Any) -> dict[str, Any] | None:
    """Types of the fields that the table may give, or None if it is not a table of fixed keys."""
    if not isinstance(table, Mapping):
        return None
    options = [option for option in _options(target) if dataclasses.is_dataclass(option)]
    if len(options) > 1:  # told apart by their `kind`
        kinds = [typing.get_args(typing.get_type_hints(option)["kind"]) for option in options]
        options = [option for option, allowed in zip(options, kinds, strict=True) if table.get("kind") in allowed]
    return typing.get_type_hints(options[0]) if len(options) == 1 else None


def _options(target: Any) -> list[Any]:
    """Members of a union; anything else alone."""
    if typing.get_origin(target) is typing.Annotated:
        return _options(typing.get_args(target)[0])
    if typing.get_origin(target) in (typing.Union, types.UnionType):
        return [option for member in typing.get_args(target) for option in _options(member)]
    return [target]


def _item_type(target: Any) -> Any:
    """Type of the items of a tuple; any other type as it is."""
    option = _options(target)[0]
    return typing.get_args(option)[0] if typing.get_origin(option) is tuple else target


def _describe(error: ValidationError, table: Mapping[str, Any], above: str) -> str:
    """One line about the first key that pydantic complains of; a union complains once for each of its members."""
    details = error.errors(include_url=False)
    first = details[0]
    keys = [_dotted(above, _known_part(detail["loc"], table)) for detail in details]
    if first["type"].startswith("missing"):
        return f"'{_dotted(keys[0], str(first['loc'][-1]))}' is missing"
    reasons = [_plain(detail) for detail, key in zip(details, keys, strict=True) if key == keys[0]]
    allowed = " or ".join(dict.fromkeys(reasons))
    if first["type"] == "value_error":
        return f"{keys[0]}: {allowed}" if keys[0] else allowed
    return f"{keys[0]} = {_short(repr(first['input']))} is not allowed: {allowed}"


def _known_part(location: tuple[int | str, ...], table: Any) -> str:
    """The part of pydantic's location that are keys of the table; it also names members of unions."""
    parts = []
    for part in location:
        is_key = isinstance(table, Mapping) and part in table
        if is_key or (isinstance(table, list) and isinstance(part, int) and part < len(table)):
            table = table[part]
            parts.append(str(part))
    return ".".join(parts)


def _plain(detail: ErrorDetails) -> str:
    """Pydantic's message in a recipe's words: "it should be ..."."""
    if detail["type"] == "union_tag_invalid":
        return f"its kind should be one of {detail['ctx']['expected_tags']}"
    if detail["type"] == "too_short":
        return "it should have at least one entry"
    message = detail["msg"].removeprefix("Value error, ").replace("Input should be", "it should be")
    return message.replace("an object", "a table").replace("a valid array", "a list")


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _dotted(above: str, key: str) -> str:
    return f"{above}.{key}" if above and key else above or key
