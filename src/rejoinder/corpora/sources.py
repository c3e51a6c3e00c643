"""What examples can be built from: each source by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rejoinder.corpora.chitchat import read_chitchat
from rejoinder.corpora.csv_pairs import read_csv
from rejoinder.corpora.example import Example
from rejoinder.corpora.jsonl import read_jsonl
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError

FILE_SOURCES: dict[str, Callable[[str | Path, Reading | None], Iterator[Example]]] = {
    "jsonl": read_jsonl,
    "csv": read_csv,
}
"""Sources that read files of the user."""
PACKAGED_SOURCES: dict[str, Callable[[Reading | None], Iterator[Example]]] = {"chitchat": read_chitchat}
"""Sources that bring their own data."""
SOURCES = (*PACKAGED_SOURCES, *FILE_SOURCES)


def check_source(source: str, inputs: Sequence[str | Path]) -> None:
    """Refuse a source that is not known, or inputs that do not fit it or are not there, before any work.

    Raises:
        InputError: says which.
    """
    if source not in SOURCES:
        raise InputError(f"no source {source!r}; there are {', '.join(SOURCES)}")
    if source in PACKAGED_SOURCES and inputs:
        raise InputError(f"{source} brings its own data; leave {inputs[0]} out")
    if source in FILE_SOURCES and not inputs:
        raise InputError(f"{source} reads files; name at least one")
    for path in map(Path, inputs):
        if not path.exists():
            raise InputError(f"{path} does not exist; check the name")


def read_source(source: str, inputs: Sequence[str | Path], reading: Reading) -> Iterator[Example]:
    """Read the examples of a source, file after file.

    Raises:
        InputError: a fault of the source, a file or a line.
    """
    check_source(source, inputs)
    if source in PACKAGED_SOURCES:
        yield from PACKAGED_SOURCES[source](reading)
    for path in inputs:
        yield from FILE_SOURCES[source](path, reading)
