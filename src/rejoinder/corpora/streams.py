"""Files as streams of bytes, decompressed where their names end in .zst, .gz, .bz2 or .xz.

Memory stays bounded whatever a file holds: a decoder writes into a buffer of ours and stops when it is full. zstd
streams may use windows up to 2 GiB (`zstd --long=31`), which then take that much memory.
"""

from __future__ import annotations

import bz2
import contextlib
import io
import lzma
import os
import zlib
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, Any

import zstandard

from rejoinder.errors import InputError
from rejoinder.files import refuse_endless

COMPRESSIONS = (".zst", ".gz", ".bz2", ".xz")
"""Ends of the names of compressed files that are read."""

_BUFFER = 1 << 18
_PIECE = 1 << 15
_ANY_RATIO, _LARGEST_RATIO = 16 << 20, 1000
"""Beyond so many bytes, no text is so many times as long as its compressed form: it is blank lines without end, say."""
_AGAIN = "copy or download it again"
_MAGIC = {b"\x28\xb5\x2f\xfd": ".zst", b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"PAR1": ".parquet"}
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
# zstd: the magic number of a frame that is to be skipped, the kind of block that is one byte over and over.
_SKIPPABLE = 0x184D2A50
_RUN = 1
_LOOKED_AT = 4
_LONGEST_HEADER = 18
"""Bytes of a frame before its first block, at most."""


@contextlib.contextmanager
def open_stream(path: str | Path, on_bytes: Callable[[int], object] | None = None) -> Iterator[IO[bytes]]:
    """Open a file for reading its bytes, decompressed.

    Args:
        path: the file; `/dev/stdin` and other pipes that a shell makes are fine.
        on_bytes: called with the number of bytes just read from disk (before decompression).

    Raises:
        InputError: the file is missing, a folder, a named pipe, a device or unreadable; or, at any time until the
            end of the `with` block, it turns out to be damaged, cut off, or a bomb: `_LARGEST_RATIO` times as many
            bytes as are compressed. An error of the disk stays what it is.
    """
    with contextlib.closing(_open(Path(path), on_bytes)) as stream:
        yield stream


def strip_compression(path: str | Path) -> Path:
    """The path without .zst, .gz, .bz2 or .xz at its end."""
    path = Path(path)
    return path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path


def window_size(path: Path) -> int:
    """Bytes that must stay in memory to decompress a zstd file, by its first frame; 0 for other files.

    0 too for one that cannot be read or is damaged: what is wrong is told when it is read in earnest.
    """
    if path.suffix.lower() != ".zst":
        return 0
    try:
        with path.open("rb") as file:
            return int(zstandard.get_frame_parameters(file.read(_LONGEST_HEADER)).window_size)
    except (OSError, zstandard.ZstdError):
        return 0


def _open(path: Path, on_bytes: Callable[[int], object] | None) -> IO[bytes]:
    if path.is_dir():
        raise InputError(f"{path} is a folder; name the files in it")
    try:
        refuse_endless(path)
        source = io.BufferedReader(_Counted(path, on_bytes), _BUFFER)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the name") from None
    except PermissionError:
        raise InputError(f"{path} may not be read; check its permissions") from None
    suffix = path.suffix.lower()
    if suffix not in COMPRESSIONS:
        return _plain(source, path)
    return io.BufferedReader((_Zstd if suffix == ".zst" else _Streams)(source, path), _BUFFER)


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


class _Counted(io.FileIO):
    """A file that tells how many bytes are read from it."""

    def __init__(self, path: Path, on_bytes: Callable[[int], object] | None) -> None:
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
    """The content of a compressed file, which is closed with it; a kind of compression says how to `_decode`."""

    def __init__(self, source: IO[bytes], path: Path) -> None:
        self._source, self._path = source, path
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count = self._decode(buffer)
        self._given += count
        if self._given > max(_ANY_RATIO, _LARGEST_RATIO * self._taken()):
            reason = f"{self._given:,} bytes out of {self._taken():,}, which no text gives"
            raise InputError(f"{self._path} holds one thing over and over ({reason}); look at what it is")
        return count

    @abstractmethod
    def _decode(self, buffer: Any) -> int:
        """Fill a buffer; the number of bytes, 0 at the end."""

    @abstractmethod
    def _taken(self) -> int:
        """How much of the file has been read."""

    def _cut_off(self, start: int) -> InputError:
        kind = self._path.suffix
        return InputError(f"{self._path} is cut off: its {kind} data from byte {start:,} on ends early; {_AGAIN}")

    def _damaged(self, start: int, end: int, reason: object) -> InputError:
        where = f"between bytes {start:,} and {end:,}"
        return InputError(f"{self._path} is damaged or no {self._path.suffix} data {where} ({reason}); {_AGAIN}")

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()


class _Streams(_Decompressed):
    """Streams of .gz, .bz2 or .xz data, one after the other.

    The standard library's own readers take whatever follows the first stream of .bz2 or .xz and is none for the end.
    """

    def __init__(self, source: IO[bytes], path: Path) -> None:
        super().__init__(source, path)
        self._decoder: Any = None
        self._start = self._end = 0
        """Where the stream being decoded begins in the file, and how much of the file has been read."""
        self._rest = b""

    def _decode(self, buffer: Any) -> int:
        data = b""
        while not data:
            if (self._decoder is None or self._decoder.eof) and not self._next_stream():
                return 0
            given = self._rest or (self._read() if self._decoder.needs_input else b"")
            self._rest = b""
            at_end = not given and self._decoder.needs_input
            try:
                data = self._decoder.decompress(given, len(buffer))
            except (OSError, zlib.error, lzma.LZMAError) as error:
                raise self._damaged(self._start, self._end, error) from None
            if at_end and not data and not self._decoder.eof:
                raise self._cut_off(self._start)
        buffer[: len(data)] = data
        return len(data)

    def _next_stream(self) -> bool:
        """Set up the decoder of the next stream; False at the end of the file."""
        kind = self._path.suffix.lower()
        rest, unit = (self._decoder.unused_data, _PADDING[kind]) if self._decoder else (b"", 0)
        end = self._end - len(rest)
        while unit and not (rest := rest.lstrip(b"\0")) and (more := self._read()):
            rest = more
        self._start = self._end - len(rest)
        if unit and (self._start - end) % unit:
            raise self._damaged(end, self._start, f"zero bytes, but not a multiple of {unit}")
        self._rest = rest or self._read()
        self._decoder = _DECODERS[kind]() if self._rest else None
        return bool(self._rest)

    def _read(self) -> bytes:
        data = self._source.read(_PIECE)
        self._end += len(data)
        return data

    def _taken(self) -> int:
        return self._end


class _Gzip:
    """A stream of .gz data, decoded by zlib with the interface of the decoders of bz2 and lzma."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, most: int) -> bytes:
        decoded = self._zlib.decompress(self._zlib.unconsumed_tail + data, most)
        self.needs_input = not self._zlib.unconsumed_tail and len(decoded) < most
        return decoded


_DECODERS: dict[str, Callable[[], Any]] = {
    ".gz": _Gzip,
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
}
_PADDING = {".gz": 1, ".bz2": 0, ".xz": 4}
"""After a stream there may be zero bytes, a multiple of so many."""


class _Zstd(_Decompressed):
    """Decompressed zstd frames, one after the other.

    The library's reader takes the end of the file for the end of the data, even in the middle of a frame; so the
    structure of the frames is followed beside it.
    """

    def __init__(self, source: IO[bytes], path: Path) -> None:
        super().__init__(source, path)
        self._frames = _Frames(source)
        decoder: Any = zstandard.ZstdDecompressor(max_window_size=2**31)
        self._reader = decoder.stream_reader(self._frames, read_size=_BUFFER, read_across_frames=True, closefd=False)

    def _decode(self, buffer: Any) -> int:
        try:
            count = int(self._reader.readinto(buffer))
        except zstandard.ZstdError as error:
            if "not enough memory" in str(error):
                raise MemoryError(f"{self._path} needs a large window") from None
            raise self._damaged(self._frames.start, self._frames.taken, error) from None
        if count == 0 and self._frames.incomplete:
            raise self._cut_off(self._frames.start)
        return count

    def _taken(self) -> int:
        return self._frames.taken

    def close(self) -> None:
        if not self.closed:
            self._reader.close()
        super().close()


class _Frames:
    """A source of zstd data that knows where in it frames begin and end (RFC 8878, 3.1)."""

    def __init__(self, source: IO[bytes]) -> None:
        self.incomplete = False
        self.start = self.taken = 0
        """Where the frame of which was read last begins in the file, and how much of the file has been read."""
        self._source = source
        self._parser = self._parse()
        self._wanted = self._missing = next(self._parser)
        self._head = b""

    def read(self, size: int) -> bytes:
        """Read at most so many bytes of one frame."""
        if not self.incomplete:
            self.start = self.taken
        data = self._source.peek(1)[:size]  # type: ignore[attr-defined]
        place = 0
        while place < len(data):
            here = min(self._missing, len(data) - place)
            if self._wanted <= _LOOKED_AT:
                self._head += data[place : place + here]
            self._missing -= here
            place += here
            if self._missing == 0:
                head, self._head = self._head, b""
                self._wanted = self._missing = self._parser.send(head)
                if not self.incomplete:
                    break
        self.incomplete = self.incomplete or bool(self._head)
        self.taken += place
        return self._source.read(place)

    def _parse(self) -> Generator[int, bytes, None]:
        """Ask for the next so many bytes, over and over; only up to `_LOOKED_AT` are given, of more nothing."""
        while True:
            self.incomplete = False
            magic = int.from_bytes((yield 4), "little")
            self.incomplete = True
            if magic & ~0xF == _SKIPPABLE:
                size = int.from_bytes((yield 4), "little")
                if size:
                    yield size
                continue
            descriptor = (yield 1)[0]
            if rest := _header_size(descriptor):
                yield rest
            last = 0
            while not last:
                block = int.from_bytes((yield 3), "little")
                last, kind, size = block & 1, block >> 1 & 3, block >> 3
                if kind == _RUN:
                    size = 1
                if size:
                    yield size
            if descriptor & 4:
                yield 4  # checksum


def _header_size(descriptor: int) -> int:
    """Bytes of a frame's header after its descriptor (RFC 8878, 3.1.1.1): window, dictionary, size of the content."""
    single, content = descriptor >> 5 & 1, descriptor >> 6
    dictionary = (0, 1, 2, 4)[descriptor & 3]
    return (1 - single) + dictionary + ((2, 4, 8)[content - 1] if content else single)
