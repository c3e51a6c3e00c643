"""Markdown as HTML, by markdown-it. What is no tag of HTML stays as text: "Hi <name>"."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from rejoinder.corpora.limits import MAX_BRACKETS
from rejoinder.html_text import is_tag_name
from rejoinder.patterns import search_pattern

_TAG = search_pattern(r"</?([A-Za-z][A-Za-z0-9-]{0,40})[^<>]{0,200}>")


def html_of_markdown(markdown: str, *, breaks: bool = False) -> str:
    """Return Markdown as HTML; with `breaks` its line breaks stay."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True, "breaks": breaks}).enable("table")
    for rule in ("html_inline", "html_block"):
        parser.add_render_rule(rule, _html_as_written)
    return str(parser.render(_few_brackets(markdown)))


def _html_as_written(_: Any, tokens: Sequence[Any], place: int, *__: Any) -> str:
    """Return HTML within Markdown, with other tags as their text: those of placeholders."""
    return _TAG.sub(_text_unless_tag, tokens[place].content)


def _text_unless_tag(match: re.Match[str]) -> str:
    return match[0] if is_tag_name(match[1]) else html.escape(match[0], quote=False)


def _few_brackets(markdown: str) -> str:
    """Escape the brackets of lines that have very many: the parser would try each for a link."""
    lines = markdown.splitlines(keepends=True)
    return "".join(
        line.replace("[", "\\[") if line.count("[") > MAX_BRACKETS else line for line in lines
    )
