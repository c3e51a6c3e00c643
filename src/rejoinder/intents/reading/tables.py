"""Texts and their labels in CSV and JSON lines, by the names of columns and fields."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import INTENT, MESSAGE, QUESTIONS, find_column
from rejoinder.corpora.forms.csv_pairs import csv_rows
from rejoinder.corpora.forms.delimited import open_delimited
from rejoinder.corpora.forms.source import look
from rejoinder.corpora.lines import Reading, open_lines, strip_compression
from rejoinder.errors import InputError
from rejoinder.json_parsing import parse_json

_TEXT = ("text", "utterance", "sentence", "query", "question", "phrase", "example", "pattern")
_LABEL = ("label", "intent", "category", "class", "class_name", "tag", "topic")
TEXT_FIELDS = tuple(dict.fromkeys((*_TEXT, *MESSAGE, *QUESTIONS)))
LABEL_FIELDS = tuple(dict.fromkeys((*_LABEL, *INTENT)))
_SEVERAL_LABELS = ("labels", "intents")  # of a text that may have several, before the others

TAB_SEPARATED = (".tsv", ".tab")

# Where a text was read, for errors; the text; its labels.
Row: TypeAlias = tuple[str, str, tuple[str, ...]]


def read_csv(path: Path, notes: list[str], *, multi_label: bool = False) -> Iterator[Row]:
    """Yield the texts and labels of a CSV or TSV file, by its header if it has one.

    If texts may have several labels (`multi_label`), a column `labels` goes before `label`. A first
    row that may be a header with other names becomes one of the `notes`.
    """
    text = 0
    label = 1
    width = 0
    first: list[str] = []
    has_header = False
    is_repeated = False  # another row has the first one's label
    for where, row in _cells(path, notes):
        if not width:
            first = row
            width = len(row)
            columns = _columns(row, _label_fields(multi_label))
            if columns is not None:
                text, label = columns
                has_header = True
                continue
            if width != 2:
                raise InputError(
                    f"{where}: {width} columns and no header that names a text and a label; add a"
                    " first row with the names text and label"
                )
        elif has_header and row == first:
            continue
        elif len(row) != width:
            raise InputError(
                f"{where}: {len(row)} columns instead of {width};"
                " put texts that contain the delimiter in double quotes"
            )
        elif not has_header and row[label].strip() == first[label].strip():
            is_repeated = True
        yield where, row[text], (row[label],)
    if width and not has_header and not is_repeated:
        notes.append(
            f"{path}: the first row was read as a text, {first[text][:40]!r}, of the intent"
            f" {first[label][:40]!r}, which no other row has; if it is a header, name the columns"
            " text and label"
        )


def _cells(path: Path, notes: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of a table, each with its place; the file's name decides about tabs."""
    reading = Reading()
    if strip_compression(path).suffix.lower() in TAB_SEPARATED:
        choice = Choice(delimiter="\t", header=False, is_settable=False)
        table = open_delimited(look(path), choice, frozenset(), reading)
        yield from ((where, list(row.values())) for where, row in table.rows)
    else:
        yield from ((f"{path}:{number}", row) for number, row in csv_rows(path, reading))
    notes.extend(reading.notes)


def _label_fields(multi_label: bool) -> tuple[str, ...]:
    return (*_SEVERAL_LABELS, *LABEL_FIELDS) if multi_label else LABEL_FIELDS


def _columns(names: Sequence[str], label_fields: Sequence[str]) -> tuple[int, int] | None:
    """Return the positions of text and label if a row names both."""
    text = find_column(names, TEXT_FIELDS)
    label = find_column(names, label_fields)
    if text is None or label is None:
        return None
    return names.index(text), names.index(label)


def read_jsonl(path: Path, *, multi_label: bool = False) -> Iterator[Row]:
    """Yield the texts and labels of JSON lines, one object a line.

    If texts may have several labels (`multi_label`), a field `labels` goes before `label`.
    """
    names = _label_fields(multi_label)
    for number, line in open_lines(path):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        record = read_json(line, where)
        pairs = record.items() if isinstance(record, dict) else ()
        fields = {name: value for name, value in pairs if value is not None}
        text = _field(fields, TEXT_FIELDS)
        label = _field(fields, names)
        labels: list[Any] = label if isinstance(label, list) else [label]
        if not isinstance(text, str) or not all(isinstance(item, str) for item in labels):
            raise InputError(
                f'{where}: {{"text": "...", "label": "..."}} is read, given {line.strip()[:80]}'
            )
        yield where, text, tuple(labels)


def _field(record: Mapping[str, Any], names: Sequence[str]) -> Any:
    column = find_column(record, names)
    return None if column is None else record[column]


def read_json(text: str | bytes, where: str) -> Any:
    """Return a JSON value; InputError: it is not JSON."""
    try:
        return parse_json(text)
    except ValueError as error:
        raise InputError(f"{where}: not JSON ({error})") from None


def read_items(rows: Sequence[Any], place: str) -> Iterator[Row]:
    """Yield the texts and labels of a list of `[text, label]`."""
    for number, row in enumerate(rows):
        where = f"{place}, item {number}"
        is_pair = isinstance(row, list) and len(row) == 2
        if not is_pair or not all(isinstance(cell, str) for cell in row):
            raise InputError(f"{where}: [text, label] is read, given {json.dumps(row)[:60]}")
        yield where, row[0], (row[1],)
