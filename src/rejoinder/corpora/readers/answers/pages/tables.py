"""Tables of questions and answers in a page: taken out of it, with a token in the place of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.columns import answering_columns
from rejoinder.corpora.readers.answers.records import candidate_of
from rejoinder.corpora.readers.answers.table import NO_REPLY
from rejoinder.corpora.schema import Candidate
from rejoinder.html_text import text_of_element
from rejoinder.patterns import search_pattern

_SIGN = "\ue001"  # before and after the number of a table, in the text of a page
_TOKEN = search_pattern(f"{_SIGN}(\\d{{1,9}}){_SIGN}")
_MOST_COLUMNS = 100


class _PageTable(NamedTuple):
    records: list[dict[str, str]]
    columns: Mapping[str, str]
    text: str


class PageTables:
    """The tables of a page that name questions and answers."""

    def __init__(self, tree: Any, reading: Reading) -> None:
        """Take the tables out of a page; `reading` counts rows without an answer."""
        self._reading = reading
        self._tables: list[_PageTable] = []
        taken = set()
        for table in tree.xpath("//table"):
            if any(parent in taken for parent in table.iterancestors("table")):
                continue
            rows = _rows(table)
            columns = answering_columns(rows[0]) if rows else {}
            if "text" not in columns or "questions" not in columns:
                continue
            records = [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]
            self._tables.append(_PageTable(records, columns, text_of_element(table)))
            taken.add(table)
            for child in list(table):
                table.remove(child)
            table.text = f"{_SIGN}{len(self._tables) - 1}{_SIGN}"

    def count(self, body: str) -> int:
        """Return how many tables a text has."""
        return len(_TOKEN.findall(body))

    def take(self, body: str) -> tuple[str, list[Candidate]]:
        """Return a text without its tables, and the replies of these."""
        replies = [reply for number in _TOKEN.findall(body) for reply in self._replies(int(number))]
        return _TOKEN.sub("", body), replies

    def as_text(self, body: str) -> str:
        """Return a text with that of its tables."""
        return _TOKEN.sub(lambda match: self._tables[int(match[1])].text, body)

    def _replies(self, number: int) -> Iterator[Candidate]:
        table = self._tables[number]
        for record in table.records:
            if record.get(table.columns["text"]):
                yield candidate_of(record, table.columns, "a table of the page")
            else:
                self._reading.drop(NO_REPLY)


def _rows(table: Any) -> list[list[str]]:
    """Return the texts of a table's cells; one over several rows has its text in each of them."""
    rows = table.xpath("./tr | ./*/tr")
    if len(rows) < 2 or rows[0].find(".//table") is not None:
        return []
    width = sum(_span(cell, "colspan") for cell in rows[0].xpath("./th | ./td"))
    if width > _MOST_COLUMNS:
        return []
    texts: list[list[str]] = []
    spans: dict[int, tuple[int, str]] = {}  # rows to come and text, by column
    for row in rows:
        cells = iter(row.xpath("./th | ./td"))
        texts.append(list(_cells(cells, spans, width)))
    return texts


def _cells(cells: Iterator[Any], spans: dict[int, tuple[int, str]], width: int) -> Iterator[str]:
    """Yield the texts of a row by its columns: its own, and those of the rows above."""
    blank = 0
    for column in range(width):
        count, text = spans.pop(column, (0, ""))
        if not count:
            cell = None if blank else next(cells, None)
            text = "" if cell is None else text_of_element(cell)
            count = 1 if cell is None else _span(cell, "rowspan")
            blank = blank - 1 if blank else 0 if cell is None else _span(cell, "colspan") - 1
        if count > 1:
            spans[column] = (count - 1, text)
        yield text


def _span(cell: Any, name: str) -> int:
    digits = str(cell.get(name) or "1").strip()
    return max(1, int(digits)) if digits.isascii() and digits.isdigit() and len(digits) < 7 else 1
