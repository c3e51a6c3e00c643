"""Wikitext to plain text: the prose of an article.

Markup, templates, tables, lists, notes and headings are left out, in time linear in the length of
the text, whatever it holds. (mwparserfromhell, which builds the tree of a page, takes twelve times
as long for an article, and hours for 100 kB of unclosed tags.) Templates are not expanded.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection

from rejoinder.patterns import match_pattern, search_pattern

MAX_NESTING = 100  # of links, templates and tables; MediaWiki itself stops at 40 templates
_TOKEN = search_pattern(
    r"""(?P<comment><!--)
      | (?P<open>\{\{|\[\[|^[ \t:]*+\{\|)
      | (?P<close>\}\}|\]\]|^[ \t]*+\|\}(?!\}))
      | <(?P<slash>/?)(?P<tag>[A-Za-z][A-Za-z0-9]*+)(?P<rest>[^<>]*+)>""",
    re.VERBOSE | re.MULTILINE,
)
_NAME = {"{{": "{{", "}}": "{{", "[[": "[[", "]]": "[[", "{|": "{|", "|}": "{|"}
# Tags whose content is not prose; it is not parsed either.
_NO_PROSE = frozenset(
    """ref references math chem ce gallery imagemap timeline score hiero graph mapframe maplink
    templatedata syntaxhighlight source pre style""".split()  # noqa: SIM905
)
_ENDS = {
    "-->": search_pattern("-->"),
    **{
        f"</{tag}": search_pattern(rf"</{tag}\b[^>]*+>?", re.IGNORECASE)
        for tag in sorted(_NO_PROSE)
    },
}
_EXTERNAL = search_pattern(r"\[(?:https?:|ftp:|mailto:)?+//[^\s\[\]]*+\s*+([^\[\]]*+)\]")
_EMPHASIS = search_pattern(r"''++")
_SWITCH = search_pattern(r"__[A-Z]++__")
_AFTER_BRACKET = search_pattern(r"\([\s,;:]++")
_SPACE_BEFORE = search_pattern(r"(?<=\S) ([,.;:)])")
_LANGUAGE = match_pattern(r"[a-z]{2,3}(?:-[a-z]{2,8})?")
_NOT_PROSE = (*"*#:;=|!{}", "----")  # how a line of a list, heading, table or rule begins


class NestingError(ValueError):
    """Markup that is nested deeper than any article's."""


def paragraphs(text: str, media: Collection[str] = ("file", "image", "category")) -> list[str]:
    """Return an article's paragraphs; `media`: lower-cased namespaces whose links show no text."""
    lines = (_clean(line) for line in _without_markup(text, media).split("\n"))
    return [line for line in lines if line]


def _without_markup(text: str, media: Collection[str]) -> str:
    """Return a text without comments, templates, tables, references and media."""
    out: list[str] = []
    opened: list[tuple[str, int]] = []  # what is open, and how long `out` was before it
    unended: set[str] = set()  # tags that are never closed from here on: not looked for twice
    position = 0
    while match := _TOKEN.search(text, position):
        out.append(text[position : match.start()])
        position = match.end()
        if match["comment"]:
            position = _after(text, "-->", position, unended)
        elif match["open"]:
            if len(opened) == MAX_NESTING:
                raise NestingError(f"links, templates and tables nested deeper than {MAX_NESTING}")
            opened.append((_NAME[match["open"][-2:]], len(out)))
        elif match["close"]:
            _close_markup(_NAME[match["close"][-2:]], opened, out, media)
        else:
            tag = match["tag"].lower()
            is_opened = not match["slash"] and not match["rest"].endswith("/")
            if tag in _NO_PROSE and is_opened:
                position = _after(text, f"</{tag}", position, unended)
            elif tag in ("br", "p", "div", "li", "tr"):
                out.append(" ")
    return "".join((*out, text[position:]))


def _after(text: str, end: str, position: int, unended: set[str]) -> int:
    """Return where the text goes on after `end` (and its tag); `position` if it never comes."""
    if end in unended:
        return position
    if match := _ENDS[end].search(text, position):
        return match.end()
    unended.add(end)
    return position


def _close_markup(
    name: str, opened: list[tuple[str, int]], out: list[str], media: Collection[str]
) -> None:
    """Close the newest `name` and all that was opened in it; leave out the end of nothing."""
    if all(name != other for other, _ in opened):
        return
    while True:
        other, start = opened.pop()
        if other == name:
            break
    target, bar, shown = "".join(out[start:] if name == "[[" else ()).partition("|")
    del out[start:]
    space, colon, _ = target.partition(":")
    space = space.strip()
    # Of `[[target|text]]` the text stays, of a link to a file, category or language nothing.
    is_media = space.lower().replace("_", " ") in media
    is_language = not bar and _LANGUAGE.fullmatch(space)
    if not colon or not (is_media or is_language):
        out.append(shown.rpartition("|")[2] if bar else target.removeprefix(":"))


def _clean(line: str) -> str:
    """Return a line without what is left of its markup; nothing if it is not prose."""
    line = line.strip()
    if line.startswith(_NOT_PROSE):
        return ""
    line = _EMPHASIS.sub("", _EXTERNAL.sub(r"\1", _SWITCH.sub("", line)))
    line = " ".join(_AFTER_BRACKET.sub("(", html.unescape(line)).replace("()", "").split())
    return _SPACE_BEFORE.sub(r"\1", line) if any(map(str.isalpha, line)) else ""
