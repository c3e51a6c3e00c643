"""Replies as the rows of a table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import fold
from rejoinder.corpora.forms.delimited import REPEATED_HEADERS
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.forms.tables import open_table
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.columns import (
    KNOWN_COLUMNS,
    misspelt,
    numbered_questions,
    reply_columns,
    roles_of,
)
from rejoinder.corpora.readers.answers.records import candidate_of, gathered
from rejoinder.corpora.readers.form import OF_TABLES, Form
from rejoinder.corpora.readers.help_desks.replies import macro_json
from rejoinder.corpora.readers.standing import is_inactive, why_unused
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError

_JUDGED_ROWS = 100  # whose cells tell what a column is
NO_REPLY = "rows without a reply"  # a key of `Reading.dropped`


def read_table(
    sample: Sample,
    choice: Choice,
    reading: Reading,
    is_dependent: Callable[[Mapping[str, Any]], bool] | None = None,
) -> Iterator[Candidate]:
    """Yield a reply for each row, or for each answer where the rows have questions.

    `is_dependent` counts a row that answers only behind another one, by its cells.
    """
    table = open_table(sample, choice, KNOWN_COLUMNS, reading)
    source = sample.source
    first = list(itertools.islice(table.rows, _JUDGED_ROWS))
    columns = reply_columns(
        table.names, choice, str(source), records=[record for _, record in first]
    )
    is_left_out = _left_out(columns, choice, reading)
    numbered = numbered_questions(tuple(table.names))
    words = roles_of(columns, numbered)
    reading.notes.append(f"{source}: {table.form}: {words}")
    reading.notes += [f"{source}: {note}" for note in misspelt(table.names, columns)]

    def candidates() -> Iterator[Candidate]:
        rows = 0
        for where, row in itertools.chain(first, table.rows):
            rows += 1
            if is_left_out(row) or (is_dependent is not None and is_dependent(row)):
                continue
            text = row[columns["text"]]
            text = macro_json(text) if isinstance(text, str) else text
            if text is None or not str(text).strip():
                reading.drop(NO_REPLY)
                continue
            text = text if isinstance(text, list) else str(text).strip()
            yield candidate_of({**row, columns["text"]: text}, columns, where)
        if not rows:
            raise InputError(f"{source} has a header and no rows; give each reply a row")

    has_questions = "questions" in columns or bool(numbered)
    yield from gathered(candidates(), reading, source) if has_questions else candidates()


def _left_out(
    columns: Mapping[str, str], choice: Choice, reading: Reading
) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that counts a record which is not to be read: a header, or not in use."""

    def is_left_out(record: Mapping[str, Any]) -> bool:
        if len(columns) > 1 and all(
            fold(record.get(name) or "") == fold(name) for name in columns.values()
        ):
            reading.drop(REPEATED_HEADERS)
            return True
        if not choice.inactive and is_inactive(
            {name: value for name, value in record.items() if name not in columns.values()}
        ):
            reading.drop(why_unused(choice))
            return True
        return False

    return is_left_out


TABLE = Form(
    name="table",
    title="table of replies: CSV, TSV, Excel, Parquet",
    holds="replies",
    export="Excel, Sheets, any tool: save or download as .csv, .tsv or .xlsx, with a header",
    matches=lambda sample: bool(sample.columns) and not sample.kind.startswith("json"),
    read=read_table,
    takes=OF_TABLES,
)
