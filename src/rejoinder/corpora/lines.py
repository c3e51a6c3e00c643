"""Lines of text (UTF-8) out of files that may be compressed (.zst, .gz, .bz2, .xz); faults have file and line.

Memory stays bounded whatever a file holds, but for zstd's windows: up to 2 GiB (`zstd --long=31`).
"""

from __future__ import annotations

import bz2
import contextlib
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any

import zstandard

from rejoinder.corpora.example import Split
from rejoinder.errors import InputError
from rejoinder.files import refuse_endless
from rejoinder.progress import Advance

MAX_LINE_BYTES = 64 * 1024 * 1024  # of a line that is read; a longer one is bad, and no reason to run out of memory
BLOCK_BYTES = 16 * 1024 * 1024  # a block of lines ends with the line that reaches this size
COMPRESSIONS: dict[str, Callable[[], Any]] = {  # endings of compressed files, with the decoder of a stream
    ".zst": lambda: zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj(),
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
}

_BUFFER = 1 << 18
_PIECE, _SMALL_PIECE = 1 << 15, 64
_MUCH = 1 << 20  # a piece that decompresses to more than this is followed by a small one
_AGAIN, _NO_LINE = "copy or download it again", "it should hold at least one line of text"
_MAGIC = {b"\x28\xb5\x2f\xfd": ".zst", b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"PAR1": ".parquet"}
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")


class BadLineError(InputError):
    """A line that cannot be used; another one may be."""


@dataclass(slots=True, kw_only=True)
class Counts:
    """What happened while reading."""

    lines: int = 0  # lines (rows of a table, conversations of a corpus) that were not blank, bad ones included
    bad_lines: int = 0  # lines that were skipped
    faults: list[str] = field(default_factory=list)  # what was wrong with the first ten skipped lines
    notes: list[str] = field(default_factory=list)  # how files were understood, where that is not clear: one line each
    blank_messages: int = 0  # messages of nothing but white space; they are left out of contexts and dialogues
    without_reply: int = 0  # dialogues that gave no example: fewer than two messages, or no new response
    cut_contexts: int = 0  # contexts that lost their oldest messages to `Reading.history`
    roles: dict[str, int] = field(default_factory=dict)  # messages of chats by who says them
    redacted: int = 0  # examples in which personal data was replaced
    dropped: dict[str, int] = field(default_factory=dict)  # what the rules of a corpus left out, by reason

    def counts(self) -> Counts:
        """Return a copy of the counts alone."""
        return Counts(**{item.name: getattr(self, item.name) for item in fields(Counts)})


@dataclass(slots=True)
class Reading(Counts):
    """How files are to be read, and what happened; one object serves all files of a job."""

    skip_bad: bool = False  # skip and count bad lines instead of stopping at the first; a file's faults always stop
    history: int | None = 10  # messages kept before the newest one of a context; None: all
    part: Split | None = None  # the part of the data that the user gives the file for; else each thread's hash decides
    on_bytes: Advance | None = None  # called with the number of bytes just read from disk (before decompression)
    on_fault: Callable[[str], object] | None = None  # called with one line of text for each bad line that is skipped
    max_bad: int | None = None  # With `skip_bad`: stop when more lines than this are bad. None: never.

    def newest(self, messages: Sequence[str]) -> tuple[str, ...]:
        """Return the messages of a context, oldest first, that `history` keeps; count a context that is cut."""
        if self.history is None or len(messages) <= self.history + 1:
            return tuple(messages)
        self.cut_contexts += 1
        return tuple(messages[-1 - self.history :])

    def drop(self, reason: str, count: int = 1) -> None:
        """Count records that the rules of a corpus leave out; `reason` is a few words, the same each time."""
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def bad_line(self, path: str | Path, number: int, reason: str) -> None:
        """Count a bad line, or raise BadLineError unless such lines are skipped; InputError if there are too many."""
        self._add_faults([f"{path}:{number}: {reason}"], 1)

    def add(self, counts: Counts) -> None:
        """Add the counts of another reading, and report its bad lines as `bad_line` does."""
        self.lines += counts.lines
        self.blank_messages += counts.blank_messages
        self.without_reply += counts.without_reply
        self.cut_contexts += counts.cut_contexts
        self.redacted += counts.redacted
        for reason, count in counts.dropped.items():
            self.drop(reason, count)
        for role, count in counts.roles.items():
            self.roles[role] = self.roles.get(role, 0) + count
        self.notes += counts.notes
        self._add_faults(counts.faults, counts.bad_lines)

    def _add_faults(self, faults: Sequence[str], bad_lines: int) -> None:
        if bad_lines and not self.skip_bad:
            raise BadLineError(faults[0])
        self.bad_lines += bad_lines
        self.faults = [*self.faults, *faults][:10]
        if self.on_fault is not None:
            for fault in faults:
                self.on_fault(fault)
            if bad_lines > len(faults):
                self.on_fault(f"{bad_lines - len(faults):,} more bad lines there")
        if self.max_bad is not None and self.bad_lines > self.max_bad:
            advice = "check that the file is what it is taken for, or allow more (--max-bad)"
            raise InputError(f"more than {self.max_bad:,} bad lines, the first: {self.faults[0]}; {advice}")


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive whole lines of a file, decompressed."""

    path: Path
    number: int  # number of the first line in the file, from 1
    data: bytes


def strip_compression(path: str | Path) -> Path:
    """Return the path without .zst, .gz, .bz2 or .xz at its end."""
    path = Path(path)
    return path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path


def open_lines(path: str | Path, reading: Reading | None = None) -> Iterator[tuple[int, str]]:
    """Give the lines of a text file, decompressed: the number of each, from 1, and its text without the line end.

    InputError: the file is missing, unreadable, empty or damaged, or a line wrongly encoded, binary or too long.
    """
    path, reading = Path(path), reading or Reading()
    number = 0
    with open_stream(path, reading.on_bytes) as stream:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                _skip_line(stream, line)
            if (text := _decode(line, path, number, reading)) is not None:
                yield number, text
    if number == 0:
        raise InputError(f"{path} is empty; {_NO_LINE}")


def open_pieces(path: str | Path, reading: Reading | None = None) -> Iterator[bytes]:
    """Read a file that is not made of lines, decompressed, in pieces of at most 64 KiB; faults as in `open_lines`."""
    path, piece = Path(path), b""
    with open_stream(path, reading.on_bytes if reading else None) as stream:
        while part := stream.read(1 << 16):
            piece = part
            yield piece
    if not piece:
        raise InputError(f"{path} is empty; {_AGAIN}")


def open_blocks(path: str | Path, on_bytes: Advance | None = None, size: int | None = None) -> Iterator[Block]:
    """Give a text file as blocks of whole lines of about `size` bytes; where they end follows from both alone.

    A line that is too long is the last of a block, cut off one byte beyond the limit, for its reader to report.
    """
    path, number = Path(path), 1
    with open_stream(path, on_bytes) as stream:
        while data := stream.read(min(size or BLOCK_BYTES, MAX_LINE_BYTES)):
            last = data.rfind(b"\n") + 1
            if last < len(data):
                data += stream.readline(MAX_LINE_BYTES + 1 - (len(data) - last))
                if len(data) - last > MAX_LINE_BYTES:
                    _skip_line(stream, data[-1:])
            yield Block(path, number, data)
            number += data.count(b"\n") + (not data.endswith(b"\n"))
    if number == 1:
        raise InputError(f"{path} is empty; {_NO_LINE}")


def _skip_line(stream: IO[bytes], start: bytes) -> None:
    while start and not start.endswith(b"\n"):
        start = stream.readline(MAX_LINE_BYTES)


def too_long() -> str:
    """Return what is wrong with a line of more than `MAX_LINE_BYTES`."""
    return f"longer than {MAX_LINE_BYTES // 2**20} MiB; write one example a line"


def _decode(line: bytes, path: Path, number: int, reading: Reading) -> str | None:
    if len(line) > MAX_LINE_BYTES:
        reason = too_long()
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


@contextlib.contextmanager
def open_stream(path: str | Path, on_bytes: Advance | None = None) -> Iterator[IO[bytes]]:
    """Open a file, or a pipe of the shell, for reading its bytes, decompressed.

    InputError: it is missing, a folder, a named pipe, a device or unreadable, or turns out to be damaged or cut off.
    """
    with contextlib.closing(_open(Path(path), on_bytes)) as stream:
        yield stream


def _open(path: Path, on_bytes: Advance | None) -> IO[bytes]:
    if path.is_dir():
        raise InputError(f"{path} is a folder; name the files in it")
    try:
        refuse_endless(path)
        source = io.BufferedReader(_Counted(path, on_bytes), _BUFFER)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the name") from None
    except PermissionError:
        raise InputError(f"{path} may not be read; check its permissions") from None
    if path.suffix.lower() in COMPRESSIONS:
        return io.BufferedReader(_Decompressed(source, path), _BUFFER)
    start = source.peek(8)
    for magic, suffix in _MAGIC.items():
        if start.startswith(magic):
            source.close()
            raise InputError(f"{path} holds {suffix} data; name it so that it ends in {suffix}")
    if start.startswith(_BYTE_ORDER_MARKS):
        source.close()
        raise InputError(f"{path} is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {path.name}")
    return source


class _Counted(io.FileIO):
    def __init__(self, path: Path, on_bytes: Advance | None) -> None:
        super().__init__(path, "rb", opener=_open_without_waiting)
        self._on_bytes = on_bytes

    def readinto(self, buffer: Any, /) -> int:
        count = super().readinto(buffer) or 0
        if self._on_bytes is not None:
            self._on_bytes(count)
        return count


def _open_without_waiting(name: str, flags: int) -> int:
    """Open a pipe whose writer may be gone already."""
    handle = os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
    os.set_blocking(handle, True)
    return handle


class _Decompressed(io.RawIOBase):
    """The content of a compressed file, which is closed with it.

    The libraries' own readers take whatever follows the first stream, or the middle of a frame, for the end.
    """

    def __init__(self, source: IO[bytes], path: Path) -> None:
        self._source, self._path = source, path
        self._contents = self._decompress()
        self._content = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if not self._content:
            self._content = memoryview(next(self._contents, b""))
        count = min(len(buffer), len(self._content))
        buffer[:count] = self._content[:count]
        self._content = self._content[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()

    def _decompress(self) -> Iterator[bytes]:
        """Decompress one stream after the other, none of them giving nothing."""
        begin = COMPRESSIONS[self._path.suffix.lower()]
        place = 0  # bytes of the file that are decompressed
        rest = self._source.read(_PIECE)
        while rest:
            start, decoder, size = place, begin(), _SMALL_PIECE
            while not decoder.eof:
                rest = rest or self._source.read(_PIECE)
                if not rest:
                    what = f"its {self._path.suffix} data from byte {start:,} on ends early; {_AGAIN}"
                    raise InputError(f"{self._path} is cut off: {what}")
                piece, rest = rest[:size], rest[size:]
                place += len(piece)
                content = self._decode(decoder, piece, start, place)
                size = _SMALL_PIECE if len(content) > _MUCH else min(_PIECE, 2 * size)
                if content:
                    yield content
            rest = decoder.unused_data + rest
            place -= len(decoder.unused_data)
            rest = rest or self._source.read(_PIECE)
            while rest.startswith(b"\0"):  # padding
                place, rest = place + len(rest) - len(rest.lstrip(b"\0")), rest.lstrip(b"\0")
                rest = rest or self._source.read(_PIECE)

    def _decode(self, decoder: Any, piece: bytes, start: int, end: int) -> bytes:
        try:
            return bytes(decoder.decompress(piece))
        except (OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
            if "not enough memory" in str(error):
                raise MemoryError(f"{self._path} needs a large window") from None
            where = f"no {self._path.suffix} data between bytes {start:,} and {end:,} ({error})"
            raise InputError(f"{self._path} is damaged or {where}; {_AGAIN}") from None
