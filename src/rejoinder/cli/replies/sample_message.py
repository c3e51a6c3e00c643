"""A message that an index should answer, and the command that tries it."""

from __future__ import annotations

import itertools
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rejoinder.corpora.schema import Candidate
    from rejoinder.retrieval.reader import IndexReader

_LOOKED_AT = 100  # replies among which a message is looked for
_LONGEST = 60  # characters of a message
GREETING = "How are you?"


def message_to_try(index: IndexReader) -> str:
    """Return a message that an index should answer: one of its examples or titles.

    Learned examples are left out, since customers wrote them, and so are texts that a command would
    read as an option ("-5 degrees"). Without examples and titles, it is a greeting.
    """
    replies = [reply for _, reply in itertools.islice(index.candidates(), _LOOKED_AT)]
    for texts in (map(_examples, replies), ([reply.title] for reply in replies)):
        for text in itertools.chain.from_iterable(texts):
            if 0 < len(text) <= _LONGEST and text.isprintable() and not text.startswith("-"):
                return text
    return GREETING


def _examples(reply: Candidate) -> list[str]:
    return [example[0] for example in reply.examples if len(example) == 1]


def try_line(index: str, message: str, options: str = "") -> str:
    """Return a line with a command to try, as a shell reads it."""
    return f"Try: rejoinder reply {shlex.quote(index)} {shlex.quote(message)}{options}"
