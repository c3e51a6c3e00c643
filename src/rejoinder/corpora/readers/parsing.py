"""JSON arrays and XML, read piece by piece with libraries, and lines with a tab."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rejoinder.corpora.lines import Reading, open_lines, open_pieces
from rejoinder.errors import InputError

if TYPE_CHECKING:
    from lxml.etree import _Element

MAX_DEPTH = 16  # most objects or arrays within each other; the corpora have five or so


class _Pieces:
    """A file for a parser to read from."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self._pieces = open_pieces(path, reading)
        self._held = next(self._pieces, b"").removeprefix(b"\xef\xbb\xbf")

    def read(self, size: int) -> bytes:
        self._held = self._held or next(self._pieces, b"")
        piece, self._held = (self._held, b"") if size < 0 else (self._held[:size], self._held[size:])
        return piece


def tab_pairs(path: str | Path, reading: Reading, wanted: str) -> Iterator[tuple[str, str]]:
    """Give what stands before and after the first tab of each line; `wanted` says what a bad line should be."""
    for number, line in open_lines(path, reading):
        name, _, rest = (part.strip() for part in line.partition("\t"))
        if name and rest:
            yield name, rest
        elif line.strip():
            reading.bad_line(path, number, wanted)


def json_objects(path: Path, reading: Reading) -> Iterator[dict[str, Any]]:
    """Give the objects of a file that holds one JSON array, one at a time.

    No such array, or one that is cut off or nested too deep, is an InputError even if bad lines are skipped.
    """
    import ijson

    count = 1
    depth = 0
    builder = ijson.ObjectBuilder()
    try:
        # Not `ijson.items`, whose memory grows with the square of the depth.
        for event, value in ijson.basic_parse(_Pieces(path, reading), use_float=True):
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
                count = count + 1
                builder = ijson.ObjectBuilder()
    except ijson.JSONError as error:
        text = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        reason = text.partition("\n")[0].strip(". ")
        raise InputError(f"{path}:{count}: object {count}: {reason}; copy or download it again") from None


def xml_elements(path: Path, reading: Reading, tags: Collection[str], root: str = "") -> Iterator[_Element]:
    """Give the elements of an XML file that have one of these tags (in any namespace), until the next is asked for.

    `root` names the outermost element; empty: any. InputError: no XML, cut off, entities, beyond the parser's limits.
    """
    from lxml import etree

    inside = 0
    # The parser limits a text's length, depth, and how much entities may grow.
    options = {"resolve_entities": False, "no_network": True, "remove_comments": True, "remove_pis": True}
    events = etree.iterparse(_Pieces(path, reading), ("start", "end"), **options)
    try:
        for event, element in events:
            name = element.tag.rpartition("}")[2]  # `QName` refuses a tag such as ":a", which the parser takes
            wanted = name in tags
            if event == "start":
                if root and element.getparent() is None and name != root:
                    raise InputError(f"{path}:{element.sourceline}: <{name[:40]}> instead of <{root}>")
                inside += wanted
                continue
            inside -= wanted
            if wanted:
                if next(element.iter(etree.Entity), None) is not None:
                    raise InputError(f"{path}:{element.sourceline}: an entity; files that need entities are not read")
                yield element
            if not inside and (parent := element.getparent()) is not None:
                parent.remove(element)
    except etree.XMLSyntaxError as error:
        first = next(iter(events.error_log), None)  # the error itself may know no line
        line, message = (first.line, first.message) if first else (error.lineno, str(error.msg))
        reason = " ".join(message.split())
        raise InputError(f"{path}:{line}: not XML, or cut off ({reason}); copy or download it again") from None
