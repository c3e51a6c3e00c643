"""Settings that must be one of a few words."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

from rejoinder.errors import InputError


def check_choices(settings: Any) -> None:
    """Refuse a dataclass of settings whose field of a `Literal` type holds something else.

    Raises:
        InputError: names the setting, what was given and what is allowed.
    """
    hints = typing.get_type_hints(type(settings))
    for field in dataclasses.fields(settings):
        allowed = typing.get_args(hints[field.name]) if typing.get_origin(hints[field.name]) is typing.Literal else None
        given = getattr(settings, field.name)
        if allowed is not None and given not in allowed:
            raise InputError(f"{field.name} is {given!r}; it is one of {', '.join(map(str, allowed))}")
