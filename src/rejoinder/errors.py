"""Errors that teach: what was given, what is allowed, what to do about it."""

from __future__ import annotations

import importlib
import re
from typing import Any

INTERRUPTED = "interrupted; no half-written output is left"
INTERRUPTED_CODE = 130  # the exit code of a command that Ctrl-C ended


class RejoinderError(Exception):
    """Base of every error that Rejoinder raises on purpose.

    Its message is one line a user can act on.
    """


class InputError(RejoinderError):
    """The user gave something that cannot be used: a file, a line, a recipe key, an option.

    Exit code 2.
    """


class NotFoundError(InputError):
    """There is no such reply, example or change."""


class BusyError(InputError):
    """Another process or thread changes, or has just changed, what was to be changed.

    The same may succeed a moment later.
    """


class MissingExtraError(InputError):
    """A feature needs libraries that the base installation leaves out.

    They are named, wherever Rejoinder is from.
    """

    def __init__(self, feature: str, extra: str) -> None:
        from importlib.metadata import requires  # takes 20 ms, which every start would wait for

        parts = (line.partition(";") for line in requires("rejoinder") or ())
        libraries = [
            f"'{library.strip()}'"
            for library, _, marker in parts
            if re.search(rf"\b{extra}\b", marker)
        ]
        super().__init__(f"{feature} needs the extra '{extra}': pip install {' '.join(libraries)}")
        self.feature = feature
        self.extra = extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str], dict[str, object]]:
        """Let it come out of a worker process as it went in."""
        return type(self), (self.feature, self.extra), vars(self)


def import_extra(module: str, feature: str, extra: str) -> Any:
    """Import a library that `feature` needs, or name the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(feature, extra) from error


def shown(value: object) -> str:
    """Return what an error's line shows of a value: its beginning, 60 characters at most."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether an error is Ctrl-C, or what Python 3.11 or typer makes of it.

    Python 3.11 makes it a RuntimeError while a class is made.
    """
    cause = None if error is None else error.__cause__
    return isinstance(error, KeyboardInterrupt) or isinstance(cause, KeyboardInterrupt)


def reason_of(error: BaseException) -> str:
    """Return the line of an error's text with the reason: the last of a traceback, else the first.

    An error without a text has the name of its class.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1 if "Traceback" in str(error) else 0].rstrip(".")
