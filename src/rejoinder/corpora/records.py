"""Records of a file, and bad ones among them."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, TypeVar

from rejoinder.corpora.dialogues import Dialogue
from rejoinder.corpora.lines import Reading, open_lines

R = TypeVar("R")
T = TypeVar("T")


class BadRecordError(ValueError):
    """A record that cannot be used; the message has the fault, without file and line."""


def parse_records(
    path: Path,
    reading: Reading,
    records: Iterable[tuple[int, R]],
    parse: Callable[[int, R], Iterable[T]],
) -> Generator[T]:
    """Yield the results of `parse` for each numbered record, all or none of them.

    BadRecordError makes a record a bad line. A `Dialogue` is complete: it is not listed before.
    """
    for number, record in records:
        reading.lines += 1
        try:
            parsed: Any = parse(number, record)
            results: Iterable[Any] = parsed if isinstance(parsed, Dialogue) else list(parsed)
        except BadRecordError as error:
            reading.bad_line(path, number, str(error))
        else:
            yield from results


def parse_lines(
    path: Path, reading: Reading, parse: Callable[[int, str], Iterable[T]]
) -> Generator[T]:
    """Yield the results of `parse` for each line that is not blank; see `parse_records`."""
    lines = open_lines(path, reading)
    full = ((number, line) for number, line in lines if line and not line.isspace())
    return parse_records(path, reading, full, parse)


def parse_object(line: str) -> dict[str, Any]:
    """Parse a line that holds a JSON object; BadRecordError: it does not."""
    try:
        record = json.loads(line)
    except RecursionError:
        raise BadRecordError("JSON nested too deep; a line holds one flat object") from None
    except ValueError as error:
        raise BadRecordError(f"not JSON ({error}); one object a line is read") from None
    if not isinstance(record, dict):
        raise BadRecordError(f"JSON, but a {type(record).__name__}; one object a line is read")
    return record
