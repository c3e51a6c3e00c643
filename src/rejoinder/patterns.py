r"""Regular expressions for texts that somebody else wrote: each takes time linear in the length.

A server answers nobody else while an expression runs, so that one text must not keep it for
seconds. Every such expression is made here. A test feeds all of them repeated fragments of
themselves, of 5,000 and of 50,000 letters.

Two kinds of expressions take the square of the length. In one, two repetitions match the same
letters (`\s*\s*x`): use possessive quantifiers (`\s*+`). In the other, a search begins again
within letters that it has already read in vain (`\s+x`): begin where the letters before do not fit
(`(?<!\s)\s++x`), limit the repetition, or match from the beginning only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, AnyStr, Protocol, cast


class MatchPattern(Protocol[AnyStr]):
    """A pattern that is matched where a text begins, or with the whole text, and nowhere else."""

    def match(self, string: AnyStr, pos: int = 0, /) -> re.Match[AnyStr] | None:
        """Match at the beginning of a text, or at a position in it."""

    def fullmatch(self, string: AnyStr, pos: int = 0, /) -> re.Match[AnyStr] | None:
        """Match a whole text."""


_SEARCHED: list[re.Pattern[str] | re.Pattern[bytes]] = []
_MATCHED: list[re.Pattern[str] | re.Pattern[bytes]] = []


class _Pattern:
    """A pattern that is compiled when it is first used: a start needs few of a hundred."""

    def __init__(self, expression: str | bytes, flags: int) -> None:
        self._expression = expression
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"a pattern has no {name}")
        method = getattr(re.compile(self._expression, self._flags), name)
        setattr(self, name, method)  # found without this method from now on
        return method

    def __reduce__(self) -> tuple[type[_Pattern], tuple[str | bytes, int]]:
        return _Pattern, (self._expression, self._flags)


def search_pattern(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return an expression that may be searched, replaced or split by anywhere in a text."""
    pattern = cast("re.Pattern[AnyStr]", _Pattern(expression, flags))
    _SEARCHED.append(pattern)
    return pattern


def match_pattern(expression: AnyStr, flags: int = 0) -> MatchPattern[AnyStr]:
    """Return an expression that is matched at the beginning of a text, or with the whole text."""
    pattern = cast("re.Pattern[AnyStr]", _Pattern(expression, flags))
    _MATCHED.append(pattern)
    return pattern


def searched() -> Iterator[re.Pattern[str] | re.Pattern[bytes]]:
    """Yield the patterns of the imported modules that are searched for."""
    yield from _SEARCHED


def matched() -> Iterator[re.Pattern[str] | re.Pattern[bytes]]:
    """Yield the patterns of the imported modules that are matched at a text's beginning."""
    yield from _MATCHED
