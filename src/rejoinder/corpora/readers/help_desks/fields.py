"""Texts in the records of help desks: plain, HTML, or either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rejoinder.corpora.json_values import texts_of
from rejoinder.html_text import is_html, text_of_html

_PLAIN = frozenset(("plain_body", "body_text", "description_text"))


def first_text(record: Mapping[str, Any], keys: Iterable[str], *, with_links: bool = False) -> str:
    """Return the first field with a text, of HTML what it shows; see `text_of_html`."""
    for key in keys:
        for text in texts_of([record.get(key)]):
            return _field_text(key, text, with_links=with_links)
    return ""


def _field_text(key: str, text: str, *, with_links: bool) -> str:
    if key in _PLAIN:
        return text.replace("&nbsp;", " ").strip()  # which Zendesk leaves in `plain_body`
    is_marked_up = "html" in key or is_html(text)
    return text_of_html(text, with_links=with_links) if is_marked_up else text.strip()
