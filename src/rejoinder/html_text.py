"""The text of HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rejoinder.patterns import search_pattern

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_BLOCKS = frozenset(
    """address article aside blockquote br dd details div dl dt fieldset figure footer form h1 h2 h3
    h4 h5 h6 header hr li main nav ol p pre section summary table td th tr ul""".split()  # noqa: SIM905
)

_UNSEEN = frozenset(("script", "style", "head", "template", "noscript", "title", "svg"))

_CONTROL = search_pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # that XML has not

_SPACES = search_pattern(r"\s+")

_TAG = search_pattern(r"</?[a-zA-Z][^<>]*>|&(?:[a-zA-Z]{2,8}|#\d{1,6});")


_MARKUP = search_pattern(
    r"(?i)<(?:html|body|p|div|br|span|blockquote)(?:\s[^<>]*)?/?>|</(?:a|b|i|u|em|strong|font|li"
    r"|h[1-6]|pre|t[dr])\s?>"
)  # of mails and chats


def is_html(text: str) -> bool:
    """Return whether a message has marks of HTML."""
    return "<" in text and _MARKUP.search(text) is not None


def parse_html(text: str) -> HtmlElement | None:
    """Return the tree of HTML; None if there is nothing in it."""
    from lxml import etree, html

    parser = html.HTMLParser(encoding="utf-8", no_network=True)
    text = _CONTROL.sub(" ", text)
    try:
        return html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return None


def text_of_html(text: str) -> str:
    """Return the text of HTML; text without tags stays as it is."""
    if not _TAG.search(text):
        return text.strip()
    tree = parse_html(text)
    return "" if tree is None else text_of_element(tree)


def text_of_element(element: Any) -> str:
    """Return the text that an element shows, without what is hidden."""
    pieces: list[str] = []
    stack: list[Any] = [element]
    while stack:  # and no recursion: documents may be nested deep
        node = stack.pop()
        if isinstance(node, str):
            pieces.append(node)
            continue
        if not isinstance(node.tag, str) or node.tag in _UNSEEN:
            continue
        edge = "\n" if node.tag in _BLOCKS else ""
        children: list[Any] = [edge + _SPACES.sub(" ", node.text or "")]
        for child in node:
            children += [child, _SPACES.sub(" ", child.tail or "")]
        stack += reversed([*children, edge])
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)
