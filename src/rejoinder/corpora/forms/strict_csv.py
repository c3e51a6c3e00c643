"""Rows of CSV, whose quotes are as RFC 4180 has them, and the lines of bad ones."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from rejoinder.corpora.limits import MAX_LINE_BYTES

_STRAY_RETURN = "new-line character seen in unquoted field"  # in an error of the csv module
_MAX_CELL_LINES = 1_000  # of a bad cell that are searched for its end


class CsvRow(NamedTuple):
    """A row of a table, or what is wrong with its lines."""

    number: int  # of its first line
    lines: int
    cells: list[str]
    fault: str = ""


def strict_rows(
    numbered: Iterator[tuple[int, str]], delimiter: str, *, quoted: bool = True
) -> Iterator[CsvRow]:
    """Yield the rows of numbered lines, blank ones too; without `quoted` quotes are letters.

    The lines of a bad cell are in its row up to the quote that closes it.
    """
    # This limit is one setting for all readers of the library, and lower than a message may be.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    lines = _Lines(numbered)
    table = csv.reader(
        lines,
        delimiter=delimiter,
        strict=True,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
    )
    while True:
        lines.start()
        fault = ""
        try:
            cells = next(table, None)
        except csv.Error as error:
            cells = []
            fault = _csv_fault(error)
            if quoted:
                lines.finish_cell(delimiter)
        if cells is None:
            return
        yield CsvRow(lines.first, lines.last - lines.first + 1, cells, fault)


class _Lines:
    """The lines for the csv module: it has no lines ahead of a row."""

    def __init__(self, numbered: Iterator[tuple[int, str]]) -> None:
        self._numbered = numbered
        self._ahead: deque[tuple[int, str]] = deque()
        self.first = 0  # line of the row
        self.last = 0
        self._quotes = 0  # in the row

    def start(self) -> None:
        """Begin a row."""
        self.first = 0
        self._quotes = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        self.last, line = self._ahead.popleft() if self._ahead else next(self._numbered)
        self.first = self.first or self.last
        self._quotes += line.count('"')
        return f"{line}\n"  # tells a line break in quotes from the end of a row

    def finish_cell(self, delimiter: str) -> None:
        """Take the lines up to the quote that closes the last cell, if its quotes do not match.

        None is taken if the next quote opens a cell: then one of the cell's own was not doubled.
        """
        taken: list[tuple[int, str]] = []
        quotes = self._quotes
        while quotes % 2 and len(taken) < _MAX_CELL_LINES:
            numbered = self._ahead.popleft() if self._ahead else next(self._numbered, None)
            if numbered is None:
                break
            taken.append(numbered)
            line = numbered[1].replace('""', "")
            before, quote, _ = line.partition('"')
            if quote and (not before or before.endswith(delimiter)):
                break
            quotes += line.count('"')
        if taken and quotes % 2 == 0:
            self.last = taken[-1][0]
        else:
            self._ahead.extendleft(reversed(taken))


def _csv_fault(error: csv.Error) -> str:
    """Return what is wrong with a row that is not CSV, and what to do."""
    if _STRAY_RETURN in str(error):
        return (
            "not CSV (a carriage return outside quotes); put texts with line breaks in double "
            "quotes, or save the table as CSV UTF-8"
        )
    return f"not CSV ({error}); write a double quote within quotes twice"
