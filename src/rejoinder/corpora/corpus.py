"""What the rest needs to know of a corpus: how its files are read, its settings, its licence and its origin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rejoinder.corpora.example import Example, Split, thread_share
from rejoinder.corpora.lines import Block, Reading
from rejoinder.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Input:
    """A file to read."""

    path: Path
    part: Split | None = None  # the split that all its examples go to, whatever their threads' hashes

    @property
    def size(self) -> int:
        """Its bytes; 0 for a pipe, whose size nobody knows."""
        return self.path.stat().st_size if self.path.is_file() else 0


@dataclass(frozen=True)
class NoSettings:
    """Settings of a corpus that has none."""


@dataclass(frozen=True)
class Shares:
    """Settings of a corpus whose parts may have other shares than those of `split_of`."""

    valid_share: float = 0.02
    """Share of the threads that are for validation."""
    test_share: float = 0.1
    """Share of the threads that are for testing."""

    def __post_init__(self) -> None:
        if not (self.valid_share >= 0 and self.test_share >= 0 and self.valid_share + self.test_share < 1):
            wanted = "must be 0 or more and leave something for training"
            raise InputError(f"valid_share and test_share {wanted}, not {self.valid_share} and {self.test_share}")


def split_by_shares(thread: str, settings: Shares) -> Split:
    """Return the part of a thread: as `split_of`, with the shares of the settings."""
    left = 1 - thread_share(thread)
    if left < settings.test_share:
        return "test"
    return "valid" if left < settings.test_share + settings.valid_share else "train"


@dataclass(frozen=True)
class Corpus:
    """A corpus: data and pure functions at module level, which a worker process gets by name.

    A corpus has `read`, or, where its threads are scattered over its files, `scatter` and `assemble`.
    """

    name: str  # what `rejoinder data NAME` calls it
    title: str  # one line: what it is
    reads: str  # one line: the files that it reads, in their published format
    licence: str  # under which licence the data is, as far as its publisher says
    origin: str  # where a user gets the files
    expected: str = ""  # counts that the source publishes, to compare with; empty if it publishes none
    # (file, reading, settings) -> the file's examples, in its order. Raises InputError; a bad line goes to
    # `Reading.bad_line`, a record that the corpus' own rules leave out to `Reading.drop`.
    read: Callable[[Path, Reading, Any], Iterator[Example]] | None = None
    # (block, reading, settings) -> a record of each line that counts, as columns without nulls, the first of which is
    # the name of the thread. All records of a thread meet again in one call of `assemble`.
    scatter: Callable[[Block, Reading, Any], pa.RecordBatch] | None = None
    # (records of many whole threads in the order of the input, reading, settings) -> examples, some thousands at a time
    # (`examples.BASE_SCHEMA`), in an order that follows from the records alone.
    assemble: Callable[[pa.RecordBatch, Reading, Any], Iterator[pa.RecordBatch]] | None = None
    # For a corpus that comes in a package: finds the file to read, or raises MissingExtraError; no inputs are named.
    packaged: Callable[[], Path] | None = None
    # (thread, settings) -> its part, for a corpus that is not split by `split_of`; a part that is named comes first.
    split: Callable[[str, Any], Split] | None = None
    # A frozen dataclass: each field has a default and, below it, a line of documentation, which `rejoinder corpora`
    # shows; `__post_init__` raises InputError for a wrong combination. `--set name=value` sets a field.
    settings: type = NoSettings
