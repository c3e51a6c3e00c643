"""Lines of text out of files that may be compressed, with every fault named by file and line.

One line is at most `MAX_LINE_BYTES` long; text is UTF-8, strictly. Compressed files: see `streams`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.example import Split
from rejoinder.corpora.streams import COMPRESSIONS, open_stream, strip_compression
from rejoinder.errors import InputError

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longest line that is read. A longer one is a fault of that line, not a reason to run out of memory."""

BLOCK_BYTES = 16 * 1024 * 1024
"""A block of lines has at most so many bytes, unless one line alone has more."""

_PIECE_BYTES = 1 << 16
_FILLED_AT_ONCE = 1 << 20
_NEWLINE = ord("\n")
_SUMS = ("lines", "bad_lines", "blank_messages", "without_reply", "cut_contexts")
_COUNTS = (*_SUMS, "faults", "notes", "dropped")
SHOWN_FAULTS = 10
"""The words of so many faults are kept."""
__all__ = [
    "BLOCK_BYTES",
    "COMPRESSIONS",
    "MAX_LINE_BYTES",
    "SHOWN_FAULTS",
    "BadLineError",
    "Block",
    "Reading",
    "block_lines",
    "line_ends",
    "open_blocks",
    "open_lines",
    "open_pieces",
    "strip_compression",
    "too_many_bad",
]


class BadLineError(InputError):
    """A line that cannot be used; another one may be."""


@dataclass(slots=True)
class Reading:
    """How files are to be read, and what happened while reading them.

    One object serves all files of one job; the readers of this package add to its counts.
    """

    skip_bad: bool = False
    """Skip and count bad lines instead of stopping at the first. Faults of a whole file always stop."""
    history: int | None = 10
    """Messages kept before the newest one of a context; older ones are cut off. None: all are kept."""
    part: Split | None = None
    """The part of the data that the file is for, where the user says so; otherwise each thread's hash decides."""
    on_bytes: Callable[[int], object] | None = None
    """Called with the number of bytes just read from disk (before decompression)."""
    on_fault: Callable[[str], object] | None = None
    """Called with one line of text for each bad line that is skipped."""
    max_bad: int | None = None
    """With `skip_bad`: stop when more lines than this are bad. None: never."""
    lines: int = 0
    """Lines (rows of a table, conversations of a corpus) that were not blank, bad ones included."""
    bad_lines: int = 0
    """Lines that were skipped."""
    faults: list[str] = field(default_factory=list)
    """What was wrong with the first ten skipped lines."""
    notes: list[str] = field(default_factory=list)
    """How files were understood, where it could be otherwise: one line of text each."""
    blank_messages: int = 0
    """Messages of nothing but white space; they are left out of contexts and dialogues."""
    without_reply: int = 0
    """Dialogues that gave no example: fewer than two messages, or no new response."""
    cut_contexts: int = 0
    """Contexts that lost their oldest messages to `history`."""
    dropped: dict[str, int] = field(default_factory=dict)
    """What the rules of a corpus left out, by reason."""

    def newest(self, messages: Sequence[str]) -> tuple[str, ...]:
        """The messages of a context, oldest first, as far as `history` keeps them; counts those that are cut."""
        if self.history is None or len(messages) <= self.history + 1:
            return tuple(messages)
        self.cut_contexts += 1
        return tuple(messages[-1 - self.history :])

    def drop(self, reason: str, count: int = 1) -> None:
        """Count records that the rules of a corpus leave out; `reason` is a few words, the same each time."""
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def counts(self) -> dict[str, Any]:
        """What happened, as JSON can hold it; see `add`."""
        return {name: getattr(self, name) for name in _COUNTS}

    def add(self, counts: Mapping[str, Any]) -> None:
        """Count in what happened to another one, by its `counts`, and report its bad lines.

        Raises:
            InputError: there are bad lines and they are not to be skipped, or too many altogether.
        """
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + counts[name])
        for reason, count in counts["dropped"].items():
            self.drop(reason, count)
        self.notes += counts["notes"]
        self.faults = [*self.faults, *counts["faults"]][:SHOWN_FAULTS]
        self._report(counts["faults"], counts["bad_lines"])

    def _report(self, faults: Sequence[str], bad_lines: int) -> None:
        if bad_lines and not self.skip_bad:
            raise BadLineError(faults[0])
        if self.on_fault is not None:
            for fault in faults:
                self.on_fault(fault)
            if bad_lines > len(faults):
                self.on_fault(f"{bad_lines - len(faults):,} more bad lines there")
        if self.max_bad is not None and self.bad_lines > self.max_bad:
            raise too_many_bad(self.max_bad, self.faults)

    def bad_line(self, path: str | Path, number: int, reason: str) -> None:
        """Report a bad line.

        Raises:
            BadLineError: always, unless bad lines are to be skipped.
            InputError: they are, but there are too many.
        """
        fault = f"{path}:{number}: {reason}"
        if not self.skip_bad:
            raise BadLineError(fault)
        self.bad_lines += 1
        if len(self.faults) < SHOWN_FAULTS:
            self.faults.append(fault)
        if self.on_fault is not None:
            self.on_fault(fault)
        if self.max_bad is not None and self.bad_lines > self.max_bad:
            raise too_many_bad(self.max_bad, self.faults)


def too_many_bad(most: int, faults: list[str]) -> InputError:
    """The error for more than `most` bad lines, of which `faults` are the first."""
    return InputError(
        f"more than {most:,} bad lines, the first: {faults[0]}; check that the file is what it is taken for, "
        "or allow more (--max-bad)"
    )


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive whole lines of a file, as they stand there (decompressed)."""

    path: Path
    number: int
    """Number of the first line in the file, from 1."""
    data: bytes | memoryview
    start: int = 0
    """Where in the (decompressed) file it begins."""
    ends: npt.NDArray[np.int64] | None = field(default=None, compare=False, repr=False)
    """Places of its line ends, if they are known; `line_ends` finds them otherwise."""

    def __reduce__(self) -> tuple[Any, ...]:
        """What another process gets of it: the bytes themselves."""
        return Block, (self.path, self.number, bytes(self.data), self.start)


def open_lines(path: str | Path, reading: Reading | None = None) -> Iterator[tuple[int, str]]:
    r"""Read a text file line by line, decompressing it if its name ends in .zst, .gz, .bz2 or .xz.

    Args:
        path: the file.
        reading: what to do with bad lines (wrongly encoded, binary, too long); if not given, stop at the first.

    Yields:
        The number of the line, from 1, and its text without the line end (`\n` or `\r\n`). A byte order mark at
        the start of the file is dropped. Blank lines are given too.

    Raises:
        InputError: the file is missing, a folder, unreadable, empty, damaged or cut off; or a bad line.
    """
    path, reading = Path(path), reading or Reading()
    number = 0
    with open_stream(path, reading.on_bytes) as stream:
        for number, line in enumerate(_raw_lines(stream), 1):
            text = _decode(line, path, number, reading)
            if text is not None:
                yield number, text
    if number == 0:
        raise _empty(path)


def open_pieces(path: str | Path, reading: Reading | None = None) -> Iterator[bytes]:
    """Read a file that is not made of lines, decompressed as by `open_lines`, in pieces of at most 64 KiB.

    Raises:
        InputError: the file is missing, a folder, unreadable, empty, damaged or cut off.
    """
    path, piece = Path(path), b""
    with open_stream(path, reading.on_bytes if reading else None) as stream:
        while part := stream.read(_PIECE_BYTES):
            piece = part
            yield piece
    if not piece:
        raise InputError(f"{path} is empty; copy or download it again")


def open_blocks(path: str | Path, reading: Reading | None = None, size: int | None = None) -> Iterator[Block]:
    """Read a text file as blocks of whole lines, for work on many lines at once or elsewhere.

    Where the blocks end follows from the file and `size` alone.

    Args:
        path: the file, compressed or not, as for `open_lines`.
        reading: what to do with a line that is too long; other bad lines are found by `block_lines`.
        size: bytes of a block; `BLOCK_BYTES` if not given. A longer line is a block of its own.

    Raises:
        InputError: as `open_lines`.
    """
    path, reading = Path(path), reading or Reading()
    capacity = min(size or BLOCK_BYTES, MAX_LINE_BYTES)
    number, start, rest = 1, 0, b""
    with open_stream(path, reading.on_bytes) as stream:
        while True:
            letters = np.empty(capacity, np.uint8)
            data = letters.data
            data[: len(rest)] = rest
            filled, ends = _fill(stream, letters, len(rest))
            if not filled:
                break
            end = filled if filled < capacity else int(ends[-1]) + 1 if len(ends) else 0
            rest = bytes(data[end or filled : filled])
            if end == 0:  # one line alone is longer
                data = memoryview(bytes(data) + stream.readline(max(0, MAX_LINE_BYTES + 1 - filled)))
                end = len(data)
                ends = np.array([end - 1])
            if end > MAX_LINE_BYTES:
                start += _skip_line(stream, bytes(data))
                reading.lines += 1
                reading.bad_line(path, number, _too_long())
            else:
                yield Block(path, number, data[:end], start, ends)
            start, number = start + end, number + max(1, len(ends))
    if number == 1:
        raise _empty(path)


def line_ends(block: Block) -> npt.NDArray[np.int64]:
    """Places of the line ends in a block's data."""
    if block.ends is not None:
        return block.ends
    return _ends(np.frombuffer(block.data, np.uint8))


def _ends(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Places of the line ends. They are rare: so 64 bytes are looked at together, as the bits of one number."""
    is_end = letters == _NEWLINE
    bits = np.zeros(-(-len(letters) // 64) * 8, np.uint8)
    packed = np.packbits(is_end, bitorder="little")
    bits[: len(packed)] = packed
    words = bits.view("<u8")
    places = np.flatnonzero(words)
    found = words[places]
    if (found & (found - np.uint64(1))).any():  # more than one line end in 64 bytes
        return np.flatnonzero(is_end)
    ends: npt.NDArray[np.int64] = places * 64 + np.log2(found.astype(np.float64)).astype(np.int64)
    return ends


def _fill(stream: IO[bytes], letters: npt.NDArray[np.uint8], filled: int) -> tuple[int, npt.NDArray[np.int64]]:
    """Read until the array is full or the stream ends.

    Returns:
        How many bytes there are then, and the places of the line ends among the new ones.
    """
    place, ends = letters.data, [np.empty(0, np.int64)]
    # Piece by piece, so that the line ends are looked for in what the processor's cache still holds.
    while filled < len(letters) and (count := stream.readinto(place[filled : filled + _FILLED_AT_ONCE])):  # type: ignore[attr-defined]
        ends.append(_ends(letters[filled : filled + count]) + filled)
        filled += count
    return filled, np.concatenate(ends)


def block_lines(block: Block, reading: Reading) -> Iterator[tuple[int, str]]:
    """The lines of a block: number in the file and text, as `open_lines` gives them.

    Raises:
        BadLineError: a line is bad, unless such lines are to be skipped.
    """
    for number, line in enumerate(io.BytesIO(block.data), block.number):
        text = _decode(line, block.path, number, reading)
        if text is not None:
            yield number, text


def _raw_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines with their ends; of a line above the limit its first bytes, one more than the limit."""
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            _skip_line(stream, line)
        yield line


def _skip_line(stream: IO[bytes], start: bytes) -> int:
    """Read up to the end of a line that begins with `start`; the number of bytes read."""
    skipped = 0
    while start and not start.endswith(b"\n"):
        start = stream.readline(MAX_LINE_BYTES)
        skipped += len(start)
    return skipped


def _empty(path: Path) -> InputError:
    return InputError(f"{path} is empty; it should hold at least one line of text")


def _too_long() -> str:
    return f"longer than {MAX_LINE_BYTES // 2**20} MiB; write one example a line"


def _decode(line: bytes, path: Path, number: int, reading: Reading) -> str | None:
    """The text of a line, or None if it is bad and skipped."""
    reason = ""
    if len(line) > MAX_LINE_BYTES:
        reason = _too_long()
    elif b"\0" in line:
        reason = "binary data (a zero byte); a text file is read"
    else:
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            return line.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            reason = f"not UTF-8 (byte 0x{line[error.start]:02x} at position {error.start}); convert the file to UTF-8"
    reading.lines += 1
    reading.bad_line(path, number, reason)
    return None
