"""Accordions of a page: what opens the text that follows it, as buttons, links and labels do.

An opener names what it opens (`aria-controls`, Bootstrap's `data-bs-target`, `href="#..."`), or
opens the element behind it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from rejoinder.corpora.readers.answers.texts.marks import asks
from rejoinder.html_text import text_of_element

_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6", "dt", "summary"))
_BUTTONS = "//button | //*[@role='button'] | //label[@for] | //a[@data-toggle or @data-bs-toggle]"
_TARGETS = ("aria-controls", "data-bs-target", "data-target", "href")
_OPENED = frozenset(("div", "section", "article", "p", "ul", "ol"))  # by what names nothing
_ICONS = (
    " +-\u2212\u2013\u2014\u00d7\u203a\u00bb\u25b2\u25b6\u25b8\u25bc\u25be\u2304\u2715\u276f\uff0b"
)
_LEAST = 2  # openers of a kind
_LEAST_ASKING = 0.5  # of them
_MOST_BETWEEN = 8  # elements without a text, or around it, between an opener and what it opens


def tidy_buttons(tree: Any) -> list[Any]:
    """Remove the buttons of a page but for those of headings; return what opens accordions.

    Openers are left with their text, without icons. A heading that is a button whole opens what is
    below it as any heading does.
    """
    places = {node.get("id"): node for node in reversed(tree.xpath("//*[@id]"))}
    lines: dict[Any, str] = {}  # of headings
    loose = [node for node in tree.xpath(_BUTTONS) if not _is_heading(node, lines)]
    kinds: dict[tuple[str, str], list[Any]] = {}
    for node in loose:
        if _opens_what_follows(node, places):
            kinds.setdefault(_kind_of(node), []).append(node)
    openers = [node for nodes in kinds.values() if _are_asking(nodes) for node in nodes]
    opening = set(openers)
    for node in loose:
        if node in opening:
            node.text = _shown(node)
            for child in list(node):
                node.remove(child)
        elif node.tag == "button":
            node.drop_tree()
    return openers


def _is_heading(node: Any, lines: dict[Any, str]) -> bool:
    """Return whether a button is all of a heading; `lines` keeps the texts of headings."""
    outer = next((above for above in node.iterancestors() if above.tag in _HEADINGS), None)
    if outer is None:
        return False
    if outer not in lines:
        lines[outer] = _line_of(outer)
    return lines[outer] == _line_of(node)


def _opens_what_follows(node: Any, places: Mapping[str, Any]) -> bool:
    """Return whether what a button opens is the next text; `places` are the elements with an id."""
    behind = _element_behind(node)
    if behind is None:
        return False
    named = _named_by(node, places)
    if named is not None:
        return behind in (named, *named.iterancestors())
    return node.tag != "a" and behind.tag in _OPENED


def _element_behind(node: Any) -> Any:
    """Return the next element with a text, if no other text is before it."""
    for element in (node, *itertools.islice(node.iterancestors(), _MOST_BETWEEN)):
        if (element.tail or "").strip():
            return None
        for behind in itertools.islice(element.itersiblings(), _MOST_BETWEEN):
            if any(text.strip() for text in behind.itertext()):
                return behind
            if (behind.tail or "").strip():
                return None
    return None


def _named_by(node: Any, places: Mapping[str, Any]) -> Any:
    """Return the element that a button names; None: it names none."""
    for attribute in _TARGETS:
        name = (node.get(attribute) or "").strip()
        is_name = name.startswith("#") or attribute == "aria-controls"
        if is_name and (place := places.get(name.removeprefix("#"))) is not None:
            return place
    return None


def _kind_of(node: Any) -> tuple[str, str]:
    """Return what openers of one kind share: their tag and their first class."""
    return node.tag, (node.get("class") or "").split(" ", 1)[0]


def _are_asking(nodes: Sequence[Any]) -> bool:
    """Return whether buttons of one kind are several, and enough of them questions."""
    asking = sum(asks(_shown(node)) for node in nodes)
    return len(nodes) >= _LEAST and asking >= _LEAST_ASKING * len(nodes)


def _shown(node: Any) -> str:
    """Return the text of an opener, without icons such as "+" and arrows."""
    return _line_of(node).strip(_ICONS)


def _line_of(node: Any) -> str:
    """Return the text of an element in one line."""
    return " ".join(text_of_element(node).split())
