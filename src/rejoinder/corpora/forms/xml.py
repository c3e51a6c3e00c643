"""Elements of an XML file, one at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rejoinder.corpora.lines import Reading, open_pieces
from rejoinder.errors import InputError

if TYPE_CHECKING:
    from lxml.etree import _Element


class _Pieces:
    """A file for a parser to read from."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self._pieces = open_pieces(path, reading)
        self._held = next(self._pieces, b"").removeprefix(b"\xef\xbb\xbf")

    def read(self, size: int) -> bytes:
        """Return at most so many of the next bytes; those of a piece if `size` is negative."""
        self._held = self._held or next(self._pieces, b"")
        piece, self._held = (
            (self._held, b"") if size < 0 else (self._held[:size], self._held[size:])
        )
        return piece


def xml_elements(
    path: Path, reading: Reading, tags: Collection[str], root: str = ""
) -> Iterator[_Element]:
    """Yield the elements of an XML file with one of these tags, in any namespace.

    An element is valid until the next one is read. `root` names the outermost element; empty: any.
    InputError: no XML, cut off, entities, or beyond the parser's limits.
    """
    from lxml import etree

    inside = 0
    # The parser limits a text's length, depth, and how much entities may grow.
    options = {
        "resolve_entities": False,
        "no_network": True,
        "remove_comments": True,
        "remove_pis": True,
    }
    events = etree.iterparse(_Pieces(path, reading), ("start", "end"), **options)
    try:
        for event, element in events:
            # Not by `QName`, which refuses a tag such as ":a", which the parser takes.
            name = element.tag.rpartition("}")[2]
            wanted = name in tags
            if event == "start":
                if root and element.getparent() is None and name != root:
                    raise InputError(
                        f"{path}:{element.sourceline}: <{name[:40]}> instead of <{root}>"
                    )
                inside += wanted
                continue
            inside -= wanted
            if wanted:
                if next(element.iter(etree.Entity), None) is not None:
                    raise InputError(
                        f"{path}:{element.sourceline}: an entity; "
                        "files that need entities are not read"
                    )
                yield element
            if not inside and (parent := element.getparent()) is not None:
                parent.remove(element)
    except etree.XMLSyntaxError as error:
        first = next(iter(events.error_log), None)  # the error itself may know no line
        line = first.line if first else error.lineno
        message = first.message if first else str(error.msg)
        reason = " ".join(message.split())
        raise InputError(
            f"{path}:{line}: not XML, or cut off ({reason}); copy or download it again"
        ) from None
