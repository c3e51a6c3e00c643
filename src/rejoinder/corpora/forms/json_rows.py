"""Rows that are values of JSON: of lines, of an array, or of a file."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from rejoinder.corpora.forms.source import Sample, Source
from rejoinder.corpora.json_values import json_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.records import BadRecordError
from rejoinder.errors import InputError


def json_rows(
    sample: Sample, paths: Collection[str] = (), reading: Reading | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield where and what each JSON value is: of lines, of the arrays at paths, or of the file."""
    source = sample.source
    if sample.kind == "json lines" and not paths:
        yield from _json_lines(source, sample.encoding, reading)
        return
    values = json_values(source, paths or {"item"}, sample.encoding, reading)
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
