"""Values of a JSON file, one at a time."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator
from typing import Any

from rejoinder.corpora.forms.source import Source
from rejoinder.corpora.json_events import JsonPath, json_events
from rejoinder.corpora.limits import MAX_VALUES, check_values
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError

_OPENING = ("start_map", "start_array")
_CLOSING = ("end_map", "end_array")
_SEARCHED_BYTES = 4 << 20  # of a file that is read as a whole to find where it is wrong


def json_values(
    source: Source, wanted: Container[str], encoding: str = "utf-8", reading: Reading | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield the values of JSON at these paths, one at a time, each with its path.

    A file may hold one value, an array, or values one after the other (JSON lines). Keys are joined
    by dots, `item` stands for those of an array, "" is the file's own value. An outer value that is
    wanted contains the inner ones. InputError: no JSON, cut off, or nested too deep.
    """
    import ijson

    count = 0
    try:
        with source.open(reading) as stream:
            for path, value in _built(json_events(stream, encoding), wanted, str(source)):
                count += 1
                yield path, value
    except UnicodeError:
        raise InputError(
            f"{source}: after {count:,} objects a text that is not UTF-8, or half of a surrogate "
            "pair (\\ud800 to \\udfff)"
        ) from None
    except ijson.JSONError as error:
        text = error.args[0]
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        reason = text.partition("\n")[0].strip(". ")
        place = _place_of_error(source, encoding)
        advice = "mend it there, or copy or export it again" if place else "copy or export it again"
        raise InputError(
            f"{source}: not JSON, or cut off, after {count:,} objects ({reason}{place}); {advice}"
        ) from None


def _place_of_error(source: Source, encoding: str) -> str:
    """Return in words where a small file stops being one JSON value; nothing if none can tell."""
    if source.path.stat().st_size > _SEARCHED_BYTES:
        return ""
    try:
        json.loads(source.text(encoding))
    except json.JSONDecodeError as error:
        is_within = not error.msg.startswith("Extra data")  # behind a value: JSON lines
        return f", line {error.lineno:,}, column {error.colno:,}" if is_within else ""
    except (InputError, ValueError, RecursionError):
        return ""
    return ""


def _built(
    events: Iterator[tuple[str, Any]], wanted: Container[str], name: str
) -> Iterator[tuple[str, Any]]:
    """Build the values at the wanted paths out of events; yield path and value."""
    import ijson

    depth = 0
    values = 0
    json_path = JsonPath(name)
    builder = ijson.ObjectBuilder()
    for event, value in events:
        if depth == 0:  # in no value that is wanted
            path = json_path.move(event, value)
            if path not in wanted:
                continue
        values += 1
        if values > MAX_VALUES:
            check_values(values, name)
        builder.event(event, value)
        if event in _OPENING:
            json_path.check(depth - 1)
            depth += 1
        elif event in _CLOSING:
            depth -= 1
            if depth == 0:
                json_path.move(event, value)
        if depth == 0:
            yield path, builder.value
            builder = ijson.ObjectBuilder()
            values = 0


def texts_of(values: Iterable[Any]) -> list[str]:
    """Return those of the values that are texts with something in them."""
    return [value for value in values if isinstance(value, str) and value.strip()]


def dicts(values: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; nothing if it is not a list."""
    return [item for item in values if isinstance(item, dict)] if isinstance(values, list) else []
