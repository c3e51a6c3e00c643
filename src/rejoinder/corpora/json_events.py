"""JSON as a stream of events, and their paths."""

from __future__ import annotations

import codecs
import contextlib
import io
from collections.abc import Iterator
from typing import IO, Any

from rejoinder.corpora.limits import (
    MAX_DEPTH,
    MAX_KEYS,
    MAX_PATH,
)
from rejoinder.errors import InputError


def json_keys(data: bytes, encoding: str) -> Iterator[str]:
    """Yield the paths of the keys in the beginning of JSON."""
    import ijson

    seen = set()
    # It goes on beyond the sample, and what is wrong with it is reported when it is read.
    with contextlib.suppress(ijson.JSONError, InputError, UnicodeError):
        json_path = JsonPath("sample")
        for event, value in json_events(io.BytesIO(data), encoding):
            path = json_path.move(event, value)
            if not event.startswith("end_") and path not in seen:
                seen.add(path)
                yield path
            if len(seen) > MAX_KEYS:
                return


def json_events(stream: IO[bytes], encoding: str) -> Iterator[tuple[str, Any]]:
    """Return the events of one value of JSON, or of several, one after the other."""
    import ijson

    # Not `ijson.parse`, whose memory grows with the square of the depth.
    events: Iterator[tuple[str, Any]] = ijson.basic_parse(
        _Recoded(stream, encoding), use_float=True, multiple_values=True
    )
    return events


class _Recoded:
    """A stream of JSON for ijson, in UTF-8 without a byte-order mark."""

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._plain = encoding == "utf-8"

    def read(self, size: int) -> bytes:
        """Return at least one byte, unless the stream is at its end."""
        if self._plain or size == 0:
            return self._stream.read(size)
        while True:
            data = self._stream.read(size)
            text = self._decoder.decode(data, final=not data)
            if text or not data:
                return text.encode("utf-8", "surrogatepass")


class JsonPath:
    """The path to where a stream of JSON is; its keys have dots between them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stack: list[tuple[bool, str]] = []  # is it an object, and its path
        self._key = ""

    def move(self, event: str, value: Any) -> str:
        """Return the path of the next event; InputError: nested too deep."""
        if event.startswith("end_"):
            return self._stack.pop()[1]
        is_object = False
        base = ""
        if self._stack:
            is_object, base = self._stack[-1]
        if event == "map_key":
            self._key = value
            return base
        last = self._key if is_object else "item"
        path = f"{base}.{last[:MAX_PATH]}".removeprefix(".") if self._stack else ""
        if event.startswith("start_"):
            self.check(0)
            self._stack.append((event == "start_map", path[:MAX_PATH]))
        return path

    def check(self, inside: int) -> None:
        """Raise InputError if one more object or array, so many further inside, is too deep."""
        if len(self._stack) + inside >= MAX_DEPTH:
            raise InputError(f"{self._name}: JSON nested more than {MAX_DEPTH} deep")
