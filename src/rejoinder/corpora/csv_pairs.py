"""CSV: what was said and the response to it, in two columns.

A first row that holds `context` and `response`, or `question` and `answer` (in any case and order), is a header: then
further columns are allowed, of which `context/0`, `context/1`, ..., `id`, `thread` and `source` mean what they mean in
JSON lines. Without a header there are exactly two columns. Commas separate, double quotes protect commas, line ends
and (doubled) quotes. Rows of blank cells are skipped. What is said in `rejoinder.corpora.jsonl` of threads and blank
messages holds here too.
"""

from __future__ import annotations

import csv
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

from rejoinder.corpora.corpus import Corpus, NoSettings
from rejoinder.corpora.dialogues import Threads
from rejoinder.corpora.example import Example
from rejoinder.corpora.lines import MAX_LINE_BYTES, Reading, open_lines, strip_compression
from rejoinder.corpora.records import EARLIER_CONTEXT, BadRecordError, record_examples

_HEADERS = ({"context", "response"}, {"question", "answer"})
_SAME = {"question": "context", "answer": "response"}
_KNOWN = frozenset({"context", "response", "id", "thread", "thread_id", "product_id", "file_id", "source"})


def read_csv(
    path: str | Path, reading: Reading | None = None, _settings: NoSettings | None = None
) -> Generator[Example]:
    """Read the examples of a CSV file, compressed or not; there are no settings.

    Raises:
        InputError: a fault of the file; or of a row, with the number of its first line, unless bad rows are skipped.
    """
    path, reading, threads = Path(path), reading or Reading(), Threads()
    source = strip_compression(path).stem
    columns: list[str] | None = None
    for number, row in csv_rows(path, reading):
        if columns is None:
            columns = _columns(row)
            if _is_header(row):
                reading.notes.append(f"{path}:{number}: a header, not an example: {', '.join(row)[:60]}")
                continue
        reading.lines += 1
        try:
            yield from record_examples(_record(row, columns), f"{source}:{number}", source, reading, threads)
        except BadRecordError as error:
            reading.bad_line(path, number, str(error))


def csv_rows(path: Path, reading: Reading) -> Iterator[tuple[int, list[str]]]:
    """Rows of a CSV file that are not blank, and the number of the line on which each begins.

    Raises:
        InputError: a fault of the file; or of a row, unless bad rows are skipped.
    """
    # The limit is the library's one setting for all its readers, and lower than a message may be long.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    lines = _Lines(path, reading)
    table = csv.reader(lines, strict=True)
    while True:
        start = lines.number + 1
        try:
            row = next(table)
        except StopIteration:
            return
        except csv.Error as error:
            reading.lines += 1
            reading.bad_line(path, start, f"not CSV ({error}); write a double quote within quotes twice")
            continue
        if any(cell.strip() for cell in row):
            yield start, row


class _Lines:
    """The lines of a file, and the number of the last one given."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.number = 0
        self._lines = open_lines(path, reading)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.number, line = next(self._lines)
        return f"{line}\n"  # the csv module tells by it a line end within quotes from the end of a row


def _is_header(row: list[str]) -> bool:
    names = [name.strip().lower() for name in row]
    return any(header <= set(names) for header in _HEADERS) and len(set(names)) == len(names)


def _columns(first: list[str]) -> list[str]:
    if not _is_header(first):
        return ["context", "response"]
    names = [name.strip().lower() for name in first]
    return [name if "context" in names else _SAME.get(name, name) for name in names]


def _record(row: list[str], columns: list[str]) -> Mapping[str, str]:
    if len(row) != len(columns):
        raise BadRecordError(f"{len(row)} columns instead of {len(columns)}; put texts with commas in double quotes")
    cells = zip(columns, row, strict=True)
    return {name: cell for name, cell in cells if name in _KNOWN or EARLIER_CONTEXT.fullmatch(name)}


CORPUS = Corpus(
    name="csv",
    title="Your own pairs of what was said and the response to it, one a row.",
    reads="*.csv with the columns context and response, or question and answer",
    licence="yours",
    origin="your own export",
    expected="",
    read=read_csv,
)
