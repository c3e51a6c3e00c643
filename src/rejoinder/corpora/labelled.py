"""Texts with a category each, from CSV: customers' questions with their intents, say (BANKING77's own form)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rejoinder.corpora.csv_pairs import csv_rows
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError

TEXTS = ("text", "question", "utterance")
CATEGORIES = ("category", "label", "intent")


@dataclass(frozen=True)
class Labelled:
    """n texts and the category of each."""

    texts: tuple[str, ...]
    categories: tuple[str, ...]

    def frequent(self, count: int) -> list[str]:
        """The categories with the most texts, equal ones in the order in which they come."""
        return [name for name, _ in Counter(self.categories).most_common(count)]

    def of(self, names: Sequence[str]) -> Labelled:
        """The texts of these categories.

        Raises:
            InputError: no text has one of them.
        """
        known = dict.fromkeys(self.categories)
        for name in names:
            if name not in known:
                raise InputError(f"there is no category '{name}'; there are {', '.join(known)}")
        return self._rows([place for place, name in enumerate(self.categories) if name in names])

    def sample(self, limit: int, seed: int) -> Labelled:
        """At most `limit` texts, each equally likely, in their order."""
        count = len(self.texts)
        return self if count <= limit else self._rows(sorted(random.Random(seed).sample(range(count), limit)))

    def _rows(self, places: Sequence[int]) -> Labelled:
        return Labelled(tuple(self.texts[i] for i in places), tuple(self.categories[i] for i in places))


def read_labelled(path: str | Path) -> Labelled:
    """Read a CSV file, compressed or not, whose first row names a column of texts and one of categories.

    Raises:
        InputError: with file and line: no such columns, or a row without a text or category.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; give a CSV file with the columns text and category")
    rows = csv_rows(path, Reading())
    header = next(rows, (1, []))[1]
    text, category = (_column(header, names, path) for names in (TEXTS, CATEGORIES))
    found: list[tuple[str, str]] = []
    for line, row in rows:
        if len(row) != len(header) or not row[text].strip() or not row[category].strip():
            raise InputError(f"{path}:{line}: a row has {len(header)} cells, a text and its category among them")
        found.append((row[text], row[category].strip()))
    if not found:
        raise InputError(f"{path} holds no texts; a row has a text and its category")
    texts, categories = zip(*found, strict=True)
    return Labelled(texts, categories)


def _column(header: Sequence[str], names: Sequence[str], path: Path) -> int:
    there = [cell.strip().lower() for cell in header]
    for name in names:
        if name in there:
            return there.index(name)
    raise InputError(f"{path}: no column {' or '.join(names)} in its first row: {', '.join(there)[:80]}")
