"""Workbooks of spreadsheets."""

from __future__ import annotations

import contextlib
import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence, Set
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import is_known
from rejoinder.corpora.forms.source import Sample, Source
from rejoinder.corpora.forms.table import Table, by_name, check_names, explained, json_cell
from rejoinder.corpora.limits import MAX_CELLS, MAX_SHEET_ROWS
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError

_EMPTY_ROW: list[Any] = []
_HEADER_ROWS = 10  # among which the header of a sheet is
_BROKEN_WORKBOOK = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    SyntaxError,  # of XML
    LookupError,
    ArithmeticError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    RuntimeError,
)


def open_workbook(
    sample: Sample, choice: Choice, known: Set[str], reading: Reading | None
) -> Table:
    """Open the first sheet whose first rows have a known column, else the first one with rows.

    The header is the first of these rows with such a column, since titles may stand above it.
    """
    source = sample.source
    with explained(source, "a workbook", _BROKEN_WORKBOOK):
        sheets = {name: rows for name, rows in _sheets(source, reading) if rows}
    if not sheets:
        raise InputError(f"{source} holds no table; each of its sheets is empty")

    def header_of(rows: Sequence[Sequence[Any]]) -> int | None:
        named = (
            number
            for number, row in enumerate(rows[:_HEADER_ROWS])
            if any(is_known(cell, known) for cell in row if cell is not None)
        )
        return next(named, None)

    name = next(
        (name for name, rows in sheets.items() if header_of(rows) is not None), next(iter(sheets))
    )
    rows = sheets[name]
    first = (header_of(rows) or 0) if choice.header else -1
    width = max(len(row) for row in rows)
    names = [str(number) for number in range(1, width + 1)]
    if choice.header:
        names = ["" if cell is None else str(cell) for cell in rows[first]]
    check_names(names, f"{source}:{first + 1}")
    numbered = (
        (f"{source}:{number}", [*row, *[None] * (len(names) - len(row))])
        for number, row in enumerate(rows, 1)
        if number > first + 1 and any(cell not in ("", None) for cell in row)
    )
    form = f"workbook, sheet {name}" + (f", header in row {first + 1}" if first > 0 else "")
    return Table(form, [name for name in names if name], by_name(numbered, names, reading))


def _sheets(source: Source, reading: Reading | None) -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield the name and the rows of each sheet."""
    import openpyxl

    cells = 0
    with contextlib.closing(
        openpyxl.load_workbook(
            io.BytesIO(source.read(reading)), read_only=True, data_only=True, keep_links=False
        )
    ) as book:
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # which some programs write wrongly
            rows: list[list[Any]] = []
            for row in sheet.iter_rows(values_only=True):
                cells += 1 + len(row)
                if cells > MAX_CELLS:
                    raise InputError(
                        f"{source} holds more than {MAX_CELLS:,} cells; save the sheet as .csv"
                    )
                if len(rows) >= MAX_SHEET_ROWS:
                    raise InputError(
                        f"{source}: sheet {sheet.title} has a row after {MAX_SHEET_ROWS:,}, the "
                        "last of a workbook; save the sheet as .csv"
                    )
                rows.append(list(map(json_cell, row)) if row else _EMPTY_ROW)
            while rows and not any(cell not in ("", None) for cell in rows[-1]):
                rows.pop()
            yield sheet.title, rows
