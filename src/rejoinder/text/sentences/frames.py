"""Removal of what stands around a sentence: quotes, bullets, labels, stamps, mentions."""

from __future__ import annotations

from rejoinder.patterns import match_pattern

_MENTION = r"(?:<@[^\s<>]{1,40}>|@[\w.-]{1,40})[,:]?"  # of the account that is written to
_ITEM = r"(?:[-*+\u2022\u00b7\u25aa\u25e6\u2023\u2013\u2014]|\d{1,2}[.)](?=\s++[^\s\d]))"
_LABEL = (
    r"(?i:(?:my )?(?:q|question|query|subject|re|fwd?|topic|title|message|comment|request"
    r"|inquiry|enquiry|issue|problem|description|customer|user|client|visitor|guest"
    r"|(?:ticket|case|ref|reference)(?: no\.?| number)?)(?: ?#?[\w-]{0,20}\d)?:)"
)
_BRACKETED = r"\[[^\[\]\n]{1,40}\](?: [A-Z]\w{1,20}:)?"  # "[EXTERNAL]", "[12:03] Kim:"
_BEFORE = rf"(?:{_MENTION}|{_ITEM}|{_LABEL}|{_BRACKETED})\s++"
_FRONT = match_pattern(rf"(?:{_BEFORE}|(?:\.{{2,}}+|\u2026)\s*+)++(?=\S)")
_PAIRS = {
    '"': '"',
    "'": "'",
    "`": "`",
    "*": "*",
    "_": "_",
    "(": ")",
    "[": "]",
    "\u201c": "\u201d",
    "\u201e": "\u201c",
    "\u2018": "\u2019",
    "\u00ab": "\u00bb",
}
_MARKS = ".!?"


def without_frame(sentence: str) -> str:
    """Return a sentence without what is only set before it or around it.

    >>> without_frame("@support 1. *Question: where is my parcel?*")
    'where is my parcel?'
    """
    inner = sentence
    while True:
        front = _FRONT.match(inner)
        shorter = _without_pair(inner[front.end() :] if front else inner)
        if shorter == inner:
            return inner
        inner = shorter


def _without_pair(text: str) -> str:
    """Return what stands between two marks that belong together and have none between them."""
    closing = _PAIRS.get(text[:1])
    end = text.rstrip(_MARKS)
    if closing is None or len(end) < 3 or not end.endswith(closing):
        return text
    inner = end[1:-1]
    if closing in inner or text[0] in inner:
        return text
    return inner.strip() + text[len(end) :]
