"""A table whose rows are read one after the other, whatever its file is."""

from __future__ import annotations

import contextlib
import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rejoinder.corpora.forms.columns import fold
from rejoinder.corpora.forms.source import Source
from rejoinder.corpora.limits import check_columns
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError


@dataclass(slots=True)
class Table:
    """A table that is being read."""

    form: str  # in words, for the note: "table (semicolon, cp1252)"
    names: list[str]
    rows: Iterator[tuple[str, dict[str, Any]]]  # where it is, for errors; cells by column


def check_names(names: Sequence[str], where: str) -> None:
    """Refuse too many names of columns, and equal ones."""
    check_columns(len(names), where)
    counts = Counter(fold(name) for name in names if name.strip())
    if twice := [key for key, count in counts.items() if count > 1]:
        raise InputError(f"{where}: two columns are named {twice[0]!r}; rename or delete one")


def by_name(
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


@contextlib.contextmanager
def explained(source: Source, kind: str, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Turn a library's error about a file into an InputError."""
    try:
        yield
    except InputError:
        raise
    except errors as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{source}: not {kind}, or damaged or cut off ({reason})") from None


def json_cell(value: Any) -> Any:
    """Return a cell as a type of JSON."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return str(value)
    return value
