"""Values of options that are what they should be as they stand.

Typer converts each with pydantic, whose import and whose models of sixteen options take a sixth of
the time of `rejoinder reply`. Here a value is converted only where nothing can be wrong with it: a
text, a path, plain digits within the bounds, one of the choices, or what was not given. Typer
converts all others, and refuses what is wrong.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from rejoinder.errors import InputError

_UNKNOWN = object()  # whether a value is right
_INTEGER = re.compile(r"-?[0-9]{1,15}")
_DECIMAL = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


class PlainValues:
    """A command of typer whose options and arguments convert plain values by themselves."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, those that typer adds among them, such as `--help`."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            convert_plainly(parameter)
        return parameters


def convert_plainly(parameter: Any) -> None:
    """Let an option or argument of typer convert plain values by itself."""
    descriptor = getattr(parameter, "type_descriptor", None)
    if descriptor is None or "process_value" in vars(parameter):
        return
    process: Callable[[Any, Any], Any] = parameter.process_value
    nothing = () if parameter.multiple or parameter.nargs == -1 else None

    def convert(ctx: Any, value: Any) -> Any:
        if value == "" and "--output" in parameter.opts:  # a path would be the current folder
            raise InputError(f"{parameter.opts[0]} is empty; name the file or folder to write")
        if value is None:
            converted: Any = nothing
        else:
            converted = _converted(value, descriptor.annotation, descriptor.parameter_info)
        if converted is _UNKNOWN or (parameter.required and not converted):
            try:
                return process(ctx, value)
            except typer.BadParameter as error:
                error.message = error.message.removeprefix("Value error, ")  # pydantic's words
                raise
        called = parameter.callback
        return converted if called is None else called(ctx, parameter, converted)

    parameter.process_value = convert


def _converted(value: Any, annotation: Any, info: Any) -> Any:
    """Return a value as its annotation wants it, or `_UNKNOWN`."""
    converted: Any = _UNKNOWN
    kind = get_origin(annotation) or annotation
    if info.parser is not None:
        pass
    elif kind is list and isinstance(value, list | tuple):
        converted = _all_converted(value, get_args(annotation)[0], info)
    elif kind in (str, bool) and type(value) is kind:
        converted = value
    elif kind is Literal and type(value) is str:
        converted = value if value in get_args(annotation) else _UNKNOWN
    elif kind is Path and type(value) is str and _may_be_any(info) and _is_readable(value):
        converted = Path(value)
    elif kind in (int, float) and not info.clamp:
        converted = _number(value, kind, info)
    return converted


def _all_converted(values: Sequence[Any], annotation: Any, info: Any) -> Any:
    converted = [_converted(value, annotation, info) for value in values]
    return _UNKNOWN if any(value is _UNKNOWN for value in converted) else converted


def _may_be_any(info: Any) -> bool:
    """Return whether nothing is asked of a path but to be readable if it is there."""
    more = info.exists or info.writable or info.resolve_path or info.allow_dash or info.path_type
    return bool(info.file_okay and info.dir_okay and not more)


def _is_readable(path: str) -> bool:
    try:
        return os.access(path, os.R_OK) or not os.path.lexists(path)
    except ValueError:
        return False


def _number(value: Any, kind: type[int] | type[float], info: Any) -> Any:
    if isinstance(value, str):
        plain = _INTEGER if kind is int else _DECIMAL
        if plain.fullmatch(value) is None:
            return _UNKNOWN
    elif type(value) not in (int, kind):
        return _UNKNOWN
    number = kind(value)
    low = info.min is None or number >= info.min
    return number if low and (info.max is None or number <= info.max) else _UNKNOWN
