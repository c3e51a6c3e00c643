"""Canned replies without their frames: what a help desk puts around the words that count.

`curation.frames` finds the frames of chats.
"""

from __future__ import annotations

import html
import re

from rejoinder.patterns import match_pattern, search_pattern
from rejoinder.text.placeholders import PLACEHOLDER

_DIRECTIVE_START = match_pattern(r"[%{][a-z]{2,20}:")
_TAG_END = r"""(?:=\s?"[^"<]*+"|=\s?'[^'<]*+'|[^<>])*+>"""  # quoted values may hold ">"
_BREAK = search_pattern(rf"</?(?:p|br|div|li|ul|ol|tr|h[1-6])\b{_TAG_END}", re.IGNORECASE)
_LONE_TAG = search_pattern(
    r"<(?:p|br|div|li|ul|ol|tr|td|th|h[1-6]|hr|b|i|u|em|strong|span|img|font|small|a)\b"
    rf"{_TAG_END}",
    re.IGNORECASE,
)
_TAG = search_pattern(rf"<!--|<(script|style)\b|</?[A-Za-z]{_TAG_END}")
_OPEN_TAG = match_pattern(rf"<[A-Za-z]{_TAG_END}")
_MARKDOWN_LINK = search_pattern(r"!?\[([^\[\]\n]*+)\]\([^()\s]*+\)")
_MARKDOWN = search_pattern(r"(?m)^[ \t]{0,3}(?:#{1,6}|>|[-*+])[ \t]++|\*\*|__|`")
_NUMBER = search_pattern(r"(?m)^[ \t]{0,3}\d{1,2}[.)][ \t]++")  # of a step
_LINK = search_pattern(r"\(?(?:https?://|www\.)\S+")
_GREETING = r"(?:hi|hello|hey|dear|greetings|good (?:morning|afternoon|evening|day))"
_SALUTATION = match_pattern(
    rf"\s*+{_GREETING}(?:\s++[^\s,.!?:]++){{0,3}}+\s*+[,!:.]?\s*+", re.IGNORECASE
)
_GREETED = search_pattern(rf"(?<!\s)\s*+{_GREETING}(?: there)?,?\s*+\0[,.!:]?\s++", re.IGNORECASE)
_CLOSING = match_pattern(
    r"\s*+(?:(?:best|kind|kindest|warm|warmest) (?:regards|wishes)|regards|best|sincerely|cheers|"
    r"many thanks|thanks|thank you|yours(?: \w++)?|all the best)[,.!]?\s*+",
    re.IGNORECASE,
)
_PEOPLE = frozenset(
    [
        "name",
        "firstname",
        "lastname",
        "fullname",
        "username",
        "vorname",
        "nachname",
        "first",
        "last",
        "full",
        "contact",
        "customer",
        "user",
        "agent",
        "assignee",
        "company",
        "team",
        "ticket",
        "requester",
    ]
)
_LETTERS = search_pattern(r"[a-z]+")
_CAMEL_CASE = search_pattern(r"([a-z])([A-Z])")
_LOGIC = frozenset(
    ["if", "else", "elsif", "elif", "endif", "unless", "each", "for", "endfor", "with"]
)
_SIGNATURE_LINES = 5  # at the end, among which the closing is
_SIGNATURE_WORDS = 5


def plain(text: str) -> str:
    """Return what a canned reply says, without its frame.

    That is salutation and signature (in English), placeholders, markup and links.

    The words of a placeholder that names a thing stay ("order number" of {{order.number}}). A text
    that is nothing but frame comes back as it is.
    """
    shown = text
    if "</" in text:
        shown = html.unescape(_without_tags(_BREAK.sub("\n", text)))
    elif _LONE_TAG.search(text):  # without closing tags: what else is in <> may be a placeholder
        shown = html.unescape(_LONE_TAG.sub(" ", _BREAK.sub("\n", text)))
    linked = _LINK.sub("", _MARKDOWN_LINK.sub(r"\1", shown))
    marked = _MARKDOWN.sub("", PLACEHOLDER.sub(_placeholder_words, linked))
    if marked == text and "\n" not in text:
        return text
    marked = _NUMBER.sub("", marked) if "\n" in marked.strip() else marked
    marked = _GREETED.sub("", marked, count=1).replace("\0", " ")
    lines = [line for line in marked.splitlines() if line.strip(" ,.!:")]
    if lines and _SALUTATION.fullmatch(lines[0]):
        del lines[0]
    for number in range(max(0, len(lines) - _SIGNATURE_LINES), len(lines)):
        if _CLOSING.fullmatch(lines[number]) and all(map(_is_signature, lines[number + 1 :])):
            del lines[number:]
            break
    body = "\n".join(" ".join(line.split()) for line in lines)
    return body or text


def _without_tags(text: str) -> str:
    """Return a text without tags, comments, and what stands in <script> and <style>.

    A comment or script that does not end is text; its end is looked for once.
    """
    pieces = []
    position = 0
    without_end: set[str] = set()
    while match := _TAG.search(text, position):
        pieces.append(text[position : match.start()])
        position = match.end()
        name = match[1]
        end = f"</{name}>" if name else "-->" if match[0] == "<!--" else ""
        if not end:
            continue
        closing = -1 if end in without_end else text.find(end, position)
        if closing >= 0:
            position = closing + len(end)
            continue
        without_end.add(end)
        tag = _OPEN_TAG.match(text, match.start())
        if tag is None:
            pieces.append(match[0])
        else:
            position = tag.end()
    return "".join([*pieces, text[position:]])


def _is_signature(line: str) -> bool:
    """Return whether a line below a closing may be a name: a few words that are not a sentence."""
    return len(line.split()) <= _SIGNATURE_WORDS and not line.rstrip().endswith((".", "!", "?"))


def _placeholder_words(match: re.Match[str]) -> str:
    """Return the words of a placeholder that names a thing, else a mark."""
    if _DIRECTIVE_START.match(match.group()):
        return "\0"
    if match.group().startswith("["):
        inner = match.group().strip("[]")
        return "\0" if _PEOPLE.intersection(inner.lower().split()) else inner
    words = _LETTERS.findall(_CAMEL_CASE.sub(r"\1 \2", match.group()).lower())
    if not words or _LOGIC.intersection(words) or _PEOPLE.intersection(words):
        return "\0"
    return " ".join(words)
