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

_TITLES = frozenset("h1 h2 h3 h4 h5 h6 button dt label summary th".split())  # noqa: SIM905
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


def is_tag_name(name: str) -> bool:
    """Return whether HTML has tags of this name: "<name>" is a placeholder."""
    from lxml.html import defs

    name = name.lower()
    return name in defs.tags or name in ("main", "template")


def parse_html(text: str) -> HtmlElement | None:
    """Return the tree of HTML; None if there is nothing in it."""
    from lxml import etree, html

    parser = html.HTMLParser(encoding="utf-8", no_network=True)
    text = _CONTROL.sub(" ", text)
    try:
        return html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return None


def text_of_html(text: str, *, quote_mark: str = "", with_links: bool = False) -> str:
    """Return the text of HTML; text without tags stays as it is.

    Lines of block quotes begin with `quote_mark`, such as "> " in mails. `with_links`, as of a
    reply that is sent as text: behind a link stands where it leads.
    """
    if not _TAG.search(text):
        return text.strip()
    tree = parse_html(text)
    if tree is None:
        return ""
    if with_links:
        write_out_links(tree)
    return text_of_element(tree, quote_mark=quote_mark)


def write_out_links(tree: HtmlElement) -> None:
    """Write the address of each link of a tree behind its text: "here (https://shop.example)".

    Links without an address of their own ("/returns"), those whose text has it, and those that are
    a question or part of a title stay as they are.
    """
    for link in tree.iter("a"):
        address = _address_of(link)
        shown = "".join(link.itertext()).strip()
        if not address or not shown or shown.endswith("?"):
            continue
        is_shown = address.split("://")[-1].rstrip("/") in shown
        if not is_shown and _TITLES.isdisjoint(node.tag for node in link.iterancestors()):
            link.tail = f" ({address}){link.tail or ''}"


def _address_of(link: HtmlElement) -> str:
    """Return the page, the mail address or the number to which a link leads; "": to none."""
    target = (link.get("href") or "").strip()
    scheme, _, rest = target.partition(":")
    if scheme.lower() in ("mailto", "tel"):
        return rest.partition("?")[0]
    return target if scheme.lower() in ("http", "https") and rest.strip("/") else ""


def text_of_element(element: Any, *, quote_mark: str = "") -> str:
    """Return the text that an element shows, without what is hidden.

    Lines of block quotes, also of those within each other, begin with `quote_mark`.
    """
    pieces: list[str] = []
    stack: list[Any] = [(element, "")]
    while stack:  # and no recursion: documents may be nested deep
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        node, outer = item
        if not isinstance(node.tag, str) or node.tag in _UNSEEN:
            continue
        is_block = node.tag in _BLOCKS
        inner = quote_mark if node.tag == "blockquote" else outer
        start = f"\n{inner}" if is_block else ""
        end = f"\n{outer}" if is_block else ""
        children: list[Any] = [start + _SPACES.sub(" ", node.text or "")]
        for child in node:
            children += [(child, inner), _SPACES.sub(" ", child.tail or "")]
        stack += reversed([*children, end])
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line not in ("", quote_mark.strip()))
