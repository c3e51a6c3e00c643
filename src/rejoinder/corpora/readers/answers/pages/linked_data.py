"""JSON-LD in pages as it is in the wild: what browsers and search engines still read.

Line breaks within texts, commas before a closing bracket, comments and CDATA around the JSON.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

from rejoinder.patterns import search_pattern

_LD_JSON = "application/ld+json"
_TEXT_OR_COMMA = search_pattern(
    r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|,(?=\s*+[\]}])|/\*.{0,200}?\*/', re.DOTALL
)
_AROUND = search_pattern(r"(?://|/\*)?\s{0,9}(?:<!\[CDATA\[|\]\]>|<!--|-->)\s{0,9}(?:\*/)?")


def linked_data(tree: Any, notes: list[str]) -> Iterator[Any]:
    """Yield the values of a page's JSON-LD; note those of an FAQ that cannot be read."""
    for script in tree.iter("script"):
        kind = str(script.get("type") or "").partition(";")[0].strip().lower()
        text = script.text or ""
        if kind != _LD_JSON or not text.strip():
            continue
        try:
            yield parse_leniently(text)
        except ValueError as error:
            if "FAQPage" in text or "Question" in text:
                notes.append(f"schema.org's markup in it is not JSON ({error}) and was not read")


def parse_leniently(text: str) -> Any:
    """Parse JSON with line breaks in texts, commas too many, or comments around it.

    ValueError: it is none all the same.
    """
    ends = (_AROUND.sub("", text[:200]), _AROUND.sub("", text[-200:]))
    bare = f"{ends[0]}{text[200:-200]}{ends[1]}" if len(text) > 400 else _AROUND.sub("", text)
    try:
        return _parse(bare)
    except ValueError as error:
        for mended in (_without_commas(bare), _without_commas(html.unescape(bare))):
            try:
                return _parse(mended)
            except ValueError:
                continue
        raise ValueError(str(error)) from None


def _parse(text: str) -> Any:
    try:
        return json.loads(text.strip().rstrip(";"), strict=False)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _without_commas(text: str) -> str:
    return _TEXT_OR_COMMA.sub(lambda match: match[0] if match[0].startswith('"') else "", text)


def is_of_type(value: dict[str, Any], name: str) -> bool:
    """Return whether an object is of a type of schema.org, however that is written."""
    kinds = value.get("@type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    return any(str(kind).replace(":", "/").rpartition("/")[2] == name for kind in listed)
