"""Lines of text out of files that may be compressed, with every fault named by file and line.

One line is at most `MAX_LINE_BYTES` long; text is UTF-8, strictly; zstd streams may use windows up to 2 GiB
(`zstd --long=31`), which then take that much memory.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import zstandard

from rejoinder.corpora.example import Split
from rejoinder.errors import InputError

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longest line that is read. A longer one is a fault of that line, not a reason to run out of memory."""

COMPRESSIONS = (".zst", ".gz", ".bz2", ".xz")
"""Ends of the names of compressed files that are read."""

_ZSTD_PIECE = 4096
"""Compressed bytes handed to the zstd decoder at once: a piece of zeros can become 30,000 times as long."""
_SHOWN_FAULTS = 10
_MAGIC = {b"\x28\xb5\x2f\xfd": ".zst", b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"PAR1": ".parquet"}
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zstandard.ZstdError)


class BadLineError(InputError):
    """A line that cannot be used; another one may be."""


@dataclass(slots=True)
class Reading:
    """How files are to be read, and what happened while reading them.

    One object serves all files of one job; the readers of this package add to its counts.
    """

    skip_bad: bool = False
    """Skip and count bad lines instead of stopping at the first. Faults of a whole file always stop."""
    history: int = 10
    """Messages kept before the newest one of a context; older ones are cut off."""
    part: Split | None = None
    """The part of the data that the file is for, where the user says so; otherwise each thread's hash decides."""
    on_bytes: Callable[[int], object] | None = None
    """Called with the number of bytes just read from disk (before decompression)."""
    on_fault: Callable[[str], object] | None = None
    """Called with one line of text for each bad line that is skipped."""
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
    dropped: dict[str, int] = field(default_factory=dict)
    """What the rules of a corpus left out, by reason."""

    def drop(self, reason: str, count: int = 1) -> None:
        """Count records that the rules of a corpus leave out; `reason` is a few words, the same each time."""
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def bad_line(self, path: str | Path, number: int, reason: str) -> None:
        """Report a bad line.

        Raises:
            BadLineError: always, unless bad lines are to be skipped.
        """
        fault = f"{path}:{number}: {reason}"
        if not self.skip_bad:
            raise BadLineError(fault)
        self.bad_lines += 1
        if len(self.faults) < _SHOWN_FAULTS:
            self.faults.append(fault)
        if self.on_fault is not None:
            self.on_fault(fault)


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
    with contextlib.closing(_open(path, reading)) as stream:
        for number, line in enumerate(_raw_lines(stream, path), 1):
            text = _decode(line, path, number, reading)
            if text is not None:
                yield number, text
    if number == 0:
        raise InputError(f"{path} is empty; it should hold at least one line of text")


def strip_compression(path: str | Path) -> Path:
    """The path without .zst, .gz, .bz2 or .xz at its end."""
    path = Path(path)
    return path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path


def _open(path: Path, reading: Reading) -> IO[bytes]:
    if path.is_dir():
        raise InputError(f"{path} is a folder; name the files in it")
    try:
        source = io.BufferedReader(_Counted(path, reading.on_bytes), 1 << 18)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the name") from None
    except PermissionError:
        raise InputError(f"{path} may not be read; check its permissions") from None
    suffix = path.suffix.lower()
    if suffix not in COMPRESSIONS:
        return _plain(source, path)
    if suffix == ".zst":
        return io.BufferedReader(_Zstd(source), 1 << 18)
    decoders: dict[str, Callable[[Any], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return io.BufferedReader(_Owner(decoders[suffix](source), source), 1 << 18)


def _plain(source: io.BufferedReader[_Counted], path: Path) -> IO[bytes]:
    """The file itself, unless its first bytes say that it is something else."""
    start = source.peek(8)
    reason = ""
    for magic, suffix in _MAGIC.items():
        if start.startswith(magic):
            reason = f"holds {suffix} data; name it so that it ends in {suffix}"
    if start.startswith(_BYTE_ORDER_MARKS):
        reason = f"is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {path.name}"
    if reason:
        source.close()
        raise InputError(f"{path} {reason}")
    return source


def _raw_lines(stream: IO[bytes], path: Path) -> Iterator[bytes]:
    """Lines with their ends; of a line above the limit its first bytes, one more than the limit."""
    while True:
        try:
            line = stream.readline(MAX_LINE_BYTES + 1)
            if len(line) > MAX_LINE_BYTES:
                rest = line
                while rest and not rest.endswith(b"\n"):
                    rest = stream.readline(MAX_LINE_BYTES)
        except (*_DAMAGE, OSError) as error:
            raise _damage(path, error) from error
        if not line:
            return
        yield line


def _damage(path: Path, error: Exception) -> Exception:
    """What to raise for an error of a decompressor; an error of the disk is given back as it is."""
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
        return error
    if isinstance(error, EOFError):
        return InputError(f"{path} is cut off: its {path.suffix} data ends early; copy or download it again")
    return InputError(f"{path} is damaged or no {path.suffix} data ({error}); copy or download it again")


def _decode(line: bytes, path: Path, number: int, reading: Reading) -> str | None:
    """The text of a line, or None if it is bad and skipped."""
    reason = ""
    if len(line) > MAX_LINE_BYTES:
        reason = f"longer than {MAX_LINE_BYTES // 2**20} MiB; write one example a line"
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


class _Counted(io.FileIO):
    """A file that tells how many bytes are read from it."""

    def __init__(self, path: Path, on_bytes: Callable[[int], object] | None) -> None:
        super().__init__(path, "rb")
        self._on_bytes = on_bytes

    def readinto(self, buffer: Any, /) -> int:
        count = super().readinto(buffer) or 0
        if self._on_bytes is not None:
            self._on_bytes(count)
        return count


class _Owner(io.RawIOBase):
    """A decompressed stream that closes the file beneath it when it is closed."""

    def __init__(self, stream: IO[bytes], source: IO[bytes]) -> None:
        self._stream, self._source = stream, source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._source.close()
        super().close()


class _Zstd(io.RawIOBase):
    """Decompressed zstd frames, one after the other.

    The library's own reader takes the end of the file for the end of the data, even in the middle of a frame.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._decoder = zstandard.ZstdDecompressor(max_window_size=2**31)
        self._frame: Any = None
        self._input = self._output = b""
        self._place = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while self._place == len(self._output):
            if not self._decode_piece():
                return 0
        data = self._output[self._place : self._place + len(buffer)]
        self._place += len(data)
        buffer[: len(data)] = data
        return len(data)

    def _decode_piece(self) -> bool:
        self._input = self._input or self._source.read(_ZSTD_PIECE)
        if not self._input:
            if self._frame is not None:
                raise EOFError("the last frame is incomplete")
            return False
        if self._frame is None:
            self._frame = self._decoder.decompressobj()
        self._output, self._place = self._frame.decompress(self._input), 0
        self._input = b""
        if self._frame.eof:
            self._input, self._frame = self._frame.unused_data, None
        return True

    def close(self) -> None:
        self._source.close()
        super().close()
