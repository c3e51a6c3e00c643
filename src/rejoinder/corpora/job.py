"""A job: one corpus, its settings, and how its files are read; what every task of it must know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.deduplication import pair_digest
from rejoinder.corpora.example import Example, Split
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.splits import split_of


@dataclass(frozen=True)
class Input:
    """A file to read."""

    path: Path
    part: Split | None = None
    """The split that all its examples go to, whatever their threads' hashes."""


@dataclass(frozen=True)
class Job:
    """What all tasks of a job have in common. Workers get it by pickling."""

    corpus: Corpus
    settings: Any
    """An instance of `corpus.settings`."""
    folder: Path
    """The work folder."""
    history: int = 10
    skip_bad: bool = False
    max_bad: int | None = None
    limit: int | None = None
    """How many distinct examples are enough."""

    def reading(self, part: Split | None = None, on_bytes: Callable[[int], object] | None = None) -> Reading:
        """A reading for one task."""
        return Reading(self.skip_bad, self.history, part, on_bytes, max_bad=self.max_bad)

    def until_enough(self, examples: Iterable[tuple[Split, Example]]) -> Iterator[tuple[Split, Example]]:
        """The examples until so many distinct ones came as the limit says; all of them without a limit."""
        if self.limit is None:
            yield from examples
            return
        seen = set()
        for split, example in examples:
            yield split, example
            seen.add(pair_digest(example))
            if len(seen) == self.limit:
                return


def placed(example: Example, part: Split | None) -> tuple[Split, Example]:
    """An example with its split: the given part, or the one that its thread's hash says."""
    return part or split_of(example.thread), example
