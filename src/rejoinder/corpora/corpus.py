"""What the rest needs to know of a corpus: how its files are read, its settings, its licence and its origin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rejoinder.corpora.example import Example, Split
from rejoinder.corpora.lines import Block, Reading

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Input:
    """A file to read."""

    path: Path
    part: Split | None = None
    """The split that all its examples go to, whatever their threads' hashes."""

    @property
    def size(self) -> int:
        """Its bytes; 0 for a pipe, whose size nobody knows."""
        return self.path.stat().st_size if self.path.is_file() else 0


@dataclass(frozen=True)
class NoSettings:
    """Settings of a corpus that has none."""


@dataclass(frozen=True)
class Corpus:
    """A corpus. A new one is one file with one of these, and one entry in `sources`.

    Everything here is data or a pure function at module level, so that a worker process gets it by name.
    """

    name: str
    """What `rejoinder data NAME` calls it."""
    title: str
    """One line: what it is."""
    reads: str
    """One line: the files that it reads, in their published format."""
    licence: str
    """Under which licence the data is, as far as its publisher says."""
    origin: str
    """Where a user gets the files."""
    expected: str = ""
    """Counts that the source publishes, to compare with; empty if it publishes none."""
    read: Callable[[Path, Reading, Any], Iterator[Example]] | None = None
    """(file, reading, settings) -> the file's examples, in its order. Raises `InputError`; a bad line goes to
    `Reading.bad_line`, a record that the corpus' own rules leave out to `Reading.drop`."""
    scatter: Callable[[Block, Reading, Any], pa.RecordBatch] | None = None
    """For a corpus whose threads are scattered over its files, instead of `read`: (block, reading, settings) -> a
    record of each line that counts, as columns without nulls; the first is the name of the thread. All records of a
    thread meet again in one call of `assemble`."""
    assemble: Callable[[pa.RecordBatch, Reading, Any], Iterator[pa.RecordBatch]] | None = None
    """With `scatter`: (records of many whole threads in the order of the input, reading, settings) -> examples, some
    thousands at a time (`examples.BASE_SCHEMA`), in an order that follows from the records alone."""
    packaged: Callable[[], Path] | None = None
    """For a corpus that comes in a package: finds its file, which `read` then reads; the user names no inputs. Raises
    `MissingExtraError`."""
    split: Callable[[Example, Any], Split] | None = None
    """(example, settings) -> its part, for a corpus that is not split by `split_of`; all examples of a thread get the
    same one. A part that the user names for a file comes first."""
    settings: type = NoSettings
    """A frozen dataclass: each field has a default and, below it, a line of documentation; `__post_init__` raises
    InputError for a wrong combination. `--set name=value` sets a field."""
