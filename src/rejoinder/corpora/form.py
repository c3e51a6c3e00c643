"""Forms of files that people have, and what is read out of them: replies, or chats.

A form is a file of `readers` that names itself, says how it is recognised by a sample, and reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.source import Sample
from rejoinder.corpora.tables import Choice

_MARKUP = re.compile(
    r"""</?[a-zA-Z][\w-]*(?:\s[^<>]*)?/?>|"\s*:\s*(?:["\[{\d]|true|false|null)|"\s*[}\]]"""
)


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a chat."""

    author: str
    text: str
    time: float | None = None  # seconds since 1970, of the same clock in the whole file
    agent: bool | None = None  # whether an agent wrote it; None: the file does not say


@dataclass(slots=True)
class Chat:
    """Messages of one conversation, oldest first."""

    messages: list[Message] = field(default_factory=list)
    name: str = ""  # as the file names it
    endless: bool = False  # of a messenger, where the next conversation follows in the same chat
    names: tuple[str, ...] = ()  # of participants, besides those of the messages
    known: int = 0  # messages at the beginning that an earlier chat has, too
    thread: str = ""  # of chats that share messages


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

    name: str  # as in `--format NAME`
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
