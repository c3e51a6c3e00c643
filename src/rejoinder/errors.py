"""Errors that teach: what was given, what is allowed, what to do about it."""

from __future__ import annotations


class RejoinderError(Exception):
    """Base of every error that Rejoinder raises on purpose. Its message is one line a user can act on."""


class InputError(RejoinderError):
    """The user gave something that cannot be used: a file, a line, a recipe key, an option. Exit code 2."""


class MissingExtraError(InputError):
    """A feature needs a library that the base installation leaves out."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra '{extra}': pip install 'rejoinder[{extra}]'")
        self.feature, self.extra = feature, extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str], dict[str, object]]:
        """So that it comes out of a worker process as it went in."""
        return type(self), (self.feature, self.extra), vars(self)
