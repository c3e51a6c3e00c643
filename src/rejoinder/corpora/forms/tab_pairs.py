"""Lines of two texts with a tab between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rejoinder.corpora.lines import Reading, open_lines


def tab_pairs(path: str | Path, reading: Reading, wanted: str) -> Iterator[tuple[str, str]]:
    """Yield the texts before and after a line's first tab; `wanted` describes a good line."""
    for number, line in open_lines(path, reading):
        name, _, rest = (part.strip() for part in line.partition("\t"))
        if name and rest:
            yield name, rest
        elif line.strip():
            reading.bad_line(path, number, wanted)
