"""Marks of programs, phones and gateways in a mail: lines of their own, and marks among words."""

from __future__ import annotations

from rejoinder.patterns import match_pattern, search_pattern
from rejoinder.text.courtesy import words

MAX_MARK = 120  # letters of a phone's mark

_INVISIBLE = search_pattern("[\u200b\u2060\ufeff\u00ad]")
_MARKS = search_pattern(
    r"\[(?:cid|image|img|ref|logo):[^\]\n]{0,200}\]|\bref:_[^\s:]{1,80}:ref\b"
    r"|<(?:https?://|mailto:)[^>\n]{1,2000}>",
    # names of pictures, marks by which a help desk finds a mail again, targets of links
)
_WARNING = (
    r"(?:(?:this|the) (?:e-?mail|mail|message|sender)\b[^?\n]{0,80}"
    r"\b(?:outside|external|originat\w{1,8})\b|(?:do not|don't|never) (?:click|open)\b"
    r"|(?:be careful|use caution|think)\b)[^?\n]{0,200}"
)
_TAG = r"\[external(?: e-?mail| sender| message)?\][:!.]?"
_TAG_ALONE = "external"
_CAUTION = (
    r"(?:(?:caution|warning|attention)[:!.-]{1,2} ?)?"
    r"(?:external (?:e-?mail|mail|sender|message)[:!.-]{1,2} ?)?"
)
_PROGRAM_LINE = match_pattern(
    r"(?i)(?:get outlook for \w{2,10}.{0,100}"
    r"|(?:von|gesendet von) meinem .{0,40} gesendet.{0,20}"
    r"|#{2,3}-.{0,120}-#{2,3}|-{0,5} ?(?:please )?(?:type|write|reply) your (?:reply|response)"
    r" above this line.{0,20}|(?:please )?reply above this line.{0,20}|virus-free\. .{0,60}"
    r"|this e?-?mail has been (?:scanned|checked) .{0,120}"
    r"|this (?:e-?mail|message) originated (?:from )?outside\b[^?\n]{0,200}"
    rf"|(?:{_TAG}|external (?:e-?mail|mail|sender|message)[:!.]?)"
    rf"|(?:{_TAG} ?)(?:{_CAUTION}{_WARNING})"
    rf"|(?=caution|warning|attention|external){_CAUTION}{_WARNING})"
)
_SENT = match_pattern(r"(?i)sent (?:from|via|with|using|by)\b")
_EXCUSE = search_pattern(
    r"(?i)\b(?:please |kindly )?(?:excuse|forgive|pardon|sorry|apologies)\b[^.!?\n]{0,60}[.!]?$"
)
_DEVICE_WORDS = """
iphone ipad phone smartphone mobile tablet laptop device android ios samsung galaxy outlook gmail
yahoo mail email e-mail proton protonmail windows blackberry app
"""
_AROUND_WORDS = "a all an and for from my new on our the using via with"
_DEVICES = frozenset(_DEVICE_WORDS.split())
_AROUND_DEVICES = frozenset(_AROUND_WORDS.split())


def without_marks(text: str) -> str:
    """Return a text without invisible characters and what programs put between words."""
    if _INVISIBLE.search(text):
        text = _INVISIBLE.sub("", text)
    if "[" in text or "<" in text or "ref:_" in text:
        text = _MARKS.sub(" ", text).strip() or text
    return text


def without_program_lines(lines: list[str]) -> list[str]:
    """Return lines without those that a program, a phone or a gateway wrote.

    "External" alone is a gateway's above a mail, and a word of its sender's elsewhere.
    """
    first = next((number for number, line in enumerate(lines) if line), 0)
    begin = first + 1 if lines[first].lower() == _TAG_ALONE else 0
    return [line for line in lines[begin:] if not is_program_line(line)]


def is_program_line(line: str) -> bool:
    """Return whether a program, a phone or a gateway wrote a line."""
    return _PROGRAM_LINE.fullmatch(line) is not None or _names_device(line)


def _names_device(line: str) -> bool:
    """Return whether a line says on what a mail was written, with excuses or without."""
    start = _SENT.match(line) if len(line) <= MAX_MARK else None
    if start is None or "?" in line or "i" in words(line):
        return False
    excuse = _EXCUSE.search(line)
    listed = line[start.end() : excuse.start() if excuse else None].split()
    named = [word.strip(",.;:!()-") for word in listed]
    return any(word.lower() in _DEVICES for word in named) and all(
        not word[:1].islower() or word.lower() in _DEVICES or word in _AROUND_DEVICES
        for word in named
    )
