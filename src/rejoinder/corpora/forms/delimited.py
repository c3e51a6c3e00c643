"""Delimited text: its delimiter, its header, its rows.

The delimiter is the one of `,` `;` tab `|` by which the header has known names or the rows equally
many cells: csv.Sniffer looks at characters alone and takes letters for delimiters; clevercsv, which
does not, needs minutes for long texts.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence, Set

from rejoinder.corpora.forms.choice import DELIMITERS, Choice
from rejoinder.corpora.forms.columns import fold, is_known
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.forms.strict_csv import strict_rows
from rejoinder.corpora.forms.table import Table, by_name, check_names
from rejoinder.corpora.limits import MAX_LINE_BYTES
from rejoinder.corpora.lines import Reading
from rejoinder.patterns import match_pattern

REPEATED_HEADERS = "repeated headers"
_JUDGED_ROWS = 200
_TITLE_ROWS = 5  # that may stand above a header, each with one cell
_SEPARATOR = match_pattern(r'"?sep=(.)"?[,;\t|]{0,99}\s{0,9}', re.IGNORECASE)


def named_delimiter(line: str) -> str:
    """Return the delimiter that the first line of Excel's files names (`sep=;`), else nothing."""
    match = _SEPARATOR.fullmatch(line.removeprefix("\ufeff"))
    return match[1] if match and not (match[1].isalnum() or match[1] in "\"'\r\n") else ""


def find_delimiter(lines: Sequence[str], known: Set[str] = frozenset()) -> str:
    """Return the delimiter of a table's first lines; a comma if it has one column."""
    if lines and (named := named_delimiter(lines[0])):
        return named

    def rank(delimiter: str) -> tuple[float, ...]:
        rows = sampled_rows(lines, delimiter)
        header = rows[header_place(rows, known)] if rows else []
        if len(header) < 2:
            return (0.0, 0.0, 0.0)
        width = len(header)
        names = sum(is_known(name, known) for name in header)
        equal = sum(len(row) == width for row in rows) / len(rows)
        return (float(names), equal, float(width))

    return max(DELIMITERS, key=rank)


def header_place(
    rows: Sequence[Sequence[str]], known: Set[str], chosen: Collection[str] = ()
) -> int:
    """Return the place of a table's header among its first rows: titles may stand above it.

    It has two known names, or all that were `chosen`; a title has fewer cells.
    """
    first = rows[: _TITLE_ROWS + 1]
    wanted = set(map(fold, chosen))
    for place, row in enumerate(first):
        names = set(map(fold, row))
        is_header = names >= wanted if wanted else sum(is_known(cell, known) for cell in row) > 1
        if is_header:
            width = _filled(row)
            return place if all(_filled(above) < width for above in first[:place]) else 0
        if not wanted and _filled(row) > 1 and any(is_known(cell, known) for cell in row):
            return 0
    return 0


def _filled(row: Sequence[str]) -> int:
    return sum(map(bool, map(str.strip, row)))


def sampled_rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Return the first rows of a table that are not blank; none if it is not a table."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    lines = lines[1:] if lines and named_delimiter(lines[0]) else lines
    with contextlib.suppress(csv.Error):
        table = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)
        rows = [row for row in itertools.islice(table, _JUDGED_ROWS) if any(map(str.strip, row))]
        return rows[:-1] if len(rows) > 2 else rows  # the last one may be cut off
    return []


def open_delimited(
    sample: Sample, choice: Choice, known: Set[str], reading: Reading | None
) -> Table:
    """Open delimited text, whose header has some of the known columns or not."""
    source = sample.source
    delimiter = choice.delimiter or find_delimiter(sample.lines, known)
    encoding = choice.encoding or sample.encoding
    rows = _text_rows(sample, delimiter, encoding, reading)
    above = list(itertools.islice(rows, _TITLE_ROWS + 1)) if choice.header else []
    place = header_place([row for _, row in above], known, choice.columns.values())
    rows = itertools.chain(above[place:], rows)
    first, header = next(rows, (f"{source}:1", []))
    names = list(header)
    if not choice.header:
        names = [str(number) for number in range(1, len(header) + 1)]
        rows = itertools.chain([(first, header)], rows)
    check_names(names, first)
    form = f"table ({DELIMITERS.get(delimiter, repr(delimiter))}, {encoding})"
    form += f", header in row {first.rpartition(':')[2]}" if place else ""
    rows = _without_headers(rows, header, reading) if choice.header else rows
    return Table(form, [name for name in names if name], by_name(rows, names, reading))


def _text_rows(
    sample: Sample, delimiter: str, encoding: str, reading: Reading | None
) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows that are not blank, each with its first line; all lines of a bad one count."""
    reading = reading or Reading()
    source = sample.source
    numbered = (
        (number, line)
        for number, line in split_returns(source.lines(encoding, reading))
        if number > 1 or not named_delimiter(line)
    )
    bare = delimiter == "\t" and not _is_quoted(sample.lines)
    for row in strict_rows(numbered, delimiter, quoted=not bare):
        if row.fault:
            reading.bad_row(f"{source}:{row.number}", row.fault, lines=row.lines)
        elif any(map(str.strip, row.cells)):
            yield f"{source}:{row.number}", row.cells


def split_returns(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield numbered lines of a table, also where each ends with a carriage return alone.

    Excel for Mac writes those. A first line that has one outside quotes tells them from others.
    """
    count = 0
    is_split = False
    for number, line in lines:
        if number == 1:
            first, is_cut, _ = line.partition("\r")
            is_split = bool(is_cut) and first.count('"') % 2 == 0
        if not is_split:
            yield number, line
            continue
        for part in line.split("\r"):
            count += 1
            yield count, part


def _is_quoted(lines: Sequence[str]) -> bool:
    """Return whether quotes in a table with tabs surround cells, as strict CSV has them."""
    try:
        for _ in csv.reader((f"{line}\n" for line in lines), delimiter="\t", strict=True):
            pass
    except csv.Error as error:
        return "unexpected end" in str(error) and len(lines) > _JUDGED_ROWS
    return True


def _without_headers(
    rows: Iterable[tuple[str, list[str]]], header: Sequence[str], reading: Reading | None
) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows that do not repeat the header, as tables one behind the other do."""
    for where, row in rows:
        if row == header:
            if reading is not None:
                reading.drop(REPEATED_HEADERS)
        else:
            yield where, row
