"""Canned replies as encoders read them, without the frame that a help desk adds."""

from __future__ import annotations

import html
import re

PLACEHOLDER = re.compile(
    r"\{\{[^{}]*\}\}|\{%[^%]*%\}|<%[^%]*%>|\{[A-Za-z_][\w .-]{0,40}\}|<[A-Za-z_][\w .-]{0,40}>"
    r"|\[[A-Z][\w .-]{0,40}\]"
    r"|%[A-Za-z_]\w*%|\$\{?[A-Za-z_]\w*\}?"
)
"""Placeholders of a reply: {{x}}, {x}, <x>, [X], %x%, $x."""
_BREAK = re.compile(r"</?(?:p|br|div|li|ul|ol|tr|h[1-6])\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"<!--.*?-->|<(script|style)\b.*?</\1>|</?[A-Za-z][^<>]*>", re.DOTALL)
_MARKDOWN_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^()\s]*\)")
_MARKDOWN = re.compile(r"(?m)^[ \t]{0,3}(?:#{1,6}|>|[-*+])[ \t]+|\*\*|__|`")
_NUMBER = re.compile(r"(?m)^[ \t]{0,3}\d{1,2}[.)][ \t]+")  # of a step
_LINK = re.compile(r"(?:https?://|www\.)\S+")
_GREETING = r"(?:hi|hello|hey|dear|greetings|good (?:morning|afternoon|evening|day))"
_SALUTATION = re.compile(rf"\s*{_GREETING}(?:\s+[^\s,.!?:]+){{0,3}}\s*[,!:.]?\s*", re.IGNORECASE)
_GREETED = re.compile(rf"\s*{_GREETING}(?: there)?,?\s*\0[,.!:]?\s+", re.IGNORECASE)
_CLOSING = re.compile(
    r"\s*(?:(?:best|kind|kindest|warm|warmest) (?:regards|wishes)|regards|best|sincerely|cheers|"
    r"many thanks|thanks|thank you|yours(?: \w+)?|all the best)[,.!]?\s*",
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
_SIGNATURE_WORDS = 5


def plain(text: str) -> str:
    """Return what a canned reply says, without its frame.

    That is salutation and signature (in English), placeholders, markup and links.

    The words of a placeholder that names a thing stay ("order number" of {{order.number}}). A text
    that is nothing but frame comes back as it is.
    """
    shown = text
    if "</" in text:
        shown = html.unescape(_TAG.sub("", _BREAK.sub("\n", text)))
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
    said = "\n".join(" ".join(line.split()) for line in lines)
    return said or text


def _is_signature(line: str) -> bool:
    """Return whether a line below a closing may be a name: a few words that are no sentence."""
    return len(line.split()) <= _SIGNATURE_WORDS and not line.rstrip().endswith((".", "!", "?"))


def _placeholder_words(match: re.Match[str]) -> str:
    """Return the words of a placeholder that names a thing, else a mark."""
    if match.group().startswith("["):
        inner = match.group()[1:-1]
        return "\0" if _PEOPLE.intersection(inner.lower().split()) else inner
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", match.group()).lower())
    if not words or _LOGIC.intersection(words) or _PEOPLE.intersection(words):
        return "\0"
    return " ".join(words)
