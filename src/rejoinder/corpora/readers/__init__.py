"""Readers of published corpora, and of the forms of files that people have: replies, or chats.

A `Form` names a file format, recognises it in a sample and reads it. Readers share the parsing of
times and of HTML.
"""

from __future__ import annotations

import datetime
import email.utils
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rejoinder.corpora.clocks import HALF, half_of_day
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.source import Sample
from rejoinder.corpora.tables import Choice
from rejoinder.patterns import match_pattern, search_pattern

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_MARKUP = search_pattern(
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
    names: list[str] = field(default_factory=list)  # of participants, besides the authors'
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


# Dates and times as tools write them, in seconds since 1970; a time without a zone is UTC.

Order: TypeAlias = Literal["day", "month", "year"]  # what stands first

_MAX_TIME = 100  # letters
_SECONDS = match_pattern(r"\d{9,13}(?:\.\d+)?")
_SPACES = search_pattern(r"\s+")
_MILLISECONDS = 1e11  # a larger number of seconds would be in the year 5138
_DATE = match_pattern(
    r"(\d{1,4})[./-] ?(\d{1,2})[./-] ?(\d{1,4})\.?[,،]?[ T]+(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?"
    rf"(?:\s?({HALF}))?"
)


def parse_time(value: Any, order: Order = "day") -> float | None:
    """Return the seconds of a time: a number of (milli)seconds, ISO 8601, RFC 2822, or 31/12/20."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1_000 if abs(value) > _MILLISECONDS else float(value)
    text = str(value or "")[:_MAX_TIME].strip()
    if _SECONDS.fullmatch(text):
        return parse_time(float(text))
    try:
        return _seconds(datetime.datetime.fromisoformat(text))
    except ValueError:
        pass
    if match := _DATE.fullmatch(text):
        numbers = [int(match[group]) for group in (1, 2, 3)]
        clock = [int(match[group] or 0) for group in (4, 5, 6)]
        return date_seconds(numbers, clock, half_of_day(match[7] or ""), order)
    try:
        return _seconds(email.utils.parsedate_to_datetime(text))
    except (ValueError, TypeError, IndexError):
        return None


def date_seconds(
    numbers: Sequence[int], clock: Sequence[int], half: str, order: Order
) -> float | None:
    """Return the seconds of a date's three numbers and a clock's; None if there is no such day."""
    year, month, day = {
        "year": (0, 1, 2),
        "day": (2, 1, 0),
        "month": (2, 0, 1),
    }[order]
    hour = clock[0] % 12 + 12 * (half == "p") if half else clock[0]
    full = numbers[year] + 2_000 * (numbers[year] < 100)
    try:
        date = datetime.datetime(full, numbers[month], numbers[day], hour, clock[1], clock[2])
    except ValueError:
        return None
    return _seconds(date)


def find_order(dates: Iterable[Sequence[int]], *, twelve_hours: bool = False) -> Order:
    """Return which number of dates stands first, by numbers over 12 and by how they grow.

    Where both ways are possible: the month with a clock of twelve hours, else the day.
    """
    dates = list(dates)
    if any(date[0] > 31 for date in dates):
        return "year"
    if any(date[0] > 12 for date in dates):
        return "day"
    if any(date[1] > 12 for date in dates):
        return "month"
    falls = {
        order: sum(later < earlier for earlier, later in itertools.pairwise(keys))
        for order, keys in (
            ("day", [(date[2], date[1], date[0]) for date in dates]),
            ("month", [(date[2], date[0], date[1]) for date in dates]),
        )
    }
    if falls["day"] != falls["month"]:
        return "day" if falls["day"] < falls["month"] else "month"
    return "month" if twelve_hours else "day"


def date_numbers(value: Any) -> list[int] | None:
    """Return the three numbers of a date in numbers, as `find_order` takes them; else None."""
    match = _DATE.fullmatch(str(value or "")[:_MAX_TIME].strip())
    return [int(match[group]) for group in (1, 2, 3)] if match else None


def _seconds(date: datetime.datetime) -> float:
    zoned = date if date.tzinfo else date.replace(tzinfo=datetime.UTC)
    return zoned.timestamp()


# The text of HTML as a reader sees it, with lxml: blocks on lines of their own, no tags.

_BLOCKS = frozenset(
    """address article aside blockquote br dd details div dl dt fieldset figure footer form h1 h2 h3
    h4 h5 h6 header hr li main nav ol p pre section summary table td th tr ul""".split()  # noqa: SIM905
)
_UNSEEN = frozenset(("script", "style", "head", "template", "noscript", "title", "svg"))
_CONTROL = search_pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # that XML has not
_TAG = search_pattern(r"</?[a-zA-Z][^<>]*>|&(?:[a-zA-Z]{2,8}|#\d{1,6});")


def parse_html(text: str) -> HtmlElement | None:
    """Return the tree of HTML; None if there is nothing in it."""
    from lxml import etree, html

    parser = html.HTMLParser(encoding="utf-8", no_network=True)
    text = _CONTROL.sub(" ", text)
    try:
        return html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return None


def text_of_html(text: str) -> str:
    """Return the text of HTML; text without tags stays as it is."""
    if not _TAG.search(text):
        return text.strip()
    tree = parse_html(text)
    return "" if tree is None else text_of_element(tree)


def text_of_element(element: Any) -> str:
    """Return the text that an element shows, without what is hidden."""
    pieces: list[str] = []
    stack: list[Any] = [element]
    while stack:  # and no recursion: documents may be nested deep
        node = stack.pop()
        if isinstance(node, str):
            pieces.append(node)
            continue
        if not isinstance(node.tag, str) or node.tag in _UNSEEN:
            continue
        edge = "\n" if node.tag in _BLOCKS else ""
        children: list[Any] = [edge + _SPACES.sub(" ", node.text or "")]
        for child in node:
            children += [child, _SPACES.sub(" ", child.tail or "")]
        stack += reversed([*children, edge])
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)
