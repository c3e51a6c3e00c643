"""The objects of one big JSON array, one after the other, without holding the array in memory."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rejoinder.corpora.lines import MAX_LINE_BYTES, Reading, open_pieces
from rejoinder.errors import InputError

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def array_objects(path: str | Path, reading: Reading | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read a file that holds one JSON array of objects, compressed or not. Memory holds one object at a time.

    Yields:
        The number of the line on which the object begins, from 1, and the object.

    Raises:
        InputError: the file is no such array, is cut off, is nested too deep or holds an object above 64 MiB; with
            the number of the line. These are faults of the whole file: they stop whether or not bad lines are skipped.
    """
    text = _Text(Path(path), reading or Reading())
    if text.skip(_SPACE) != "[":
        raise text.fault('no JSON array; "[", objects and "]" are read')
    text.place += 1
    if text.skip(_SPACE) != "]":
        while True:
            text.skip(_SPACE)
            line = text.line
            yield line, text.take_object()
            if text.skip(_SPACE) != ",":
                break
            text.place += 1
    if text.skip(_SPACE) != "]":
        raise text.fault('"," or "]" is missing after an object')
    text.place += 1
    if text.skip(_SPACE):
        raise text.fault("something follows after the array")


class _Text:
    """The text of a file from some place on; more of it is read when it is needed."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.place = 0
        """Where to read on in `_held`."""
        self._path = path
        self._pieces = open_pieces(path, reading)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("strict")
        self._held = ""
        self._line, self._counted = 1, 0  # the number of the line that this place in `_held` is on
        self._ended = False

    @property
    def line(self) -> int:
        """Number of the line that `place` is on."""
        self._line += self._held.count("\n", self._counted, self.place)
        self._counted = self.place
        return self._line

    def fault(self, reason: str) -> InputError:
        """An error about the text at `place`."""
        return InputError(f"{self._path}:{self.line}: {reason}")

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Go beyond what matches; the character that follows, or nothing at the end of the file."""
        while True:
            match = pattern.match(self._held, self.place)
            assert match is not None
            self.place = match.end()
            if self.place < len(self._held):
                return self._held[self.place]
            if not self._more(1):
                return ""

    def take_object(self) -> dict[str, Any]:
        """Parse the value at `place`."""
        while True:
            held = len(self._held) - self.place
            try:
                value, self.place = _DECODER.raw_decode(self._held, self.place)
            except RecursionError:
                raise self.fault("JSON nested too deep; an object of texts and lists of objects is read") from None
            except ValueError as error:
                at = getattr(error, "pos", self.place) - self.place
                # Perhaps only the rest of it is missing. At least as much again is read, so that the work stays linear.
                if held < MAX_LINE_BYTES and self._more(max(held, 1)):
                    continue
                raise self._not_json(error, at, held) from None
            if not isinstance(value, dict):
                raise self.fault(f"a JSON {type(value).__name__} in the array; objects are read")
            return value

    def _not_json(self, error: ValueError, at: int, held: int) -> InputError:
        """What to say of an error `at` characters after `place`."""
        if held >= MAX_LINE_BYTES:
            return self.fault(f"not JSON, or an object above {MAX_LINE_BYTES // 2**20} MiB")
        line = self.line + self._held.count("\n", self.place, self.place + at)
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        return InputError(f"{self._path}:{line}: not JSON, or cut off ({reason}); copy or download it again")

    def _more(self, characters: int) -> bool:
        """Read at least so many characters more; False at the end of the file."""
        parts = [self._rest()]
        while characters > 0 and not self._ended:
            piece = next(self._pieces, None)
            self._ended = piece is None
            try:
                parts.append(self._decoder.decode(piece or b"", final=self._ended))
            except UnicodeDecodeError as error:
                line = self.line + sum(part.count("\n") for part in parts)
                reason = f"at or after this line not UTF-8 ({error.reason}); convert the file to UTF-8"
                raise InputError(f"{self._path}:{line}: {reason}") from None
            characters -= len(parts[-1])
        before, self._held = len(parts[0]), "".join(parts)
        return len(self._held) > before

    def _rest(self) -> str:
        """The text from `place` on; what is before it is forgotten."""
        rest = self._held[self.place :]
        self._line, self._counted = self.line, 0
        self._held, self.place = rest, 0
        return rest
