"""Messages that belong to no reply: talk, tasks, other languages and gibberish."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from importlib.resources import files

FOREIGN = "# Other languages"  # parts of the file: a shop's questions, in other languages
GIBBERISH = "# Gibberish"
ENGLISH_STEP = 33  # so many English messages as there are of each other language
GIBBERISH_STEP = 5


@functools.cache
def background() -> tuple[str, ...]:
    """Return the messages, which stand for whatever an index or a classifier has no answer to."""
    return tuple(text for _, text in _messages("background.txt"))


@functools.cache
def gibberish() -> frozenset[str]:
    """Return those of the messages that are gibberish."""
    return frozenset(
        text for part, text in _messages("background.txt") if part.startswith(GIBBERISH)
    )


@functools.cache
def multilingual_background() -> tuple[str, ...]:
    """Return the messages for a model of many languages: in six of them, and gibberish.

    Each language has about as many, so that none is itself a sign of them. A shop's questions in
    other languages, which an English index has no answer to, are left out.
    """
    others = [text for _, text in _messages("background_languages.txt")]
    by_part = list(_messages("background.txt"))
    english = [text for part, text in by_part if not part.startswith((FOREIGN, GIBBERISH))]
    gibberish = [text for part, text in by_part if part.startswith(GIBBERISH)]
    return (*others, *english[::ENGLISH_STEP], *gibberish[::GIBBERISH_STEP])


def _messages(name: str) -> Iterator[tuple[str, str]]:
    """Yield the messages of a file, each with the heading of its part."""
    part = ""
    for line in files("rejoinder.text").joinpath(name).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            part = line
        elif line:
            yield part, line
