"""Settings from TOML files and `--set KEY=VALUE`, checked strictly against dataclasses."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import tomllib
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails

from rejoinder.errors import InputError
from rejoinder.paths import check_regular_file

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
DOCUMENTED = ConfigDict(**STRICT, use_attribute_docstrings=True)  # reads the source of each class

Count: TypeAlias = Annotated[int, Field(ge=1, lt=2**31)]
Natural: TypeAlias = Annotated[int, Field(ge=0)]
Positive: TypeAlias = Annotated[float, Field(gt=0)]
NotNegative: TypeAlias = Annotated[float, Field(ge=0)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Decay: TypeAlias = Annotated[float, Field(ge=0, lt=1)]

T = TypeVar("T")
_LARGEST = 2**63 - 1


@typing.dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
def section(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass that settings are checked against, strictly."""
    made: Any = dataclass(frozen=True, kw_only=True, config=DOCUMENTED)(cls)
    return made


@typing.dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
def quick_section(cls: type[T]) -> type[T]:
    """Make a `section` without `field_texts`, for what is imported at each start."""
    made: Any = dataclass(frozen=True, kw_only=True, config=STRICT)(cls)
    return made


@typing.dataclass_transform(frozen_default=True)
def documented(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass of the standard library with a text below each field."""
    made: Any = dataclasses.dataclass(frozen=True)(cls)
    made.__pydantic_config__ = ConfigDict(use_attribute_docstrings=True)
    return made


def field_texts(cls: type) -> dict[str, str]:
    """Return the text below each field of a `section`, or of what is `documented`, on a line."""
    texts: dict[str, str] = {}
    for base in filter(dataclasses.is_dataclass, reversed(cls.__mro__)):
        fields = TypeAdapter(base).json_schema().get("properties", {})
        texts |= {
            name: " ".join(field["description"].split())
            for name, field in fields.items()
            if "description" in field
        }
    return texts


def non_default_fields(section: Any, *names: str) -> list[str]:
    """Return the names of a dataclass's fields (or of `names`) that are not the defaults."""
    fields = {field.name: field.default for field in dataclasses.fields(section)}
    return [name for name in names or fields if getattr(section, name) != fields[name]]


def at_most_one(section: Any, *names: str) -> None:
    """Raise ValueError if more than one of the fields is given."""
    if len(changed := non_default_fields(section, *names)) > 1:
        raise ValueError(f"give at most one of {', '.join(names)}; given: {', '.join(changed)}")


def exactly_one(section: Any, *names: str) -> None:
    """Raise ValueError unless exactly one of the fields is given."""
    if len(changed := non_default_fields(section, *names)) != 1:
        raise ValueError(
            f"give exactly one of {', '.join(names)}; given: {', '.join(changed) or 'none'}"
        )


def read_toml(path: str | Path, wanted: str) -> dict[str, Any]:
    """Read a TOML file; if it is missing, the InputError ends with `wanted`."""
    path = Path(path)
    try:
        check_regular_file(path)
        return _parse_toml(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(f"{path}: {wanted}") from None
    except ValueError as error:
        raise InputError(f"{path}: not a TOML file: {error}") from None


def find_recipe(name: str | PurePath) -> Path:
    """Return the file of that path, or else the bundled recipe of that name."""
    path = Path(name)
    return path if path.is_file() else recipes().get(path.as_posix(), path)


def recipes() -> dict[str, Path]:
    """Return the bundled files of recipes, ablations and tables, by their names."""
    package = Path(__file__).parent
    places = package / "recipes", package.parents[1] / "recipes"  # installed; in a clone
    folder = next(filter(Path.is_dir, places), package)
    files = sorted(path for path in folder.rglob("*.toml") if path.parent.name != "corpus")
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in files}


# a word, or names (Bea O'Neill & Sons), or pairs KEY=NAME (perhaps after a word), with commas
_LETTER = r"[\w .&'’-]"  # noqa: RUF001 (apostrophes of both kinds)
_NAME = rf"[^\W\d]{_LETTER}*"
_BARE = rf"""[^\s"'\[\]{{}}=,]+|{_NAME}(,{_NAME})*|(\w+,)?\w+={_LETTER}+(,\w+={_LETTER}+)*"""


def text_fields(cls: type) -> frozenset[str]:
    """Return the names of a dataclass's fields that hold a text."""
    hints = typing.get_type_hints(cls)
    return frozenset(field.name for field in dataclasses.fields(cls) if hints[field.name] is str)


def parse_setting(
    setting: str, form: str = "section.key=value", texts: Collection[str] = ()
) -> tuple[str, Any]:
    """Split `--set KEY=VALUE`.

    The value is TOML; bare words stand for a string, since shells eat quotes. The value of a key
    among `texts` is taken as it is, unless it is in quotes.
    """
    key, equals, text = setting.partition("=")
    key = key.strip()
    text = text.strip()
    if not equals or not key:
        raise InputError(f"--set {_short(setting)}: write it as {form}")
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    if key in texts and not is_quoted:
        return key, text
    try:
        read = _parse_toml(f"value = {text}")
    except ValueError as error:
        if isinstance(error, tomllib.TOMLDecodeError) and re.fullmatch(_BARE, text):
            return key, text
        raise InputError(f"--set {_short(setting)}: the value is not TOML: {error}") from None
    if list(read) != ["value"]:
        raise InputError(f"--set {_short(setting)}: give one value")
    return key, read["value"]


def override(
    document: dict[str, Any],
    setting: str,
    shorthands: Sequence[str] = (),
    alternatives: Sequence[tuple[str, Sequence[str]]] = (),
) -> None:
    """Apply `--set a.0.b=value` to a document read from TOML, in place.

    0 is the first entry of a list. Shorthands are tables that may be given by their kind alone. An
    alternative is the name of a table, and keys of which it has one: setting one removes the
    others.
    """
    key, value = parse_setting(setting)
    *above, last = map(str.strip, key.split("."))
    if not all([*above, last]):
        raise InputError(f"--set {setting}: write it as section.key=value")
    table: Any = document
    for depth, part in enumerate(above):
        table = _below(table, part, f"--set {setting}", ".".join(above[:depth]), shorthands)
    if not isinstance(table, dict):
        raise InputError(
            f"--set {setting}: '{'.'.join(above)}' is not a table, so it has no key '{last}'"
        )
    section = next((part for part in reversed(above) if not part.isdecimal()), "")
    for name, keys in alternatives:
        for other in keys if name == section and last in keys else ():
            table.pop(other, None)
    table[last] = value


def _below(table: Any, part: str, origin: str, above: str, shorthands: Sequence[str]) -> Any:
    """Return what stands under a key or number; a table that lacks the key gets a new table."""
    if part.isdecimal() and (table == [] or (isinstance(table, dict) and part not in table)):
        raise InputError(
            f"{origin}: the recipe lists nothing in '{above}', so there is no entry {part}"
        )
    if isinstance(table, dict):
        if part in shorthands and isinstance(table.get(part), str):
            table[part] = {"kind": table[part]}
        return table.setdefault(part, {})
    if not isinstance(table, list):
        raise InputError(f"{origin}: '{part}' is below a plain value, which has no keys")
    if not part.isdecimal() or int(part) >= len(table):
        raise InputError(f"{origin}: there is no entry {part}; there are 0 to {len(table) - 1}")
    return table[int(part)]


def _parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML whose integers have 64 bits, as TOML requires; anything wrong is a ValueError."""
    try:
        document = tomllib.loads(text)
        _refuse_large_integers(document)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return document


def _refuse_large_integers(value: Any) -> None:
    if isinstance(value, int) and not -_LARGEST - 1 <= value <= _LARGEST:
        raise ValueError("an integer of more than 64 bits")
    for item in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        _refuse_large_integers(item)


def validate(target: type[T], table: Mapping[str, Any], origin: str, above: str = "") -> T:
    """Make an instance of a dataclass, pydantic's or the standard library's, of a table.

    An InputError names `origin` and the full key (`above` is that of the table), what was given and
    what is allowed.
    """
    if unknown := _unknown_key(target, table, above):
        raise InputError(f"{origin}: {unknown}")
    try:
        # As JSON, where strict validation takes tables for dataclasses and arrays for tuples.
        return TypeAdapter(target).validate_json(json.dumps(table, default=str), strict=True)
    except ValidationError as error:
        raise InputError(f"{origin}: {_describe(error, table, above)}") from None
    except InputError as error:
        # from the dataclass's own checks, which do not know where they are used
        raise InputError(f"{origin}: {above + '.' if above else ''}{error}") from None


def _unknown_key(target: Any, value: Any, name: str) -> str | None:
    """Describe the first key below `name` that no field takes.

    Pydantic does not name the allowed ones.
    """
    options = _options(target)
    inner: list[tuple[Any, Any, str]] = []
    if isinstance(value, list):
        items = next(
            (
                typing.get_args(option)[0]
                for option in options
                if typing.get_origin(option) is tuple
            ),
            None,
        )
        inner = [(items, item, str(number)) for number, item in enumerate(value)]
    elif isinstance(value, Mapping) and (fields := _fields(options, value)) is not None:
        for key in value:
            if key not in fields:
                near = difflib.get_close_matches(key, fields, 1)
                hint = f"; did you mean '{near[0]}'?" if near else ";"
                return f"unknown key '{_dotted(name, key)}'{hint} allowed: {', '.join(fields)}"
        inner = [(fields[key], item, key) for key, item in value.items()]
    elif isinstance(value, Mapping):  # its keys are free
        items = next(
            (typing.get_args(option)[1] for option in options if typing.get_origin(option) is dict),
            None,
        )
        inner = [(items, item, key) for key, item in value.items()]
    unknown = (_unknown_key(kind, item, _dotted(name, key)) for kind, item, key in inner)
    return next(filter(None, unknown), None)


def _fields(options: list[Any], table: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the types of the fields that a table may give.

    None if its keys are free, or its kind unknown.
    """
    options = [option for option in options if dataclasses.is_dataclass(option)]
    if len(options) > 1:  # told apart by their `kind`
        kinds = [typing.get_args(typing.get_type_hints(option)["kind"]) for option in options]
        options = [
            option
            for option, allowed in zip(options, kinds, strict=True)
            if table.get("kind") in allowed
        ]
    return typing.get_type_hints(options[0]) if len(options) == 1 else None


def _options(target: Any) -> list[Any]:
    """Return the members of a union; anything else alone."""
    if typing.get_origin(target) is Annotated:
        return _options(typing.get_args(target)[0])
    if typing.get_origin(target) in (typing.Union, types.UnionType):
        return [option for member in typing.get_args(target) for option in _options(member)]
    return [target]


def _describe(error: ValidationError, table: Mapping[str, Any], above: str) -> str:
    """Describe the first key that pydantic refuses; it refuses a union once for each member."""
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
    """Return the parts of pydantic's location that are keys of the table.

    It also names members of unions.
    """
    parts = []
    for part in location:
        is_key = isinstance(table, Mapping) and part in table
        if is_key or (isinstance(table, list) and isinstance(part, int) and part < len(table)):
            table = table[part]
            parts.append(str(part))
    return ".".join(parts)


def _plain(detail: ErrorDetails) -> str:
    if detail["type"] == "union_tag_invalid":
        return f"its kind should be one of {detail['ctx']['expected_tags']}"
    if detail["type"] == "too_short":
        return "it should have at least one entry"
    message = detail["msg"].removeprefix("Value error, ").replace("Input should be", "it should be")
    message = message.replace("an object", "a table").replace("a valid array", "a list")
    value = detail["input"]
    if message == "it should be a list" and isinstance(value, str):
        return f"{message}, as {json.dumps([part.strip() for part in value.split(',')])}"
    return message


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _dotted(above: str, key: str) -> str:
    return f"{above}.{key}" if above and key else above or key


def toml_value(value: object) -> str:
    """Return a string, a number, a boolean or a list of these in TOML's syntax, on one line."""
    # JSON writes the same, but leaves one control character bare that TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def holds_tables(value: object) -> bool:
    """Return whether the value is a table, or a list of nothing but tables."""
    if isinstance(value, list | tuple):
        return len(value) > 0 and all(isinstance(item, Mapping) for item in value)
    return isinstance(value, Mapping)
