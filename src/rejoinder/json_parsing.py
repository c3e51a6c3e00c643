"""JSON that somebody else wrote, parsed with one kind of error."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def parse_json(
    text: str | bytes, object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """Parse JSON; anything wrong with it, even nesting too deep for Python, is a ValueError."""
    try:
        return json.loads(text, object_pairs_hook=object_pairs_hook)
    except RecursionError:
        raise ValueError("nested too deep") from None
