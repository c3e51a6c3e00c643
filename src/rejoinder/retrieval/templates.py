"""Canned replies as encoders read them: without the frame that a help desk puts around what they say."""

from __future__ import annotations

import re

PLACEHOLDER = re.compile(
    r"\{\{[^{}]*\}\}|\{%[^%]*%\}|\{[^{}\s][^{}]{0,40}\}|<[A-Za-z_][\w .-]{0,40}>|\[[A-Z][\w .-]{0,40}\]"
    r"|%[A-Za-z_]\w*%|\$\{?[A-Za-z_]\w*\}?"
)
"""What is filled in when a reply is sent: {{x}}, {x}, <x>, [X], %x%, $x."""
_BREAK = re.compile(r"</?(?:p|br|div|li|ul|ol|tr|h[1-6])\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(
    r"</?(?:a|b|i|u|s|em|strong|span|font|img|table|tbody|td|th|hr|code|pre)\b[^<>]*>",
    re.IGNORECASE,
)
_MARKDOWN_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^()\s]*\)")
_MARKDOWN = re.compile(r"(?m)^\s{0,3}(?:#{1,6}|>|[-*+]|\d{1,2}[.)])\s+|\*\*|__|`")
_LINK = re.compile(r"(?:https?://|www\.)\S+")
_GREETING = r"(?:hi|hello|hey|dear|greetings|good (?:morning|afternoon|evening|day))"
_SALUTATION = re.compile(rf"\s*{_GREETING}\b[^.!?\n]{{0,40}}[,.!:]?\s*", re.IGNORECASE)
_GREETED = re.compile(rf"\s*{_GREETING}(?: there)?,?\s*\0[,.!:]?\s+", re.IGNORECASE)
_CLOSING = re.compile(
    r"\s*(?:(?:best|kind|kindest|warm|warmest) (?:regards|wishes)|regards|best|sincerely|cheers|many thanks|"
    r"thanks|thank you|yours(?: \w+)?|all the best)[,.!]?\s*",
    re.IGNORECASE,
)
_PEOPLE = frozenset(
    [
        "name",
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
_LOGIC = frozenset(
    ["if", "else", "elsif", "elif", "endif", "unless", "each", "for", "endfor", "with"]
)
_SIGNATURE_LINES = 5  # at the end, among which the closing is


def plain(text: str) -> str:
    """Return what a canned reply says: without salutation, signature, placeholders, markup and bare links.

    The words of a placeholder that names a thing stay ("order number" of {{order.number}}). A text that is nothing but
    frame comes back as it is.
    """
    linked = _LINK.sub("", _MARKDOWN_LINK.sub(r"\1", text))
    marked = PLACEHOLDER.sub(_placeholder_words, _TAG.sub("", _BREAK.sub("\n", linked)))
    if marked == text and "\n" not in text:
        return text
    marked = _GREETED.sub("", marked, count=1)
    lines = [
        line
        for line in _MARKDOWN.sub("", marked.replace("\0", " ")).splitlines()
        if line.strip(" ,.!:")
    ]
    if len(lines) > 1 and _SALUTATION.fullmatch(lines[0]):
        del lines[0]
    for number in range(max(1, len(lines) - _SIGNATURE_LINES), len(lines)):
        if _CLOSING.fullmatch(lines[number]):
            del lines[number:]
            break
    said = "\n".join(" ".join(line.split()) for line in lines)
    return said or text


def _placeholder_words(match: re.Match[str]) -> str:
    """Return the words of a placeholder that names a thing, else a mark."""
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", match.group()).lower())
    if not words or _LOGIC.intersection(words) or _PEOPLE.intersection(words):
        return "\0"
    return " ".join(words)
