"""Pages of MediaWiki's XML export, read as a stream that no document can blow up."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

from rejoinder.corpora.lines import Reading, open_lines
from rejoinder.errors import InputError

MAX_DEPTH = 16
"""Most elements within each other; an export has five."""
MAX_TAG = 1 << 14
"""Most bytes of a tag or comment that goes on over lines: expat 2.5 begins anew with each line of it."""
MAX_TEXT = 1 << 22
"""Most characters of a page; MediaWiki's own limit is 2 MiB."""

_MEDIA_KEYS = ("6", "14")
"""Keys of the namespaces whose links show nothing in place: files and categories."""
_MEDIA_NAMES = frozenset({"file", "image", "category"})
"""Their names in every wiki, beside those in its own language."""
_KEPT = {
    ("page", "title"): "title",
    ("page", "ns"): "namespace",
    ("page", "id"): "id",
    ("page", "revision", "model"): "model",
    ("page", "revision", "text"): "text",
    ("siteinfo", "namespaces", "namespace"): "media",
}
"""The elements whose text counts, by their path below the root."""


@dataclass(slots=True)
class Page:
    """A page in its newest revision."""

    line: int
    """Number of the line on which it begins."""
    media: frozenset[str]
    """Lower-cased names of this wiki's namespaces of files and categories."""
    title: str = ""
    id: str = ""
    namespace: int = 0
    redirect: bool = False
    model: str = ""
    """What the text is: `wikitext`, or empty in exports from before 2012."""
    text: str = ""


def pages(path: Path, reading: Reading) -> Iterator[Page]:
    """Read the pages of an export, compressed or not.

    Raises:
        InputError: the file cannot be read, is no export, or is not whole; or, unless bad ones are skipped, a page
            without an id or with too long a text.
    """
    parser, number, fed = _Parser(path, reading), 0, 0
    for number, line in open_lines(path, reading):
        data = f"{line}\n"
        fed += len(data.encode("utf-8"))
        parser.feed(data, number, fed)
        yield from parser.finished
        parser.finished.clear()
    parser.end(number)


class _Parser:
    """Makes pages of expat's events."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.finished: list[Page] = []
        self._path, self._reading = path, reading
        self._number = 0
        self._open: list[str] = []
        self._page: Page | None = None
        self._fault_of_page = ""
        self._media = _MEDIA_NAMES
        self._kept: io.StringIO | None = None  # the text of the open element, if it counts
        self._room = 0
        self._expat = expat.ParserCreate()
        self._expat.buffer_text = True
        self._expat.StartDoctypeDeclHandler = self._refuse_doctype
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._characters

    def feed(self, data: str, number: int, fed: int) -> None:
        """Parse a line; `fed` is the number of bytes up to its end."""
        self._number = number
        self._parse(data)
        if fed - self._expat.CurrentByteIndex > MAX_TAG:
            raise self._fault(f"a tag or comment that goes on for more than {MAX_TAG:,} bytes")

    def end(self, number: int) -> None:
        """Parse the end of the file."""
        self._number = number
        self._parse("", final=True)

    def _parse(self, data: str, final: bool = False) -> None:
        try:
            self._expat.Parse(data, final)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise self._fault(f"the XML is damaged or not whole ({reason}); copy or download it again") from None

    def _fault(self, reason: str) -> InputError:
        return InputError(f"{self._path}:{self._number}: {reason}")

    def _refuse_doctype(self, *_: object) -> None:
        raise self._fault("a document type (DOCTYPE); MediaWiki's exports have none, and entities are not read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._open.append(name)
        if len(self._open) > MAX_DEPTH:
            raise self._fault(f"more than {MAX_DEPTH} elements within each other; MediaWiki's exports have five")
        if self._open == ["mediawiki", "page"]:
            self._page, self._fault_of_page = Page(self._number, self._media), ""
        elif self._open == [name] and name != "mediawiki":
            raise self._fault(f"<{name[:40]}> instead of <mediawiki>; MediaWiki's XML exports are read")
        elif self._page is not None and name == "redirect":
            self._page.redirect = True
        self._kept = io.StringIO() if self._counts(attributes) else None
        self._room = MAX_TEXT

    def _counts(self, attributes: dict[str, str]) -> bool:
        """Whether the text of the element just opened is needed."""
        kind = _KEPT.get(tuple(self._open[1:]))
        if kind == "media":
            return attributes.get("key") in _MEDIA_KEYS
        if kind == "text" and self._page is not None:
            return self._page.namespace == 0 and not self._page.redirect
        return kind is not None

    def _characters(self, text: str) -> None:
        if self._kept is None:
            return
        self._room -= len(text)
        if self._room < 0:
            self._kept, self._fault_of_page = None, f"more than {MAX_TEXT:,} characters in <{self._open[-1]}>"
        else:
            self._kept.write(text)

    def _end(self, name: str) -> None:
        if self._kept is not None:
            self._take(_KEPT[tuple(self._open[1:])], self._kept.getvalue())
            self._kept = None
        self._open.pop()
        if name == "page" and self._open == ["mediawiki"] and self._page is not None:
            self._finish(self._page)
            self._page = None

    def _take(self, kind: str, text: str) -> None:
        if kind == "media":
            self._media |= {text.strip().lower()}
        elif kind == "namespace":
            if text.strip().lstrip("-").isdecimal() and len(text) < 20:
                self._page_is_open().namespace = int(text)
            else:
                self._fault_of_page = f"{text[:20]!r} instead of a number in <ns>"
        else:
            setattr(self._page_is_open(), kind, text if kind == "text" else text.strip())

    def _page_is_open(self) -> Page:
        assert self._page is not None  # _KEPT's other paths lie in a page
        return self._page

    def _finish(self, page: Page) -> None:
        self._reading.lines += 1
        fault = self._fault_of_page or ("" if page.id else "a page without <id>")
        if fault:
            self._reading.bad_line(self._path, page.line, fault)
        else:
            self.finished.append(page)
