"""Hints of what an index can answer: a message to try, and values of fields that exist."""

from __future__ import annotations

import difflib
import itertools
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rejoinder.corpora.schema import Candidate
    from rejoinder.retrieval.reader import IndexReader

_LOOKED_AT = 100  # replies among which a message to try is looked for
_LONGEST = 60  # characters of a message to try, and of a value
_VALUES_OF = 10_000  # replies whose values are told
_SHOWN = 8  # values
GREETING = "How are you?"


def message_to_try(index: IndexReader) -> str:
    """Return a message that an index should answer: one of its examples or titles.

    Learned examples are left out, since customers wrote them. Without examples and titles, it is a
    greeting.
    """
    replies = [reply for _, reply in itertools.islice(index.candidates(), _LOOKED_AT)]
    for texts in (map(_examples, replies), ([reply.title] for reply in replies)):
        for text in itertools.chain.from_iterable(texts):
            if 0 < len(text) <= _LONGEST and text.isprintable():
                return text
    return GREETING


def _examples(reply: Candidate) -> list[str]:
    return [example[0] for example in reply.examples if len(example) == 1]


def try_line(index: str, message: str, options: str = "") -> str:
    """Return a line with a command to try, as a shell reads it."""
    quoted = f'"{message}"' if message == GREETING else shlex.quote(message)
    return f"Try: rejoinder reply {shlex.quote(index)} {quoted}{options}"


def why_none_pass(index: IndexReader, where: Mapping[str, Sequence[str]] | None) -> str | None:
    """Return which condition of --where no reply has, with values that exist; None: some pass."""
    if where is None or index.count(where):
        return None
    conditions = {name: f"{name}={','.join(wanted)}" for name, wanted in where.items()}
    for name, wanted in where.items():
        if not index.count({name: wanted}):
            values = _values(index, name, wanted[0])
            return f"no reply passes --where {conditions[name]}; values of {name}: {values}"
    return f"no reply passes --where {' and '.join(conditions.values())} together"


def _values(index: IndexReader, name: str, wanted: str) -> str:
    """Return in words which values a field has, those that are spelled alike first."""
    from rejoinder.stores.segments import value_texts

    counts: Counter[str] = Counter()
    for _, reply in itertools.islice(index.candidates(), _VALUES_OF):
        counts.update(value_texts(reply.payload[name]) if name in reply.payload else ())
    alike = difflib.get_close_matches(wanted, counts, _SHOWN)
    values = list(dict.fromkeys([*alike, *(value for value, _ in counts.most_common())]))
    more = f" and {len(values) - _SHOWN:,} others" if len(values) > _SHOWN else ""
    return f"{', '.join(value[:_LONGEST] for value in values[:_SHOWN])}{more}"
