"""Conditions of --where that no reply passes, and the values that fields have."""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rejoinder.retrieval.reader import IndexReader

_LONGEST = 60  # characters of a value
_VALUES_OF = 10_000  # replies whose values are told
_SHOWN = 8  # values


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
