"""Messages that belong to no reply: talk, tasks, other languages and gibberish."""

from __future__ import annotations

import functools
from importlib.resources import files


@functools.cache
def background() -> tuple[str, ...]:
    """Return the messages, which stand for whatever an index or a classifier has no answer to."""
    text = files("rejoinder.text").joinpath("background.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("# "))
