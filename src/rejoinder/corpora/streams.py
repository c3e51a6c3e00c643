"""Files as streams of bytes, decompressed where their names end in .zst, .gz, .bz2 or .xz.

Memory stays bounded whatever a file holds: a decoder writes into a buffer of ours and stops when it is full. zstd
streams may use windows up to 2 GiB (`zstd --long=31`), which then take that much memory.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, Any

import zstandard

from rejoinder.errors import InputError

COMPRESSIONS = (".zst", ".gz", ".bz2", ".xz")
"""Ends of the names of compressed files that are read."""

_BUFFER = 1 << 18
_MAGIC = {b"\x28\xb5\x2f\xfd": ".zst", b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"PAR1": ".parquet"}
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
# zstd: the magic number of a frame that is to be skipped, the kind of block that is one byte over and over.
_SKIPPABLE = 0x184D2A50
_RUN = 1
_LOOKED_AT = 4
_LONGEST_HEADER = 18
"""Bytes of a frame before its first block, at most."""
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zstandard.ZstdError)


@contextlib.contextmanager
def open_stream(path: str | Path, on_bytes: Callable[[int], object] | None = None) -> Iterator[IO[bytes]]:
    """Open a file for reading its bytes, decompressed.

    Args:
        path: the file; a pipe is fine.
        on_bytes: called with the number of bytes just read from disk (before decompression).

    Raises:
        InputError: the file is missing, a folder or unreadable; or, at any time until the end of the `with` block,
            it turns out to be damaged or cut off. An error of the disk stays what it is.
    """
    path = Path(path)
    with contextlib.closing(_open(path, on_bytes)) as stream:
        try:
            yield stream
        except (*_DAMAGE, OSError) as error:
            damage = _damage(path, error)
            if damage is None:
                raise
            raise damage from error


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
        source = io.BufferedReader(_Counted(path, on_bytes), _BUFFER)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the name") from None
    except PermissionError:
        raise InputError(f"{path} may not be read; check its permissions") from None
    suffix = path.suffix.lower()
    if suffix not in COMPRESSIONS:
        return _plain(source, path)
    if suffix == ".zst":
        return io.BufferedReader(_Zstd(source), _BUFFER)
    decoders: dict[str, Callable[[Any], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return io.BufferedReader(_Owner(decoders[suffix](source), source), _BUFFER)


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


def _damage(path: Path, error: Exception) -> InputError | None:
    """What to raise for an error of a decompressor; None for an error of the disk."""
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
        return None
    if isinstance(error, EOFError):
        return InputError(f"{path} is cut off: its {path.suffix} data ends early; copy or download it again")
    return InputError(f"{path} is damaged or no {path.suffix} data ({error}); copy or download it again")


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

    The library's reader takes the end of the file for the end of the data, even in the middle of a frame; so the
    structure of the frames is followed beside it.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._frames = _Frames(source)
        decoder: Any = zstandard.ZstdDecompressor(max_window_size=2**31)
        self._reader = decoder.stream_reader(self._frames, read_size=_BUFFER, read_across_frames=True, closefd=False)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count = self._reader.readinto(buffer)
        if count == 0 and self._frames.incomplete:
            raise EOFError("the last frame is incomplete")
        return count

    def close(self) -> None:
        if not self.closed:
            self._reader.close()
            self._source.close()
        super().close()


class _Frames:
    """A source of zstd data that knows whether what was read of it ends between two frames (RFC 8878, 3.1)."""

    def __init__(self, source: IO[bytes]) -> None:
        self.incomplete = False
        self._source = source
        self._parser = self._parse()
        self._wanted = self._missing = next(self._parser)
        self._head = b""

    def read(self, size: int) -> bytes:
        """Read at most so many bytes."""
        data = self._source.read(size)
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
        self.incomplete = self.incomplete or bool(self._head)
        return data

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
