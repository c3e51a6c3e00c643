"""Messages that belong to no reply: talk, tasks, other languages and gibberish."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from importlib.resources import files

FOREIGN = "# Other languages"  # the part of the file that a multilingual model understands
ENGLISH_STEP = 4  # of the English messages a multilingual model gets every fourth


@functools.cache
def background() -> tuple[str, ...]:
    """Return the messages, which stand for whatever an index or a classifier has no answer to."""
    return tuple(text for _, text in _messages("background.txt"))


@functools.cache
def multilingual_background() -> tuple[str, ...]:
    """Return the messages for a model of many languages: in six of them, and gibberish.

    A shop's questions in other languages, which an English index has no answer to, are left out.
    """
    english = [
        text for part, text in _messages("background.txt") if not part.startswith(FOREIGN)
    ]
    others = [text for _, text in _messages("background_languages.txt")]
    return (*others, *itertools.islice(english, 0, None, ENGLISH_STEP))


def _messages(name: str) -> Iterator[tuple[str, str]]:
    """Yield the messages of a file, each with the heading of its part."""
    part = ""
    for line in files("rejoinder.text").joinpath(name).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            part = line
        elif line:
            yield part, line
