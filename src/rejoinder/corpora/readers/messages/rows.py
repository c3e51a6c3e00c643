"""Rows of a table of messages, and who wrote each of them."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rejoinder.corpora.forms.columns import fold, is_known, value_of
from rejoinder.corpora.forms.delimited import REPEATED_HEADERS
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import chat_name
from rejoinder.corpora.readers.flags import PRIVATE_NOTES, HiddenMessages, word_of
from rejoinder.corpora.readers.repeats import REPEATED, Repeats
from rejoinder.corpora.readers.sides import OF_BOTS, UNCLEAR, WrittenBy, side_of
from rejoinder.corpora.readers.times import CLOCK
from rejoinder.html_text import text_of_html

NEEDED = ("author", "text")
NAMELESS = frozenset(  # columns that say who answers, and name nobody
    """is_agent sender_type author_type user_type direction inbound incoming is_inbound is_incoming
    from_customer is_customer is_bot""".split()  # noqa: SIM905
)
_OF_CUSTOMERS = frozenset(  # columns in which "true" is a customer's
    ("inbound", "incoming", "is_inbound", "is_incoming", "from_customer", "is_customer")
)
_OF_SYSTEM = "messages of the system"
_SHOWN = 40  # letters of a value in a note
_SHOWN_VALUES = 3  # in notes


class MessageRow(NamedTuple):
    """A row of a table of messages."""

    chat: str  # id of its conversation
    time: Any  # as the table has it
    author: str
    text: str
    side: WrittenBy | None


@dataclass(slots=True)
class MessageRows:
    """The rows of a table that are messages; the others are counted by reason."""

    columns: Mapping[str, str]  # by role
    reading: Reading
    kept: list[MessageRow] = field(default_factory=list)
    _unknown: Counter[str] = field(default_factory=Counter)  # values that say not who answers
    _hidden: HiddenMessages = field(default_factory=HiddenMessages)
    _repeats: Repeats = field(default_factory=Repeats)

    def add(self, cells: Mapping[str, Any]) -> None:
        """Add a row, or count why it is left out."""
        row = self._row(cells)
        if reason := self._why_left_out(cells, row):
            self.reading.drop(reason)
            return
        self.kept.append(row)
        value = word_of(value_of(cells, self.columns, "agent"))
        if row.side is None and value:
            self._unknown[value[:_SHOWN]] += 1

    def finish(self, source: object) -> list[MessageRow]:
        """Return the rows with their sides, and note values of unknown meaning."""
        self.reading.notes += self._hidden.notes(source)
        if self._unknown:
            values = ", ".join(
                f"{value!r} ({count:,})"
                for value, count in self._unknown.most_common(_SHOWN_VALUES)
            )
            self.reading.notes.append(f"{source}: {self.columns['agent']}: {UNCLEAR} {values}")
        rows = list(self._without_bots()) if "agent" in self.columns else self.kept
        self.kept = []
        return rows

    def _row(self, cells: Mapping[str, Any]) -> MessageRow:
        columns = self.columns
        text = _stripped(cells.get(columns["text"]))
        is_html = fold(columns["text"]).endswith("html")
        author = cells.get(columns["author"])
        side = None
        if "agent" in columns:
            of_customers = is_known(columns["agent"], _OF_CUSTOMERS)
            side = side_of(cells.get(columns["agent"]), customers=of_customers)
        is_nameless = is_known(columns["author"], NAMELESS)
        return MessageRow(
            chat=sys.intern(chat_name(value_of(cells, columns, "conversation"))),
            time=_time_of(cells, columns),
            author=side if side and is_nameless else sys.intern(_stripped(author)),
            text=text_of_html(text) if is_html else text,
            side=side,
        )

    def _why_left_out(self, cells: Mapping[str, Any], row: MessageRow) -> str:
        columns = self.columns
        if all(fold(cells.get(columns[role]) or "") == fold(columns[role]) for role in NEEDED):
            return REPEATED_HEADERS
        if self._is_note(cells):
            return PRIVATE_NOTES
        if not row.text:
            return "messages without a text"
        if row.side == "system":
            return _OF_SYSTEM
        is_repeat = self._repeats.has_id(_key_of(cells, columns, row), row.chat)
        return REPEATED if is_repeat else ""

    def _is_note(self, cells: Mapping[str, Any]) -> bool:
        columns = self.columns
        return any(
            role in columns
            and self._hidden.hides(columns[role], cells.get(columns[role]), public=public)
            for role, public in (("private", False), ("public", True))
        )

    def _without_bots(self) -> Iterator[MessageRow]:
        """Yield the rows with their sides; a bot answers where no agent does.

        Where a value says not who wrote a message, the others of its author do. Else, if all others
        are of one side, it is of the other side, or a customer's if both are known.
        """
        counts = Counter(row.side for row in self.kept)
        of_author = _sides_of_authors(self.kept)
        other: WrittenBy | None = "agent" if counts["customer"] else None
        other = "customer" if counts["agent"] or counts["bot"] else other
        for row in self.kept:
            if row.side == "bot" and counts["agent"]:
                self.reading.drop(OF_BOTS)
                continue
            side = row.side or of_author.get(row.author, other)
            side = "agent" if side == "bot" else side
            yield row if side is row.side else row._replace(side=side)


def _stripped(value: object) -> str:
    return "" if value is None else str(value).strip()


def _sides_of_authors(rows: Sequence[MessageRow]) -> dict[str, WrittenBy]:
    """Return the side of each author that has one alone."""
    sides: defaultdict[str, set[WrittenBy]] = defaultdict(set)
    for row in rows:
        if row.side and row.author:
            sides[row.author].add(row.side)
    return {author: next(iter(found)) for author, found in sides.items() if len(found) == 1}


def _key_of(cells: Mapping[str, Any], columns: Mapping[str, str], row: MessageRow) -> object:
    """Return what no other message of a conversation has; None if a row has no id and no time.

    The column `id` may be the ticket's, and ids without a conversation may begin anew, so these
    count with the text only.
    """
    own = str(value_of(cells, columns, "id") or "").strip()
    when = str(row.time or "").strip()
    if own and "conversation" in columns and fold(columns["id"]) != "id":
        return own
    return (own, when, row.author, row.text) if own or when else None


def _time_of(cells: Mapping[str, Any], columns: Mapping[str, str]) -> Any:
    """Return a row's time, with its day from the column `date` if it is a clock alone."""
    value = value_of(cells, columns, "time")
    own = columns.get("time")
    day = next((name for name in cells if fold(name) == "date" and name != own), None)
    if day is None or not cells[day] or not CLOCK.fullmatch(str(value or "").strip()):
        return value
    return f"{str(cells[day]).strip().removesuffix('T00:00:00')} {str(value).strip()}"
