"""Wikitext to plain text: the prose of an article, without its markup, templates, tables, lists, notes and headings.

One pass over the tokens of the markup, whose time is linear in the length of the text whatever it holds.
(mwparserfromhell, which builds the tree of a page, takes twelve times as long for an article, and hours for 100 kB of
unclosed tags.) Templates are left out, not expanded: what they would print is not in the article.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection

MAX_DEPTH = 100
"""Most links, templates and tables within each other. MediaWiki itself stops at 40 templates."""

_TOKEN = re.compile(
    r"""(?P<comment><!--)
      | (?P<open>\{\{|\[\[|^[ \t:]*+\{\|)
      | (?P<close>\}\}|\]\]|^[ \t]*+\|\}(?!\}))
      | <(?P<slash>/?)(?P<tag>[A-Za-z][A-Za-z0-9]*+)(?P<rest>[^<>]*+)>""",
    re.VERBOSE | re.MULTILINE,
)
_NAME = {"{{": "{{", "}}": "{{", "[[": "[[", "]]": "[[", "{|": "{|", "|}": "{|"}
_NO_PROSE = frozenset(
    (
        *("ref", "references", "math", "chem", "ce", "gallery", "imagemap", "timeline", "score", "hiero", "graph"),
        *("mapframe", "maplink", "templatedata", "syntaxhighlight", "source", "pre", "style"),
    )
)
"""Tags whose content is no prose; it is not parsed either."""
_EXTERNAL = re.compile(r"\[(?:https?:|ftp:|mailto:)?+//[^\s\[\]]*+\s*+([^\[\]]*+)\]")
_EMPHASIS = re.compile(r"''++")
_SWITCH = re.compile(r"__[A-Z]++__")
_AFTER_BRACKET = re.compile(r"\([\s,;:]++")
_SPACE_BEFORE = re.compile(r"(?<=\S) ([,.;:)])")
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z]{2,8})?")
_NOT_PROSE = (*"*#:;=|!{}", "----")
"""How a line of a list, heading, table or rule begins."""


class NestingError(ValueError):
    """Markup that is nested deeper than any article's."""


def paragraphs(text: str, media: Collection[str] = ("file", "image", "category")) -> list[str]:
    """The paragraphs of an article, each on one line, with single spaces.

    Args:
        text: wikitext.
        media: lower-cased names of the namespaces whose links show no text in place: files and categories.

    Raises:
        NestingError: the markup is nested deeper than `MAX_DEPTH`.
    """
    lines = (_clean(line) for line in _without_markup(text, media).split("\n"))
    return [line for line in lines if line]


def _without_markup(text: str, media: Collection[str]) -> str:
    out: list[str] = []
    opened: list[tuple[str, int]] = []  # what is open, and how long `out` was before it
    unended: set[str] = set()  # tags that are never closed from here on, so that none is looked for twice
    place = 0
    while match := _TOKEN.search(text, place):
        out.append(text[place : match.start()])
        place = match.end()
        if match["comment"]:
            place = _after(text, "-->", place, unended)
        elif match["open"]:
            if len(opened) == MAX_DEPTH:
                raise NestingError(f"links, templates and tables nested deeper than {MAX_DEPTH}")
            opened.append((_NAME[match["open"][-2:]], len(out)))
        elif match["close"]:
            _close(_NAME[match["close"][-2:]], opened, out, media)
        elif match["tag"].lower() in _NO_PROSE and not match["slash"] and not match["rest"].endswith("/"):
            place = _after(text, f"</{match['tag'].lower()}", place, unended)
        elif match["tag"].lower() in ("br", "p", "div", "li", "tr"):
            out.append(" ")
    return "".join((*out, text[place:]))


def _after(text: str, end: str, place: int, unended: set[str]) -> int:
    """Where the text goes on after `end` (and the rest of its tag); at `place` if the end never comes."""
    if end in unended:
        return place
    pattern = rf"{end}\b[^>]*+>?" if end.startswith("<") else end
    found = re.compile(pattern, re.IGNORECASE).search(text, place)
    if found is None:
        unended.add(end)
    return place if found is None else found.end()


def _close(name: str, opened: list[tuple[str, int]], out: list[str], media: Collection[str]) -> None:
    """Close the newest `name`, and what was opened within it and never closed; the end of nothing is left out."""
    if all(name != other for other, _ in opened):
        return
    while True:
        other, start = opened.pop()
        if other == name:
            break
    inside = "".join(out[start:]) if name == "[[" else ""
    del out[start:]
    if name == "[[":
        out.append(link_text(inside, media))


def link_text(inside: str, media: Collection[str]) -> str:
    """What a link shows: of `[[target|text]]` the text, of a link to a file, category or other language nothing.

    >>> link_text("Paris|the capital", ()), link_text("fr:Paris", ()), link_text(":fr:Paris", ())
    ('the capital', '', 'fr:Paris')
    """
    target, bar, shown = inside.partition("|")
    space, colon, _ = target.partition(":")
    space = space.strip()
    if colon and (space.lower().replace("_", " ") in media or (not bar and _LANGUAGE.fullmatch(space))):
        return ""
    return shown.rpartition("|")[2] if bar else target.removeprefix(":")


def _clean(line: str) -> str:
    """A line without what is left of its markup; nothing if it is no prose."""
    line = line.strip()
    if line.startswith(_NOT_PROSE):
        return ""
    line = _EMPHASIS.sub("", _EXTERNAL.sub(r"\1", _SWITCH.sub("", line)))
    line = " ".join(_AFTER_BRACKET.sub("(", html.unescape(line)).replace("()", "").split())
    return _SPACE_BEFORE.sub(r"\1", line) if any(map(str.isalpha, line)) else ""
