"""Files whose form is unknown: a look at the first megabyte, and their text, JSON and members.

Encodings: a byte-order mark, else UTF-8 or UTF-16, else the guess of `encodings`.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import io
import itertools
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, TypeAlias

from rejoinder.corpora.forms.encodings import guess_encoding, guess_utf_16
from rejoinder.corpora.forms.office_files import refuse_document
from rejoinder.corpora.json_events import json_keys
from rejoinder.corpora.limits import (
    MAX_DOCUMENT_BYTES,
    MAX_LINE_BYTES,
    MAX_LOOKED_AT,
    MAX_MEMBERS,
    SAMPLE_BYTES,
    check_unpacked,
)
from rejoinder.corpora.lines import Reading, open_lines, open_stream, strip_compression
from rejoinder.errors import InputError
from rejoinder.patterns import match_pattern, search_pattern

Kind: TypeAlias = Literal[
    "folder", "zip", "workbook", "parquet", "json", "json lines", "html", "mail", "yaml",
    "markdown", "text",
]  # fmt: skip

_JSON = match_pattern(r'\s*(?:\{\s*["}]|\[\s*[\[{"\]])')
_HTML = match_pattern(
    r"\s*<(?:!doctype\s+html|!--|\?xml|/?(?:html|head|body|div|dl|dt|section|main|article|details"
    r"|script|style|table|ul|ol|p|h[1-6]|span|title|meta)\b)",
    re.IGNORECASE,
)
_HEADER = match_pattern(r"[A-Za-z][A-Za-z0-9-]*: ?\S?")
_MAIL_HEADERS = frozenset(
    ("from", "date", "to", "subject", "message-id", "received", "return-path", "mime-version")
)
_BLOCK = match_pattern(r"[A-Za-z_][\w/ -]*:(?:\s*[|>][+-]?)?\s*(?:#.*)?")
_YAML_LINE = match_pattern(r"\s*+(?:#.*|---.*|- .*|-|[\"']?[\w/ .?-]++[\"']?:(?: .*)?)|\s++\S.*")
_HEADING = search_pattern(
    r"^#{1,6} ++\S|^[^\s#>|-].*\n(?:={3,}+|-{3,}+)\s*+$|^\|? *+:?-{3}", re.MULTILINE
)
_UTF8_WITH_MARK = "utf-8-sig"
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: _UTF8_WITH_MARK,
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError,
    RuntimeError,
)  # fmt: skip
_MARKDOWN = (".md", ".markdown")  # whose front matter looks like YAML
_UNPACK = "if it is meant to, unpack it first"


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or a member of a zip file or folder."""

    path: Path
    member: str = ""

    def __str__(self) -> str:
        """Return its name for errors."""
        return f"{self.path}/{self.member}" if self.member else str(self.path)

    @property
    def name(self) -> Path:
        """Its name without that of a compression."""
        return Path(self.member) if self.member else strip_compression(self.path)

    @contextlib.contextmanager
    def open(self, reading: Reading | None = None) -> Iterator[IO[bytes]]:
        """Open it for reading its bytes, decompressed. InputError: as for `open_stream`."""
        on_bytes = reading.on_bytes if reading else None
        if not self.member or self.path.is_dir():
            path = self.path / self.member if self.member else self.path
            with open_stream(path, on_bytes, any_content=True) as stream:
                yield stream
            return
        with _opened_zip(self.path) as file:
            _check_member(self, file.getinfo(self.member))
            try:
                with file.open(self.member) as stream:
                    yield stream
            except _ZIP_ERRORS as error:
                raise InputError(f"{self}: {error}; copy or download the file again") from None

    def read(self, reading: Reading | None = None) -> bytes:
        """Return all of its bytes; InputError: too many."""
        pieces = []
        size = 0
        with self.open(reading) as stream:
            while piece := stream.read(SAMPLE_BYTES):  # as much memory as the file has bytes
                pieces.append(piece)
                size += len(piece)
                if size > MAX_DOCUMENT_BYTES:
                    raise InputError(
                        f"{self} is larger than {MAX_DOCUMENT_BYTES >> 20} MiB; split it"
                    )
        return b"".join(pieces)

    def text(self, encoding: str = "", reading: Reading | None = None) -> str:
        """Return all of its text; its lines end with a line feed alone."""
        data = self.read(reading)
        text = decode(data, encoding or find_encoding(data, str(self)), str(self))
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def lines(
        self, encoding: str = "utf-8", reading: Reading | None = None
    ) -> Iterator[tuple[int, str]]:
        """Yield number, from 1, and text of each line, as `open_lines` does."""
        if not self.member and encoding in ("utf-8", _UTF8_WITH_MARK):
            yield from open_lines(self.path, reading)
            return
        with self.open(reading) as stream:
            lines = io.TextIOWrapper(stream, encoding=encoding)
            number = 0
            try:
                while line := lines.readline(MAX_LINE_BYTES):
                    number += 1
                    yield number, line.removesuffix("\n")
            except UnicodeError:
                raise InputError(
                    f"{self}:{number + 1}: not {encoding}; convert the file to UTF-8"
                ) from None
            finally:
                lines.detach()


@dataclass(frozen=True, slots=True)
class Sample:
    """The beginning of a file, by which its form is recognised."""

    source: Source
    kind: Kind
    text: str = ""
    encoding: str = "utf-8"
    keys: frozenset[str] = frozenset()  # paths of keys in JSON: "messages.item.from"
    members: tuple[str, ...] = ()  # of a folder or a zip file
    columns: tuple[str, ...] = ()  # names, if it is a table

    @property
    def lines(self) -> list[str]:
        """The whole lines of the text."""
        lines = self.text.splitlines()
        return lines[:-1] if len(self.text) >= SAMPLE_BYTES // 4 else lines

    def has(self, *keys: str) -> bool:
        """Return whether JSON has all of these keys: top-level, in an array, or in a field's."""
        return any(all(f"{base}{key}" in self.keys for key in keys) for base in ("", "item."))


def look(path: str | Path, member: str = "", encoding: str = "") -> Sample:
    """Read the beginning of a file. InputError: it is missing, empty, binary or damaged."""
    source = Source(Path(path), member)
    if not member and source.path.is_dir():
        return Sample(source, "folder", members=tuple(member_names(source.path)))
    with source.open() as stream:
        data = stream.read(SAMPLE_BYTES)
    if not data:
        raise InputError(f"{source} is empty; it should hold at least one line of text")
    if data.startswith(b"PAR1"):
        return Sample(source, "parquet")
    refuse_document(str(source), data)
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")) and not member:
        return _look_into_zip(source)
    encoding = encoding or find_encoding(data, str(source))
    text = _decode_sample(data, encoding, str(source))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    kind = _kind_of(text, source.name.suffix.lower())
    sample = Sample(source, kind, text, encoding)
    if kind in ("json", "json lines"):
        return dataclasses.replace(sample, keys=frozenset(json_keys(data, encoding)))
    return sample


def member_names(path: Path) -> list[str]:
    """Return the names of the files in a folder or a zip file, sorted."""
    if path.is_dir():
        names = [file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()]
    else:
        with _opened_zip(path) as file:
            entries = file.infolist()
        size = sum(entry.file_size for entry in entries)
        check_unpacked(size, path.stat().st_size, str(path), advice=_UNPACK)
        names = [entry.filename for entry in entries if not entry.is_dir()]
    names = [name for name in names if not _is_hidden(name)]
    if len(names) > MAX_MEMBERS:
        raise InputError(f"{path} holds more than {MAX_MEMBERS:,} files; name a part of it")
    return sorted(names)


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _look_into_zip(source: Source) -> Sample:
    names = member_names(source.path)
    refuse_document(str(source), b"", names)
    kind: Kind = "workbook" if "xl/workbook.xml" in names else "zip"
    if kind == "workbook":
        with _opened_zip(source.path) as file:
            for entry in file.infolist():
                _check_member(source, entry)
    return Sample(source, kind, members=tuple(names))


_KEPT: dict[Path, zipfile.ZipFile] = {}


@contextlib.contextmanager
def keep_open(path: Path) -> Iterator[None]:
    """Keep a zip file open, whose list of files would be read anew for each of them."""
    if path in _KEPT or not path.is_file() or not zipfile.is_zipfile(path):
        yield
        return
    with _opened_zip(path) as file:
        _KEPT[path] = file
        try:
            yield
        finally:
            del _KEPT[path]


@contextlib.contextmanager
def _opened_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    if path in _KEPT:
        yield _KEPT[path]
        return
    try:
        file = zipfile.ZipFile(path)
    except _ZIP_ERRORS as error:
        raise InputError(
            f"{path} is damaged, cut off or no zip file ({error}); copy or download it again"
        ) from None
    with file:
        yield file


def _check_member(source: Source, entry: zipfile.ZipInfo) -> None:
    name = f"{source.path}: {entry.filename}"
    check_unpacked(entry.file_size, entry.compress_size, name, advice=_UNPACK)


def find_encoding(data: bytes, name: str) -> str:
    """Return the encoding of text. InputError: it is binary, or in none that is known."""
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return encoding
    has_zeros = b"\0" in data
    guess = guess_utf_16(data) if has_zeros else _guess_without_zeros(data)
    if guess is not None:
        return guess
    number = data[: data.find(b"\0")].count(b"\n") + 1 if has_zeros else 1
    raise InputError(f"{name}:{number}: binary data, or in no known encoding; a text file is read")


def _guess_without_zeros(data: bytes) -> str | None:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return guess_encoding(data)
    return "utf-8"


def decode(data: bytes, encoding: str, name: str, *, partial: bool = False) -> str:
    """Return text; `partial`: its last character may be cut off. InputError: not the encoding."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(data, final=not partial)
    except LookupError:
        raise InputError(
            f"no encoding {encoding!r}; give one that Python knows, such as utf-8, utf-16, cp1252"
        ) from None
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        number = data[:start].count(b"\n") + 1
        shown = encoding.upper().removesuffix("-SIG")
        raise InputError(f"{name}:{number}: not {shown}; convert the file to UTF-8") from None
    return text.removeprefix("\ufeff")


def _decode_sample(data: bytes, encoding: str, name: str) -> str:
    """Return the text of a file's beginning; of UTF-8 with a mark the lines are checked later."""
    if encoding == _UTF8_WITH_MARK:
        return codecs.getincrementaldecoder(encoding)("replace").decode(data)
    return decode(data, encoding, name, partial=len(data) == SAMPLE_BYTES)


def _kind_of(text: str, suffix: str) -> Kind:
    lines = [line[:MAX_LOOKED_AT] for line in text.splitlines()[:2_000] if line.strip()]
    is_json = _JSON.match(text) is not None
    kinds: dict[Kind, bool] = {
        "json lines": suffix in (".jsonl", ".ndjson") or (is_json and _is_json_lines(text)),
        "json": is_json,
        "html": suffix in (".html", ".htm") or _HTML.match(text) is not None,
        "mail": _is_mail(text, suffix),
        "text": suffix in (".csv", ".tsv", ".tab"),
        "yaml": suffix in (".yml", ".yaml") or (suffix not in _MARKDOWN and _is_yaml(lines)),
        "markdown": suffix in _MARKDOWN or _HEADING.search(text) is not None,
    }
    return next((kind for kind, is_of_kind in kinds.items() if is_of_kind), "text")


def _is_json_lines(text: str) -> bool:
    """Return whether the first line is a whole JSON value, and the next one begins another."""
    lines = [line for line in text.split("\n", 200) if line.strip()]
    try:
        json.loads(lines[0])
    except (ValueError, RecursionError):
        return False
    return len(lines) > 1 or not lines[0].lstrip().startswith("[")


def _is_mail(text: str, suffix: str) -> bool:
    first, _, rest = text.partition("\n")
    if first.startswith("From ") and _HEADER.match(rest):
        return True
    names = []
    for line in text.splitlines()[:2_000]:
        if not _HEADER.match(line):
            if line[:1] not in (" ", "\t"):
                break
            continue
        names.append(line.partition(":")[0].lower())
    least = 2 if suffix in (".eml", ".mbox") else 3
    return len(_MAIL_HEADERS.intersection(names)) >= least and "from" in names


def _is_yaml(lines: list[str]) -> bool:
    if not lines:
        return False
    marked = lines[0].rstrip() == "---" or lines[0].startswith("%YAML")
    opens = any(
        _BLOCK.fullmatch(line) and following[:1] in (" ", "-", "\t")
        for line, following in itertools.pairwise(lines)
    )
    shaped = sum(_YAML_LINE.fullmatch(line) is not None for line in lines)
    return (marked or opens) and shaped >= 0.9 * len(lines)
