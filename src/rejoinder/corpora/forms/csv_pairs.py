"""Tables of a user's own: CSV, a row a pair."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.dialogues import Threads
from rejoinder.corpora.forms.choice import DELIMITERS
from rejoinder.corpora.forms.columns import MESSAGE, QUESTIONS, REPLY, fold, is_known, is_name
from rejoinder.corpora.forms.delimited import (
    REPEATED_HEADERS,
    find_delimiter,
    named_delimiter,
    split_returns,
)
from rejoinder.corpora.forms.formats import (
    EARLIER_CONTEXT,
    THREAD_FIELDS,
    OwnSettings,
    record_examples,
)
from rejoinder.corpora.forms.source import Source, look
from rejoinder.corpora.forms.strict_csv import strict_rows
from rejoinder.corpora.lines import Reading, strip_compression
from rejoinder.corpora.records import BadRecordError, parse_records
from rejoinder.corpora.schema import Example
from rejoinder.patterns import match_pattern

_HEADERS = ({"context", "response"}, {"question", "answer"})
_COLUMNS = frozenset({"context", "response", "id", "source", *THREAD_FIELDS})
_NAMES = frozenset().union(*_HEADERS, _COLUMNS)
_USUAL = _NAMES.union(MESSAGE, QUESTIONS, REPLY)  # by which other tables name their columns
_CONTEXT_NAMES = frozenset(
    ("context", "question", "prompt", "input", "message", "msg", "utterance")
)
_RESPONSE_NAMES = frozenset(REPLY) - {"text"}
_CONTEXT_PATTERN = match_pattern(
    r"(?:customer|client|user|visitor)_(?:message|question|query|text|comment|request)"
)
_RESPONSE_PATTERN = match_pattern(
    r"(?:agent|support|operator|staff|team|our|bot)_(?:message|reply|response|answer|text|comment)"
)
_SAME_AS = {"question": "context", "answer": "response"}


def read_csv(
    path: str | Path,
    reading: Reading | None = None,
    settings: OwnSettings | None = None,
    *,
    left_out: Callable[[Mapping[str, str]], str] | None = None,
) -> Generator[Example]:
    """Yield the examples of a CSV file; a bad row has its first line's number.

    `left_out` returns why a row is left out and counted, or nothing; it has the cells of all
    columns. None: no row is.
    """
    path = Path(path)
    reading = reading or Reading()
    settings = settings or OwnSettings()
    source = strip_compression(path).stem
    stem = reading.stem(path)
    threads = Threads()
    columns = ["context", "response"]

    def parse(number: int, row: list[str]) -> Sequence[Example]:
        if len(row) != len(columns):
            raise BadRecordError(
                f"{len(row)} columns instead of {len(columns)} ({', '.join(columns)}); "
                "put texts that contain the delimiter in double quotes"
            )
        cells = dict(zip(columns, row, strict=True))
        reason = left_out(cells) if left_out is not None else ""
        if reason:
            reading.drop(reason)
            return ()
        record = {
            name: cell
            for name, cell in cells.items()
            if name in _COLUMNS or EARLIER_CONTEXT.fullmatch(name)
        }
        return record_examples(record, f"{stem}:{number}", source, reading, threads)

    rows = csv_rows(path, reading)
    for number, row in itertools.islice(rows, 1):
        names = pair_columns(row)
        if names:
            columns = names
            text = ", ".join(row)[:60]
            reading.notes.append(f"{path}:{number}: a header, not an example: {text}")
            rows = without_repeated(rows, row, reading)
        else:
            _note_names(row, f"{path}:{number}", reading)
            rows = itertools.chain([(number, row)], rows)
    yield from settings.finish(parse_records(path, reading, rows, parse), reading)


def pair_columns(row: Sequence[str]) -> list[str]:
    """Return the names of the columns if the row has them, else nothing.

    What a customer said and the reply are known by their other usual names, too: "message, reply".
    """
    names = [fold(name) for name in row]
    if len(set(names)) < len(names):
        return []
    if any(header <= set(names) for header in _HEADERS):
        return names if "context" in names else [_SAME_AS.get(name, name) for name in names]
    contexts = [
        name for name in names if name in _CONTEXT_NAMES or _CONTEXT_PATTERN.fullmatch(name)
    ]
    responses = [
        name for name in names if name in _RESPONSE_NAMES or _RESPONSE_PATTERN.fullmatch(name)
    ]
    if len(contexts) != 1 or len(responses) != 1 or "text" in names:
        return []
    roles = {contexts[0]: "context", responses[0]: "response"}
    return [roles.get(name, name) for name in names]


def _note_names(row: list[str], where: str, reading: Reading) -> None:
    """Note a first row that is read as an example, and may be a header in other words."""
    if not all(is_name(cell) for cell in row):
        return
    if all(cell.istitle() for cell in row) or any(is_known(cell, _USUAL) for cell in row):
        reading.notes.append(
            f"{where}: an example, not a header: {', '.join(row)[:60]}; if these are names of "
            "columns, name them question and answer"
        )


def without_repeated(
    rows: Iterable[tuple[int, list[str]]], header: list[str], reading: Reading
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that do not repeat the header, as files one behind the other do."""
    for number, row in rows:
        if row == header:
            reading.drop(REPEATED_HEADERS)
        else:
            yield number, row


def csv_rows(path: Path, reading: Reading) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file that are not blank, each with the number of its first line.

    Delimiter and encoding are found by its beginning; a pipe has commas and is in UTF-8.
    """
    delimiter = ","
    encoding = "utf-8"
    if path.is_file():
        sample = look(path)
        delimiter = find_delimiter(sample.lines, _NAMES)
        encoding = sample.encoding
    if (delimiter, encoding) not in ((",", "utf-8"), (",", "utf-8-sig")):
        name = DELIMITERS.get(delimiter, repr(delimiter))
        reading.notes.append(f"{path}: a table ({name}, {encoding})")

    numbered = split_returns(Source(path).lines(encoding, reading))
    first = list(itertools.islice(numbered, 1))
    if first and (named := named_delimiter(first[0][1])):
        delimiter = named
        first = []
    for row in strict_rows(itertools.chain(first, numbered), delimiter):
        if row.fault:
            reading.bad_row(f"{path}:{row.number}", row.fault, lines=row.lines)
        elif any(map(str.strip, row.cells)):
            yield row.number, row.cells


CSV = Corpus(
    name="csv",
    title="Your own pairs of what was said and the response to it, one a row.",
    reads="*.csv with the columns context and response, or question and answer",
    licence="yours",
    origin="your own export",
    read=read_csv,
    settings=OwnSettings,
)
