"""Checks of the values that users give, for rooms that must not need pydantic.

A wrong one is an InputError, which says what was given and what is needed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from rejoinder.errors import InputError, shown


def check_list(values: object, need: str) -> None:
    """Raise InputError, which says what is needed, for what is not a list.

    A text, a mapping, a table, a generator and None are none.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Collection):
        raise InputError(f"{need}; given: {shown(values)}")
    check_column(values)


def check_column(values: object) -> None:
    """Raise InputError for a table, such as a DataFrame, which lists the names of its columns."""
    if hasattr(values, "columns"):
        names = shown(list(values.columns))
        raise InputError(
            f"a table with the columns {names} was given; give one column, such as df['text']"
        )


def check_path(value: object, need: str) -> None:
    """Raise InputError, which says what is needed, for what is not a path."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{need}; given: {shown(value)}")


def list_paths(values: object, need: str) -> list[str]:
    """Return one path or several as a list; raise InputError, which says what is needed."""
    is_single = isinstance(values, str | os.PathLike) or not isinstance(values, Iterable)
    paths: list[Any] = [values] if is_single else list(values)  # type: ignore[call-overload]
    for path in paths:
        check_path(path, need)
    return [os.fspath(path) for path in paths]


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number; True is none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise InputError for what is not a whole number, or one below `least`."""
    if not is_whole(value) or value < least:  # type: ignore[operator]
        raise InputError(f"{name} is {shown(value)}; give a whole number, {least} or more")


def check_number(
    name: str, value: object, need: str, least: float = -math.inf, most: float = math.inf
) -> None:
    """Raise InputError unless the value is a finite number from `least` to `most`.

    The error says what is needed.
    """
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not _is_finite(value) or not least <= value <= most:  # type: ignore[arg-type, operator]
        raise InputError(f"{name} is {shown(value)}; {need}")


def _is_finite(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def check_minimum(value: object) -> None:
    """Raise InputError for what cannot be the lowest score of a search."""
    if value is not None:
        check_number("minimum_score", value, "give a number, or None for no minimum")
