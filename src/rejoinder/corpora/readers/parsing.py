"""JSON arrays and XML, read piece by piece with libraries, within limits that no file can get around."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rejoinder.corpora.lines import Reading, open_pieces
from rejoinder.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from lxml.etree import _Element

MAX_DEPTH = 16
"""Most elements, objects or arrays within each other; the corpora have five or so."""
MAX_ITEM = 1 << 24
"""Most bytes of an item (an object of an array, a page, a question); parsed it takes some ten times as much memory."""


class _Pieces:
    """A file for a parser to read from, which gives at most `allowance` bytes until the next item is complete."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self._path, self._pieces = path, open_pieces(path, reading)
        self._held = next(self._pieces, b"").removeprefix(b"\xef\xbb\xbf")
        self.allowance = MAX_ITEM

    def read(self, size: int) -> bytes:
        self._held = self._held or next(self._pieces, b"")
        piece, self._held = (self._held, b"") if size < 0 else (self._held[:size], self._held[size:])
        self.allowance -= len(piece)
        if self.allowance < 0:
            raise InputError(f"{self._path}: an item above {MAX_ITEM:,} bytes")
        return piece


def json_objects(path: Path, reading: Reading) -> Iterator[dict[str, Any]]:
    """Give the objects of a file that holds one JSON array, compressed or not, one at a time.

    InputError, with the object's number, for no such array, one cut off or nested too deep, or an object above 16 MiB:
    faults of the whole file, which stop even if bad lines are skipped.
    """
    try:
        import ijson
    except ModuleNotFoundError:
        raise MissingExtraError("reading large JSON files", "corpora") from None

    pieces, count, depth, builder = _Pieces(path, reading), 1, 0, ijson.ObjectBuilder()
    try:
        # Not `ijson.items`, whose memory grows with the square of the depth.
        for event, value in ijson.basic_parse(pieces, use_float=True):
            if depth == 0 and event != "start_array":
                raise InputError(f'{path}:1: no JSON array; "[", objects and "]" are read')
            if depth == 1 and event not in ("start_map", "end_array"):
                kind = event.removeprefix("start_")
                raise InputError(f"{path}:{count}: object {count}: a JSON {kind}; objects are read")
            depth += event.startswith("start_") - event.startswith("end_")
            if depth > MAX_DEPTH:
                raise InputError(f"{path}:{count}: object {count}: JSON nested more than {MAX_DEPTH} deep")
            if depth > 1 or event == "end_map":
                builder.event(event, value)
            if depth == 1 and event == "end_map":
                yield builder.value
                pieces.allowance, count, builder = MAX_ITEM, count + 1, ijson.ObjectBuilder()
    except ijson.JSONError as error:
        text = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        reason = text.partition("\n")[0].strip(". ")
        raise InputError(f"{path}:{count}: object {count}: {reason}; copy or download it again") from None


def xml_elements(path: Path, reading: Reading, tags: Collection[str], root: str = "") -> Iterator[_Element]:
    """Give the elements of an XML file that have one of these tags (in any namespace), each when it is complete.

    It is forgotten when the next one is asked for. `root` names the outermost element of a file without a document
    type; empty: any, and a document type may stand above it if it declares no entity. InputError, with the line if it
    is known, for no XML, a file that is cut off, declares entities, is nested too deep, or holds an element above 16
    MiB.
    """
    try:
        from lxml import etree
    except ModuleNotFoundError:
        raise MissingExtraError("reading XML", "corpora") from None

    pieces, inside, depth = _Pieces(path, reading), 0, 0
    # The parser has limits of its own too: on a text's length, on depth, on how much entities may grow.
    options = {"resolve_entities": False, "no_network": True, "remove_comments": True, "remove_pis": True}
    events = etree.iterparse(pieces, ("start", "end"), **options)
    try:
        for event, element in events:
            name = etree.QName(element).localname
            wanted = name in tags
            if event == "start":
                if depth == 0:
                    _check_document(element, name, path, root)
                depth, inside = depth + 1, inside + wanted
                if depth > MAX_DEPTH:
                    raise InputError(f"{path}:{element.sourceline}: elements nested more than {MAX_DEPTH} deep")
                continue
            depth, inside = depth - 1, inside - wanted
            if wanted:
                if next(element.iter(etree.Entity), None) is not None:
                    raise InputError(f"{path}:{element.sourceline}: an entity; files that need entities are not read")
                yield element
                pieces.allowance = MAX_ITEM
            if not inside and (parent := element.getparent()) is not None:
                parent.remove(element)
    except etree.XMLSyntaxError as error:
        first = next(iter(events.error_log), None)  # the error itself may know no line
        line, message = (first.line, first.message) if first else (error.lineno, str(error.msg))
        reason = " ".join(message.split())
        raise InputError(f"{path}:{line}: not XML, or cut off ({reason}); copy or download it again") from None


def _check_document(element: _Element, name: str, path: Path, root: str) -> None:
    document = element.getroottree().docinfo
    declared = document.internalDTD
    if root and document.doctype:
        raise InputError(f"{path}:1: a document type (DOCTYPE); files of this kind have none")
    if declared is not None and (document.system_url or any(True for _ in declared.iterentities())):
        raise InputError(f"{path}:1: a document type with entities; files that declare or need entities are not read")
    if root and name != root:
        raise InputError(f"{path}:{element.sourceline}: <{name[:40]}> instead of <{root}>")
