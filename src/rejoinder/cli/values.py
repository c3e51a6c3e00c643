"""Values of options that are what they should be as they stand.

Typer converts each with pydantic, whose import and whose models of sixteen options take a sixth of
the time of `rejoinder reply`. Here a value is converted only where nothing can be wrong with it: a
text, a path, plain digits within the bounds, one of the choices, or what was not given. Typer
converts all others, and refuses what is wrong.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from rejoinder.errors import InputError
from rejoinder.progress import note

_UNKNOWN = object()  # whether a value is right
_INTEGER = re.compile(r"-?[0-9]{1,15}")
_DECIMAL = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


class RefusedValueError(typer.BadParameter):
    """A value that an option or argument does not take, in a sentence that names both."""

    def format_message(self) -> str:
        """Return the sentence, without typer's words before it."""
        return self.message


# typer exports it from no public module
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class PlainValues:
    """A command of typer whose options and arguments convert plain values by themselves.

    What is wrong with a command line is told in one line.
    """

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Return the context of a command line, or refuse it in one line."""
        with one_line(str(args[0] if args else options["info_name"]), options.get("parent")):
            return super().make_context(*args, **options)  # type: ignore[misc]

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; a group refuses a verb that it does not have here."""
        with one_line(ctx.command_path, None):
            return super().invoke(ctx)  # type: ignore[misc]

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, those that typer adds among them, such as `--help`."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            convert_plainly(parameter)
        return parameters


@contextlib.contextmanager
def one_line(command: str, parent: Any) -> Iterator[None]:
    """Let an error of usage show itself in one line, as other errors do."""
    try:
        yield
    except UsageError as raised:
        error: Any = raised
        text = error.format_message()
        if "\n" not in text and "show" not in vars(error):  # else the help of a bare command
            path = command if parent is None else f"{parent.command_path} {command}"
            line = f"{text[:1].lower()}{text[1:].rstrip('.')} (`{path} -h` shows all)"
            line = text if isinstance(error, RefusedValueError) else line
            error.show = lambda: note(f"rejoinder: error: {line}")
        raise


def refused_value(parameter: Any, value: Any, reason: str) -> str:
    """Return a sentence on a value that an option or argument does not take."""
    name = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[-1]
    shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    descriptor = parameter.type_descriptor
    allowed = _allowed(descriptor.annotation, descriptor.parameter_info)
    words = reason.removeprefix("Value error, ").rstrip(".")  # pydantic's
    return f"{name} {shlex.quote(shown[:60])}: {allowed or words}"


def _allowed(annotation: Any, info: Any) -> str | None:
    """Return which values there are, for choices and numbers."""
    kind = get_origin(annotation) or annotation
    if kind is list:
        return _allowed(get_args(annotation)[0], info)
    if info.parser is not None or kind not in (Literal, int, float):
        return None
    if kind is Literal:
        return f"give one of {', '.join(map(str, get_args(annotation)))}"
    noun = "a whole number" if kind is int else "a number"
    if info.min is not None and info.max is not None:
        return f"give {noun} from {info.min:g} to {info.max:g}"
    if info.min is not None:
        return f"give {noun} of {info.min:g} or more"
    return f"give {noun}" if info.max is None else f"give {noun} of at most {info.max:g}"


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
                if type(error) is not typer.BadParameter:  # it is missing
                    raise
                refused = refused_value(parameter, value, error.message)
                raise RefusedValueError(refused, ctx, parameter) from None
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
