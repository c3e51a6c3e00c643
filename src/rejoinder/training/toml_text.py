"""Writing TOML: the standard library only reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def to_toml(document: Mapping[str, Any], prefix: str = "") -> str:
    """Write nested dictionaries as TOML: plain values first, then tables, then arrays of tables.

    Args:
        document: strings, numbers, booleans, lists of them, dictionaries, lists of dictionaries; no None.
        prefix: name of the table that the document is in, with a dot at its end; empty at the top.
    """
    plain = [f"{_key(key)} = {toml_value(value)}" for key, value in document.items() if not holds_tables(value)]
    parts = ["\n".join(plain)] if plain else []
    for key, value in document.items():
        name = prefix + _key(key)
        if isinstance(value, Mapping):
            parts.append(f"[{name}]\n" + to_toml(value, f"{name}."))
        elif holds_tables(value):
            parts += [f"[[{name}]]\n" + to_toml(item, f"{name}.") for item in value]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def toml_value(value: object) -> str:
    """One value in TOML's syntax."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # Strings, numbers and booleans are written as in JSON, but for one control character that JSON leaves bare.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def holds_tables(value: object) -> bool:
    """Whether the value is a table, or a list of nothing but tables."""
    many = isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(item, Mapping) for item in value)
    return isinstance(value, Mapping) or many


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)
