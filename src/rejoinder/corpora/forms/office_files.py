"""Documents of office programs, which are not read: what to save instead."""

from __future__ import annotations

from collections.abc import Collection

from rejoinder.errors import InputError

_PAGE = "save it as a web page (.html) or as plain text (.txt)"
_BY_START = {
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": (
        "an old workbook (.xls, .doc); save it as .xlsx or .csv, a text as .html or .txt"
    ),
    b"%PDF-": "a PDF; save what it was made of, or its text, as .html or .txt",
    b"{\\rtf": f"rich text (.rtf); {_PAGE}",
}
_BY_MEMBER = {
    "word/document.xml": f"a Word document; {_PAGE}",
    "ppt/presentation.xml": "a presentation; save its outline as plain text (.txt)",
    "content.xml": f"an OpenDocument file; save a sheet as .xlsx or .csv; of a text, {_PAGE}",
    "Index/Document.iwa": "a file of Numbers, Pages or Keynote; export it as .csv or .txt",
}


def refuse_document(name: str, data: bytes, members: Collection[str] = ()) -> None:
    """Raise InputError if a file begins, or a zip file has members, as a document does."""
    for start, advice in _BY_START.items():
        if data.startswith(start):
            raise InputError(f"{name} is {advice}")
    for member, advice in _BY_MEMBER.items():
        if member in members:
            raise InputError(f"{name} is {advice}")
