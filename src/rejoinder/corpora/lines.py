"""Lines of text (UTF-8) out of files that may be compressed (.zst, .gz, .bz2, .xz).

Errors name file and line. Memory is bounded, except for zstd's windows: up to 2 GiB
(`zstd --long=31`).
"""

from __future__ import annotations

import bz2
import contextlib
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any

from rejoinder.corpora.limits import MAX_HISTORY, MAX_LINE_BYTES, check_unpacked
from rejoinder.corpora.splits import Split
from rejoinder.errors import InputError
from rejoinder.paths import check_regular_file
from rejoinder.progress import Advance, counted

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BLOCK_BYTES = 16 * 1024 * 1024  # a block of lines ends with the line that reaches this size
_LONG_WINDOWS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 31}  # 2 GiB
COMPRESSIONS: dict[str, Callable[[], Any]] = {  # by suffix: makes the decoder of a stream
    ".zst": lambda: zstd.ZstdDecompressor(options=_LONG_WINDOWS),
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
}

_BUFFER = 1 << 18
_PIECE = 1 << 15
_SMALL_PIECE = 64
_LARGE_CONTENT = 1 << 20  # a piece that decompresses to more than this is followed by a small one
_MAX_FAULTS = 10  # that are kept
_AGAIN = "copy or download it again"
_UNPACK = "if it is meant to, decompress it first"
_NO_LINE = "it should hold at least one line of text"
_MAGIC = {
    b"\x28\xb5\x2f\xfd": ".zst",
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"PAR1": ".parquet",
}
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")


class BadLineError(InputError):
    """A line that cannot be used; others may be."""


@dataclass(slots=True, kw_only=True)
class Counts:
    """Counts of a reading."""

    lines: int = 0  # lines (rows, conversations) that are not blank, bad ones included
    bad_lines: int = 0  # lines that were skipped
    faults: list[str] = field(default_factory=list)  # of the first ten skipped lines
    notes: list[str] = field(default_factory=list)  # how unclear files were understood: lines
    blank_messages: int = 0  # of nothing but white space; contexts and dialogues leave them out
    without_reply: int = 0  # dialogues without an example: no second message, no new response
    cut_contexts: int = 0  # contexts that lost their oldest messages to `Reading.history`
    roles: dict[str, int] = field(default_factory=dict)  # messages of chats by role
    redacted: int = 0  # examples in which personal data was replaced
    dropped: dict[str, int] = field(default_factory=dict)  # by the rules of a corpus, by reason

    def counts(self) -> Counts:
        """Return a copy of the counts alone."""
        return Counts(**{item.name: getattr(self, item.name) for item in fields(Counts)})


@dataclass(slots=True)
class Reading(Counts):
    """Settings and counts of reading; one object serves all files of a job."""

    # Skip and count bad lines instead of stopping at the first; a file's faults always stop.
    skip_bad: bool = False
    history: int | None = 10  # messages kept before the newest one of a context; None: 1,000
    part: Split | None = None  # the split of the file; None: the hash of each thread decides
    file_name: str = ""  # what tells the file from others of its name; empty: there are none
    file_stem: str = ""  # what ids of the file's examples begin with; empty: see `stem`
    on_bytes: Advance | None = None  # called with the number of bytes just read from disk
    on_fault: Callable[[str], object] | None = None  # called with the fault of a skipped line
    max_bad: int | None = None  # with `skip_bad`: stop when more lines are bad; None: never

    def stem(self, path: Path) -> str:
        """Return what ids of a file's examples begin with: its name without suffixes.

        Folders or the suffix are kept where others have its name.
        """
        return self.file_stem or strip_compression(path).stem

    def newest(self, messages: Sequence[str]) -> tuple[str, ...]:
        """Return the messages of a context that `history` keeps; count a truncated context."""
        kept = MAX_HISTORY if self.history is None else self.history
        if len(messages) <= kept + 1:
            return tuple(messages)
        self.cut_contexts += 1
        return tuple(messages[-1 - kept :])

    def drop(self, reason: str, count: int = 1) -> None:
        """Count dropped records; `reason` is used as a counter key, so keep it constant."""
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def bad_line(self, path: str | Path, number: int, reason: str) -> None:
        """Count a bad line. BadLineError: they are not skipped; InputError: too many are bad."""
        self._add_faults([f"{path}:{number}: {reason}"], 1)

    def bad_row(self, where: str, reason: str, lines: int = 1) -> None:
        """Count the lines of a bad row of a table; its errors are those of `bad_line`."""
        self.lines += lines
        self._add_faults([f"{where}: {reason}"], lines)

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
        self.faults = [*self.faults, *faults][:_MAX_FAULTS]
        if self.on_fault is not None:
            for fault in faults:
                self.on_fault(fault)
            if bad_lines > len(faults):
                self.on_fault(f"{counted(bad_lines - len(faults), 'more bad line')} there")
        if self.max_bad is not None and self.bad_lines > self.max_bad:
            raise InputError(
                f"more than {counted(self.max_bad, 'bad line')}, the first: {self.faults[0]}; "
                "check that the file is what it is taken for, or allow more (--skip-bad)"
            )


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
    """Yield the lines of a text file, decompressed: number, from 1, and text without the line end.

    InputError: the file is missing, unreadable, empty or damaged, or a line wrongly encoded, binary
    or too long.
    """
    path = Path(path)
    reading = reading or Reading()
    number = 0
    with open_stream(path, reading.on_bytes) as stream:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                _skip_line(stream, line)
            text = _decode(line, path, number, reading)
            if text is not None:
                yield number, text
    if number == 0:
        raise InputError(f"{path} is empty; {_NO_LINE}")


def open_pieces(path: str | Path, reading: Reading | None = None) -> Iterator[bytes]:
    """Yield a file without lines, decompressed, in pieces of at most 64 KiB.

    InputError: as for `open_lines`.
    """
    path = Path(path)
    empty = True
    with open_stream(path, reading.on_bytes if reading else None) as stream:
        while piece := stream.read(1 << 16):
            empty = False
            yield piece
    if empty:
        raise InputError(f"{path} is empty; {_AGAIN}")


def open_blocks(
    path: str | Path, on_bytes: Advance | None = None, size: int | None = None
) -> Iterator[Block]:
    """Yield a text file as blocks of whole lines of about `size` bytes, the same every time.

    A line that is too long is the last of a block, truncated one byte beyond the limit, so that its
    reader reports it.
    """
    path = Path(path)
    number = 1
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
    """Return the fault of a line of more than `MAX_LINE_BYTES`."""
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
            reason = (
                f"not UTF-8 (byte 0x{line[error.start]:02x} at position {error.start}); "
                "convert the file to UTF-8"
            )
    reading.lines += 1
    reading.bad_line(path, number, reason)
    return None


@contextlib.contextmanager
def open_stream(
    path: str | Path, on_bytes: Advance | None = None, *, any_content: bool = False
) -> Iterator[IO[bytes]]:
    """Open a file, or a pipe of the shell, for reading its bytes, decompressed.

    InputError: it is missing, a folder, a named pipe, a device, unreadable, damaged or cut off; or,
    unless it may have `any_content`, in UTF-16, Parquet, zip, or compressed under another name.
    """
    with contextlib.closing(_open(Path(path), on_bytes, any_content)) as stream:
        yield stream


def _open(path: Path, on_bytes: Advance | None, any_content: bool) -> IO[bytes]:
    """Open a file as bytes, decompressed by its name or its first bytes."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name the files in it")
    try:
        check_regular_file(path)
        source = io.BufferedReader(_Counted(path, on_bytes), _BUFFER)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the name") from None
    except PermissionError:
        raise InputError(f"{path} may not be read; check its permissions") from None
    if path.suffix.lower() in COMPRESSIONS:
        return io.BufferedReader(_Decompressed(source, path), _BUFFER)
    start = source.peek(8)
    for magic, suffix in _MAGIC.items():
        if start.startswith(magic) and not (any_content and suffix == ".parquet"):
            source.close()
            if path.suffix.lower() == suffix:
                raise InputError(
                    f"{path} is Parquet, but lines of text are read here; save it as JSON lines, "
                    "or read messages, one a row, with `rejoinder data chats`"
                )
            raise InputError(f"{path} holds {suffix} data; name it so that it ends in {suffix}")
    if start.startswith(_ZIP) and not any_content:
        source.close()
        raise InputError(
            f"{path} is a zip archive, as workbooks are; unpack it (unzip {path.name}), or save a "
            "workbook as CSV, and name these files"
        )
    if start.startswith(_BYTE_ORDER_MARKS) and not any_content:
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
    """Open a pipe whose writer may be gone already; Windows has no such pipes, nor the flag."""
    no_wait = getattr(os, "O_NONBLOCK", 0)
    handle = os.open(name, flags | no_wait)
    if not no_wait:
        return handle
    try:
        os.set_blocking(handle, True)
    except OSError:
        os.close(handle)
        raise
    return handle


class _Decompressed(io.RawIOBase):
    """The content of a compressed file, which is closed with it.

    The libraries' own readers take data after the first stream, or the middle of a frame, for the
    end.
    """

    def __init__(self, source: IO[bytes], path: Path) -> None:
        self._source = source
        self._path = path
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
        """Decompress one stream after the other; yield no empty piece."""
        make_decoder = COMPRESSIONS[self._path.suffix.lower()]
        position = 0  # in the file, up to which it is decompressed
        total = 0  # bytes of content
        data = self._source.read(_PIECE)
        while data:
            start = position
            decoder = make_decoder()
            size = _SMALL_PIECE
            while not decoder.eof:
                data = data or self._source.read(_PIECE)
                if not data:
                    raise InputError(
                        f"{self._path} is cut off: its {self._path.suffix} data "
                        f"from byte {start:,} on ends early; {_AGAIN}"
                    )
                piece = data[:size]
                data = data[size:]
                position += len(piece)
                unpacked = 0
                for content in self._decode(decoder, piece, start, position):
                    unpacked += len(content)
                    check_unpacked(total + unpacked, position, str(self._path), advice=_UNPACK)
                    yield content
                total += unpacked
                size = _SMALL_PIECE if unpacked > _LARGE_CONTENT else min(_PIECE, 2 * size)
            data = decoder.unused_data + data
            position -= len(decoder.unused_data)
            data = data or self._source.read(_PIECE)
            while data.startswith(b"\0"):  # padding
                after = data.lstrip(b"\0")
                position += len(data) - len(after)
                data = after or self._source.read(_PIECE)

    def _decode(self, decoder: Any, piece: bytes, start: int, end: int) -> Iterator[bytes]:
        """Yield what a piece decompresses to: of zstd in parts of at most `_LARGE_CONTENT`."""
        limit = (_LARGE_CONTENT,) if isinstance(decoder, zstd.ZstdDecompressor) else ()
        try:
            content = decoder.decompress(piece, *limit)
            while content:
                yield content
                content = b""
                if limit and not decoder.eof and not decoder.needs_input:
                    content = decoder.decompress(b"", *limit)
        except (OSError, zlib.error, lzma.LZMAError, zstd.ZstdError) as error:
            if "not enough memory" in str(error):
                raise MemoryError(f"{self._path} needs a large window") from None
            raise InputError(
                f"{self._path} is damaged or no {self._path.suffix} data "
                f"between bytes {start:,} and {end:,} ({error}); {_AGAIN}"
            ) from None
