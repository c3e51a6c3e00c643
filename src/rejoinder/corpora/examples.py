"""Examples on disk, read and written; memory holds one block of rows at a time.

On disk an example is a row of a Parquet table (zstd) with the columns `id`, `thread`, `source` (strings),
`context` (list of strings, oldest message first) and `response` (string); where the data gives candidates, also
`candidates` (list of strings) and `label` (place of the response in it). A data folder holds `train-*.parquet`,
`valid-*.parquet` and `test-*.parquet`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rejoinder.corpora.example import SPLITS, Example, Split
from rejoinder.corpora.lines import COMPRESSIONS, Reading, strip_compression
from rejoinder.corpora.splits import content_thread, split_of
from rejoinder.errors import InputError
from rejoinder.files import atomic_file, refuse_endless

if TYPE_CHECKING:
    import pyarrow as pa


def write_examples(examples: Iterable[Example], path: str | Path) -> int:
    """Write examples to a Parquet file, whole or not at all, in groups of rows.

    Args:
        examples: all of them with candidates, or none.
        path: the file; one that is there is replaced when the new one is complete.

    Returns:
        The number of examples.

    Raises:
        InputError: only some have candidates, or a text holds half of a surrogate pair.
    """
    from rejoinder.corpora.tables import ExampleWriter

    with atomic_file(path) as part, ExampleWriter(part) as writer:
        for example in examples:
            writer.add(example)
    return writer.count


def read_examples(
    path: str | Path, split: Split | None = None, *, reading: Reading | None = None
) -> Iterator[Example]:
    """Read examples one after the other.

    Args:
        path: a data folder, one .parquet file, or a .jsonl or .csv file, which may be compressed
            (.zst, .gz, .bz2, .xz), in the forms that `rejoinder.corpora.formats` reads.
        split: the part of a data folder; all parts one after the other if not given. Of a single file, the
            examples whose threads belong to the part (`splits.split_of`), as if a folder had been built of it.
        reading: for text files, how much history to keep and whether to skip bad lines, and the counts.

    Raises:
        InputError: names the file, the line or row, and what is wrong; a folder without the wanted part is an
            error that names the parts that it has.
    """
    for piece in pieces_of(path, split, groups=0):
        yield from _examples(piece, reading)


def read_columns(
    path: str | Path, split: Split | None = None, columns: Sequence[str] = ("context", "response")
) -> Iterator[pa.RecordBatch]:
    """Read columns of examples as Arrow record batches of some thousand rows, for work that has no time for objects.

    Args:
        path: as for `read_examples`.
        split: as for `read_examples`.
        columns: names of columns, in the order in which the batches are to hold them.

    Raises:
        InputError: as for `read_examples`, and when a column is asked for that is not there.
    """
    for piece in pieces_of(path, split, groups=0):
        yield from read_piece(piece, columns)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of some examples that is read on its own, by a task of an engine."""

    file: Path
    split: Split | None
    """The part of the data that is to be picked out of the file; None: all of it."""
    groups: tuple[int, ...] | None
    """The row groups of a Parquet file; None: the whole file."""


def pieces_of(path: str | Path, split: Split | None = None, groups: int = 8) -> Iterator[Piece]:
    """Cut examples into pieces: `groups` row groups of a data folder's files each (0: all); another file is one.

    Raises:
        InputError: as for `read_examples`.
    """
    from rejoinder.corpora.tables import row_groups

    for file, part in _files(Path(path), split):
        if not groups or part is not None or not _is_table(file):
            yield Piece(file, part, None)
        else:
            count = row_groups(file)
            for start in range(0, count, groups):
                yield Piece(file, None, tuple(range(start, min(start + groups, count))))


def read_piece(piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read columns of a piece; all pieces one after the other give what `read_columns` gives."""
    from rejoinder.corpora.tables import batches_of_examples, batches_of_table

    if _is_table(piece.file) and piece.split is None:
        return batches_of_table(piece.file, columns, piece.groups)
    return batches_of_examples(_examples(piece, None), columns)


def _examples(piece: Piece, reading: Reading | None) -> Iterator[Example]:
    """The examples of a whole file; with a split, those whose thread belongs to it."""
    from rejoinder.corpora.tables import examples_of_table

    file = piece.file
    for example in examples_of_table(file) if _is_table(file) else _read_text(file, reading):
        if piece.split is None or split_of(example.thread or content_thread(example.context[:1])) == piece.split:
            yield example


def _read_text(file: Path, reading: Reading | None) -> Iterator[Example]:
    """Examples of a JSONL or CSV file; no example at all is an error."""
    from rejoinder.corpora.formats import read_csv, read_jsonl

    reader = read_csv if _kind(file) == ".csv" else read_jsonl
    count = 0
    with closing(reader(file, reading)) as examples:
        for count, example in enumerate(examples, 1):  # noqa: B007 (used after the loop)
            yield example
    if count == 0:
        raise InputError(f"{file} holds no example: no line in it has a message and a response to it")


def _files(path: Path, split: Split | None) -> list[tuple[Path, Split | None]]:
    """The files to read, and for each the split that is to be picked out of it (None: all of it)."""
    if path.is_dir():
        return [(file, None) for file in _parts(path, split)]
    if not path.exists():
        raise InputError(f"{path} does not exist; name a data folder, or a .parquet, .jsonl or .csv file")
    refuse_endless(path)
    if not _is_table(path):
        if _kind(path) not in (".jsonl", ".ndjson", ".csv"):
            also = f"(the last two also with {', '.join(COMPRESSIONS)})"
            raise InputError(f"{path}: examples are read from .parquet, .jsonl and .csv files {also}")
        return [(path, split)]
    named = next((name for name in SPLITS if path.name.startswith(f"{name}-")), None)
    if split and named and named != split:
        raise InputError(f"{path} is the {named} part of a data folder; name the folder to read its {split} part")
    return [(path, None if named else split)]


def _is_table(file: Path) -> bool:
    return file.suffix.lower() == ".parquet"


def _kind(file: Path) -> str:
    return strip_compression(file).suffix.lower()


def _parts(folder: Path, split: Split | None) -> list[Path]:
    parts = {name: sorted(folder.glob(f"{name}-*.parquet")) for name in SPLITS}
    wanted = parts[split] if split is not None else [file for name in SPLITS for file in parts[name]]
    if wanted:
        return wanted
    there = ", ".join(name for name in SPLITS if parts[name])
    if there:
        raise InputError(f"{folder} has no {split} part, no {split}-*.parquet; it has {there}")
    names = sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") if names else "nothing"
    raise InputError(f"{folder} is no data folder: no train-*, valid-* or test-*.parquet; it holds {shown}")
