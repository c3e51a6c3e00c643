"""What an index is made from: replies with whatever belongs to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Candidate:
    """A reply to choose from.

    Attributes:
        text: what is said.
        payload: whatever else came with it (an identifier, a category, ...), of JSON types; comes back with the reply.
    """

    text: str
    payload: Mapping[str, Any] = field(default_factory=dict)


def distinct(candidates: Iterable[Candidate], known: Iterable[str] = ()) -> Iterator[Candidate]:
    """The first of candidates with equal texts, and none whose text is known already."""
    seen = set(known)
    for candidate in candidates:
        if candidate.text not in seen:
            seen.add(candidate.text)
            yield candidate
