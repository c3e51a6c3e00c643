"""A corpus: how its files are read, its settings, licence and origin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rejoinder.corpora.lines import Block, Reading
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import Split, thread_share
from rejoinder.errors import InputError
from rejoinder.settings import documented

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Input:
    """A file to read."""

    path: Path
    part: Split | None = None  # the split of its examples; None: the hash of each thread decides
    name: str = ""  # the end of its path, if another input has the same file name
    stem: str = ""  # what ids of its examples begin with; empty: its name without suffixes

    @property
    def size(self) -> int:
        """Its bytes; 0 for a pipe, whose size nobody knows."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def prepare(self, reading: Reading) -> None:
        """Let a reading know the split and the names of this file, which is read next."""
        reading.part = self.part
        reading.file_name = self.name
        reading.file_stem = self.stem


@documented
class NoSettings:
    """Settings of a corpus that has none."""


@documented
class Shares:
    """Settings of a corpus whose parts may have other shares than those of `split_of`."""

    valid_share: float = 0.02
    """Share of the threads that are for validation."""
    test_share: float = 0.1
    """Share of the threads that are for testing."""

    def __post_init__(self) -> None:
        negative = self.valid_share < 0 or self.test_share < 0
        if negative or not self.valid_share + self.test_share < 1:
            raise InputError(
                "valid_share and test_share must be 0 or more and leave something for training, "
                f"not {self.valid_share} and {self.test_share}"
            )


def split_by_shares(thread: str, settings: Shares) -> Split:
    """Return the part of a thread: as `split_of`, with the shares of the settings."""
    left = 1 - thread_share(thread)
    if left < settings.test_share:
        return "test"
    return "valid" if left < settings.test_share + settings.valid_share else "train"


@dataclass(frozen=True)
class Corpus:
    """A corpus: data, and pure functions at module level, which worker processes get by name.

    A corpus has `read`, or `scatter` and `assemble` if its threads are scattered over its files.
    """

    name: str  # as in `rejoinder data NAME`
    title: str  # one line
    reads: str  # one line: the files that it reads, in their published format
    licence: str  # of the data, as far as its publisher says
    origin: str  # from which a user gets the files
    expected: str = ""  # counts that the source publishes, to compare with
    # (file, reading, settings) -> the file's examples, in its order. Raises InputError; a bad line
    # goes to `Reading.bad_line`, a record that the corpus' own rules leave out to `Reading.drop`.
    read: Callable[[Path, Reading, Any], Iterator[Example]] | None = None
    # (block, reading, settings) -> a record of each line that counts, as columns without nulls, the
    # first of which is the name of the thread. `assemble` gets all records of a thread in one call.
    scatter: Callable[[Block, Reading, Any], pa.RecordBatch] | None = None
    # (records of many whole threads in the order of the input, reading, settings) -> examples, some
    # thousands at a time (`examples.BASE_SCHEMA`), in an order that follows from the records alone.
    assemble: Callable[[pa.RecordBatch, Reading, Any], Iterator[pa.RecordBatch]] | None = None
    # For a corpus in a package: finds the file to read, or raises MissingExtraError.
    packaged: Callable[[], Path] | None = None
    # (thread, settings) -> its split. Default: `split_of`. The part of an `Input` comes first.
    split: Callable[[str, Any], Split] | None = None
    # `documented`: each field has a default and, below it, a line of documentation, which `corpora`
    # shows; `__post_init__` raises InputError for a wrong combination. `--set name=value`
    # sets a field.
    settings: type = NoSettings
