"""Rows of tables: delimited text, workbooks, Parquet, JSON arrays and JSON lines.

The delimiter is the one of `,` `;` tab `|` by which the header has known names or the rows equally
many cells: csv.Sniffer looks at characters alone and takes letters for delimiters; clevercsv, which
does not, needs minutes for long texts.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import itertools
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from rejoinder.corpora.forms.source import Sample, Source
from rejoinder.corpora.forms.unpacked import limited_batches
from rejoinder.corpora.json_values import json_values
from rejoinder.corpora.limits import (
    MAX_CELLS,
    MAX_LINE_BYTES,
    MAX_SHEET_ROWS,
    check_columns,
)
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.records import BadRecordError
from rejoinder.errors import InputError
from rejoinder.patterns import match_pattern, search_pattern

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
REPEATED_HEADERS = "repeated headers"
_JUDGED_ROWS = 200
_STRAY_RETURN = "new-line character seen in unquoted field"  # in an error of the csv module
_EMPTY_ROW: list[Any] = []
_CAMEL = search_pattern(r"(?<=[a-z0-9])(?=[A-Z])")
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


@dataclass(frozen=True, slots=True)
class Choice:
    """The settings `columns` and `format`: FORM[,encoding=...][,delimiter=...][,header=no]."""

    form: str = ""
    encoding: str = ""
    delimiter: str = ""
    header: bool = True
    inactive: bool = False  # whether entries that are switched off, or not approved, are read
    columns: Mapping[str, str] = field(default_factory=dict)  # names by role
    is_settable: bool = True  # whether the user can make choices, so that errors name them

    def advice(self, settable: str, otherwise: str = "") -> str:
        """Return the end of an error: one that names settings, or one for where there are none."""
        return settable if self.is_settable else otherwise

    def untaken(self, takes: Set[str]) -> str:
        """Return which choice a form that `takes` some of them has no use for, or nothing."""
        made = {
            "columns": ("columns", bool(self.columns)),
            "delimiter": ("a delimiter", bool(self.delimiter)),
            "header": ("header=no", not self.header),
        }
        return next(
            (text for name, (text, is_made) in made.items() if is_made and name not in takes), ""
        )


def parse_choice(text: str, columns: str = "", inactive: str = "") -> Choice:
    """Return the choices of the settings `format`, `columns` and `inactive`."""
    if inactive not in ("", "keep", "drop"):
        raise InputError(f"inactive={inactive}: it is keep or drop")
    form, *options = text.split(",") if text else [""]
    words = {name: delimiter for delimiter, name in DELIMITERS.items()}
    values: dict[str, str] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if key not in ("encoding", "delimiter", "header") or not equals:
            raise InputError(
                f"format={text}: {option!r} is none of encoding=NAME, header=no and "
                f"delimiter=NAME ({', '.join(words)})"
            )
        values[key] = value
    delimiter = values.get("delimiter", "")
    if delimiter not in ("", *words, *DELIMITERS):
        raise InputError(f"format={text}: the delimiter is one of {', '.join(words)}")
    if values.get("header", "yes") not in ("yes", "no"):
        raise InputError(f"format={text}: header is yes or no")
    pairs = [pair.partition("=") for pair in columns.split(",") if pair]
    if wrong := [role for role, equals, name in pairs if not (role and equals and name)]:
        raise InputError(
            f"columns={columns}: write {wrong[0]!r} as ROLE=NAME, such as text=Antwort"
        )
    return Choice(
        form=form,
        encoding=values.get("encoding", ""),
        delimiter=words.get(delimiter, delimiter),
        header=values.get("header", "yes") == "yes",
        inactive=inactive == "keep",
        columns={role.strip(): name.strip() for role, _, name in pairs},
    )


def fold(name: object) -> str:
    """Return the key by which names of columns are compared: no case, spaces, hyphens or dots."""
    return "_".join(str(name).casefold().replace("-", " ").replace(".", " ").split())


def name_keys(name: object) -> tuple[str, str]:
    """Return the keys of a column's name, as it is and with camel case split: `ticketId`."""
    return fold(name), fold(_CAMEL.sub(" ", str(name)))


def is_known(name: object, known: Set[str]) -> bool:
    """Return whether a column's name is one of the known ones."""
    return not known.isdisjoint(name_keys(name))


def is_name(text: str) -> bool:
    """Return whether a cell may be the name of a column, and is not a sentence."""
    return len(text.split()) <= 3 and not any(char in text for char in ".!?,:;")


def find_column(names: Iterable[str], wanted: Sequence[str]) -> str | None:
    """Return the name that equals the first of the wanted ones that is there."""
    by_key = {key: name for name in reversed(list(names)) for key in name_keys(name)}
    return next((by_key[key] for key in wanted if key in by_key), None)


def columns_of(
    names: Sequence[str], words: Mapping[str, Sequence[str]], choice: Choice, where: str
) -> dict[str, str]:
    """Return the column of each role: the chosen one, or the first of the role's usual words.

    InputError: the choice names an unknown role, or a column that is not there.
    """
    if unknown := [role for role in choice.columns if role not in words]:
        raise InputError(f"columns={unknown[0]}=...: the columns are {', '.join(words)}")
    columns: dict[str, str] = {}
    for role, usual in words.items():
        name = find_column(names, usual)
        if role in choice.columns:
            wanted = choice.columns[role]
            name = find_column(names, [fold(wanted)])
            if name is None:
                raise InputError(
                    f"{where}: no column {wanted!r} for {role}; there is {_listed(names)}"
                )
        if name is not None and (role in choice.columns or name not in columns.values()):
            columns[role] = name
    return columns


def value_of(row: Mapping[str, Any], columns: Mapping[str, str], role: str) -> Any:
    """Return what a row has in the column of a role; None where no column has that role."""
    return row.get(columns[role]) if role in columns else None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(str, names[:12]))[:200] or "none"


@dataclass(slots=True)
class Table:
    """A table that is being read."""

    form: str  # in words, for the note: "table (semicolon, cp1252)"
    names: list[str]
    rows: Iterator[tuple[str, dict[str, Any]]]  # where it is, for errors; cells by column


def open_table(
    sample: Sample, choice: Choice, known: Set[str], reading: Reading | None = None
) -> Table:
    """Open delimited text, a workbook or Parquet; `known` are folded names of usual columns."""
    openers: dict[str, Callable[..., Table]] = {"workbook": _workbook, "parquet": _parquet}
    opener = openers.get(sample.kind, _delimited)
    if opener is not _delimited and (choice.delimiter or choice.encoding):
        raise InputError(f"{sample.source} is not text; leave the delimiter and the encoding out")
    if opener is _parquet and not choice.header:
        raise InputError(f"{sample.source} names its columns; leave header=no out")
    return opener(sample, choice, known, reading)


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
        if not rows or len(rows[0]) < 2:
            return (0.0, 0.0, 0.0)
        width = len(rows[0])
        names = sum(is_known(name, known) for name in rows[0])
        equal = sum(len(row) == width for row in rows) / len(rows)
        return (float(names), equal, float(width))

    return max(DELIMITERS, key=rank)


def sampled_rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Return the first rows of a table that are not blank; none if it is not a table."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    lines = lines[1:] if lines and named_delimiter(lines[0]) else lines
    with contextlib.suppress(csv.Error):
        table = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)
        rows = [row for row in itertools.islice(table, _JUDGED_ROWS) if any(map(str.strip, row))]
        return rows[:-1] if len(rows) > 2 else rows  # the last one may be cut off
    return []


def _delimited(sample: Sample, choice: Choice, known: Set[str], reading: Reading | None) -> Table:
    source = sample.source
    delimiter = choice.delimiter or find_delimiter(sample.lines, known)
    encoding = choice.encoding or sample.encoding
    rows = _text_rows(sample, delimiter, encoding, reading)
    first, header = next(rows, (f"{source}:1", []))
    names = list(header)
    if not choice.header:
        names = [str(number) for number in range(1, len(header) + 1)]
        rows = itertools.chain([(first, header)], rows)
    _check_names(names, first)
    form = f"table ({DELIMITERS.get(delimiter, repr(delimiter))}, {encoding})"
    rows = _without_headers(rows, header, reading) if choice.header else rows
    return Table(form, [name for name in names if name], _named(rows, names, reading))


def _text_rows(
    sample: Sample, delimiter: str, encoding: str, reading: Reading | None
) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows that are not blank, each with its first line; all lines of a bad one count."""
    reading = reading or Reading()
    source = sample.source
    number = 0
    first = 0  # line of the row; 0: none of its lines is read

    def lines() -> Iterator[str]:
        nonlocal number, first
        for number, line in split_returns(source.lines(encoding, reading)):
            if number > 1 or not named_delimiter(line):
                first = first or number
                yield f"{line}\n"  # tells a line break in quotes from the end of a row

    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    bare = delimiter == "\t" and not _is_quoted(sample.lines)
    table = csv.reader(
        lines(),
        delimiter=delimiter,
        strict=True,
        quoting=csv.QUOTE_NONE if bare else csv.QUOTE_MINIMAL,
    )
    while True:
        first = 0
        try:
            row = next(table, None)
        except csv.Error as error:
            reading.bad_row(f"{source}:{first}", csv_fault(error), lines=number - first + 1)
            continue
        if row is None:
            return
        if any(map(str.strip, row)):
            yield f"{source}:{first}", row


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


def csv_fault(error: csv.Error) -> str:
    """Return what is wrong with a row that is not CSV, and what to do."""
    if _STRAY_RETURN in str(error):
        return (
            "not CSV (a carriage return outside quotes); put texts with line breaks in double "
            "quotes, or save the table as CSV UTF-8"
        )
    return f"not CSV ({error}); write a double quote within quotes twice"


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


def _check_names(names: Sequence[str], where: str) -> None:
    check_columns(len(names), where)
    counts = Counter(fold(name) for name in names if name.strip())
    if twice := [key for key, count in counts.items() if count > 1]:
        raise InputError(f"{where}: two columns are named {twice[0]!r}; rename or delete one")


def _named(
    rows: Iterable[tuple[str, Sequence[Any]]], names: Sequence[str], reading: Reading | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield rows by the names of their columns; a column without a name is left out."""
    reading = reading or Reading()
    for where, row in rows:
        if len(row) < len(names) or any(cell not in ("", None) for cell in row[len(names) :]):
            reading.bad_row(
                where,
                f"the row has {len(row)} fields and not as many as the header has columns, "
                f"{len(names)}; put texts with the delimiter in double quotes",
            )
            continue
        yield where, {name: cell for name, cell in zip(names, row, strict=False) if name.strip()}


def _workbook(sample: Sample, choice: Choice, known: Set[str], reading: Reading | None) -> Table:
    """Open the first sheet whose first rows have a known column, else the first one with rows.

    The header is the first of these rows with such a column, since titles may stand above it.
    """
    source = sample.source
    with _explained(source, "a workbook", _BROKEN_WORKBOOK):
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
    _check_names(names, f"{source}:{first + 1}")
    numbered = (
        (f"{source}:{number}", [*row, *[None] * (len(names) - len(row))])
        for number, row in enumerate(rows, 1)
        if number > first + 1 and any(cell not in ("", None) for cell in row)
    )
    form = f"workbook, sheet {name}" + (f", header in row {first + 1}" if first > 0 else "")
    return Table(form, [name for name in names if name], _named(numbered, names, reading))


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
                rows.append(list(map(_cell, row)) if row else _EMPTY_ROW)
            while rows and not any(cell not in ("", None) for cell in rows[-1]):
                rows.pop()
            yield sheet.title, rows


@contextlib.contextmanager
def _explained(source: Source, kind: str, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Turn a library's error about a file into an InputError."""
    try:
        yield
    except InputError:
        raise
    except errors as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{source}: not {kind}, or damaged or cut off ({reason})") from None


def _cell(value: Any) -> Any:
    """Return a cell of a workbook as a type of JSON."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return str(value)
    return value


def _parquet(sample: Sample, choice: Choice, known: Set[str], reading: Reading | None) -> Table:
    """Open a Parquet file as a table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    del choice, known, reading
    source = sample.source

    broken = (pa.ArrowException, OSError, UnicodeDecodeError)
    with _explained(source, "Parquet", broken):
        file = pq.ParquetFile(source.path)
        names = list(file.schema_arrow.names)
        check_columns(len(names), str(source))

    def rows() -> Iterator[tuple[str, dict[str, Any]]]:
        number = 0
        batches = limited_batches(file, source.path)
        while True:
            with _explained(source, "Parquet", broken):
                batch = next(batches, None)
                records = [] if batch is None else batch.to_pylist()
            if batch is None:
                return
            for row in records:
                number += 1
                values = {name: _cell(value) for name, value in row.items()}
                yield f"{source}: row {number}", values

    return Table("Parquet", names, rows())


def json_rows(
    sample: Sample, path: str = "", reading: Reading | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield where and what each JSON value is: of lines, of the array at a path, or of the file."""
    source = sample.source
    if sample.kind == "json lines" and not path:
        yield from _json_lines(source, sample.encoding, reading)
        return
    values = json_values(source, {path or "item"}, sample.encoding, reading)
    for number, (_, value) in enumerate(values, 1):
        yield f"{source}: object {number}", value


def _json_lines(
    source: Source, encoding: str, reading: Reading | None
) -> Iterator[tuple[str, Any]]:
    reading = reading or Reading()
    for number, line in source.lines(encoding, reading):
        if not line.strip():
            continue
        try:
            value = _json_value(line, "one object")
        except BadRecordError as error:
            reading.bad_row(f"{source}:{number}", str(error))
        else:
            yield f"{source}:{number}", value


def parse_line(line: str, where: str, wanted: str) -> Any:
    """Return the JSON value of a line; InputError: it is none, or no text that a file can hold."""
    try:
        return _json_value(line, wanted)
    except BadRecordError as error:
        raise InputError(f"{where}: {error}") from None


def _json_value(line: str, wanted: str) -> Any:
    try:
        value = json.loads(line, parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadRecordError(
            "half of a surrogate pair (\\ud800 to \\udfff) is not a character"
        ) from None
    except RecursionError:
        raise BadRecordError(f"not JSON (nested too deep); {wanted} a line is read") from None
    except ValueError as error:
        raise BadRecordError(f"not JSON ({error}); {wanted} a line is read") from None
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
