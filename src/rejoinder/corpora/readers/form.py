"""A form of files that people have: its name, how it is recognised in a sample, and its reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.patterns import search_pattern

_MARKUP = search_pattern(
    r"""</?[a-zA-Z][\w-]*(?:\s[^<>]*)?/?>|"\s*:\s*(?:["\[{\d]|true|false|null)|"\s*[}\]]"""
)


@dataclass(slots=True)
class Markup:
    """Texts that hold tags or JSON, which shows that a file is not quite what it was read as."""

    what: str
    count: int = 0

    def look(self, text: str) -> None:
        """Count a text if it holds any."""
        self.count += _MARKUP.search(text) is not None

    def notes(self) -> list[str]:
        """Return a note if there are any."""
        return [f"{self.count:,} {self.what} hold HTML or JSON"] if self.count else []


@dataclass(frozen=True)
class Form:
    """A form of files."""

    name: str  # as in `--set format=NAME`
    title: str  # "Telegram chats"
    holds: Literal["replies", "chats"]
    export: str  # one line: how to get such a file
    matches: Callable[[Sample], bool]
    # (sample, choice, reading) -> `Candidate`s or `Chat`s. It raises InputError for a bad file, and
    # counts what it leaves out with `Reading.drop`, what it understood as `Reading.notes`.
    read: Callable[[Sample, Choice, Reading], Iterator[Any]]
    takes: frozenset[str] = frozenset()  # of the choices that not all forms have: see below


OF_TABLES = frozenset(("columns", "delimiter", "header"))

OF_JSON = frozenset(("columns",))
