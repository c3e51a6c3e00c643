"""Examples on disk, read and written; memory holds one block of rows at a time.

A data folder holds `train-*.parquet`, `valid-*.parquet`, `test-*.parquet` and `data.json`.
`corpora.parquet`, which needs pyarrow, is imported for files of Parquet and for columns only.
"""

from __future__ import annotations

import contextlib
import itertools
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rejoinder.checks import check_path
from rejoinder.corpora.forms.csv_pairs import read_csv
from rejoinder.corpora.forms.formats import ChatSettings, no_response, read_jsonl
from rejoinder.corpora.lines import COMPRESSIONS, Reading, strip_compression
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import SPLITS, Split, content_thread, split_of
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.paths import check_regular_file

if TYPE_CHECKING:
    import pyarrow as pa


def write_examples(examples: Iterable[Example], path: str | Path) -> int:
    """Write examples to a Parquet file, whole or not at all, and return their number.

    InputError: some examples have candidates and some have none.
    """
    from rejoinder.corpora.parquet import ExampleWriter

    with atomic_file(path) as part, ExampleWriter(part) as writer:
        for example in examples:
            writer.add(example)
    return writer.count


def read_examples(
    path: str | Path, split: Split | None = None, *, reading: Reading | None = None
) -> Iterator[Example]:
    """Yield examples.

    Args:
        path: a data folder, a .parquet file, or a .jsonl or .csv file, perhaps compressed (.zst,
            .gz, .bz2, .xz), in the forms that `formats` reads.
        split: of a folder its part, of a file the examples whose threads belong to it (`split_of`);
            None: all.
        reading: how text files are read.

    Raises:
        InputError: names the file, the line or row, and the fault.
    """
    for piece in pieces_of(path, split, groups=0):
        yield from _examples(piece, reading)


def read_columns(
    path: str | Path, split: Split | None = None, columns: Sequence[str] = ("context", "response")
) -> Iterator[pa.RecordBatch]:
    """Yield columns of examples, in this order, as batches of some thousand rows."""
    for piece in pieces_of(path, split, groups=0):
        yield from read_piece(piece, columns)


def read_responses(path: str | Path) -> Iterator[str]:
    """Yield the responses of all parts; of Parquet no other column is read."""
    for piece in pieces_of(path, groups=0):
        if not _is_table(piece.file):
            for example in _examples(piece, None):
                yield example.response
            continue
        for batch in read_piece(piece, ("response",)):
            yield from batch.column(0).to_pylist()


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of some examples that is read on its own, by a task of an engine."""

    file: Path
    split: Split | None  # of a file that holds several; None: all of it
    groups: tuple[int, ...] | None  # the row groups of a Parquet file; None: the whole file


def pieces_of(path: str | Path, split: Split | None = None, groups: int = 8) -> Iterator[Piece]:
    """Divide examples into pieces.

    A piece has `groups` row groups of a file of a data folder (0: all), or is another whole file.
    """
    if split is not None and split not in SPLITS:
        raise InputError(
            f"there is no split {split!r}; allowed are {', '.join(SPLITS)}, or None for all"
        )
    check_path(path, "name a data folder, or a .parquet, .jsonl or .csv file")
    for file, part in _files(Path(path), split):
        if not groups or part is not None or not _is_table(file):
            yield Piece(file, part, None)
            continue
        from rejoinder.corpora.parquet import count_row_groups

        count = count_row_groups(file)
        for start in range(0, count, groups):
            yield Piece(file, None, tuple(range(start, min(start + groups, count))))


def read_piece(piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield columns of a piece; all pieces, in order, give what `read_columns` gives."""
    from rejoinder.corpora import parquet

    schema = parquet.schema_of(columns)
    if _is_table(piece.file) and piece.split is None:
        yield from parquet.table_batches(piece.file, columns, piece.groups)
        return
    rows = _examples(piece, None)
    while block := list(itertools.islice(rows, parquet.BATCH_ROWS)):
        yield parquet.batch_of(block, schema)


def _examples(piece: Piece, reading: Reading | None) -> Iterator[Example]:
    if _is_table(piece.file):
        from rejoinder.corpora.parquet import table_examples

        examples = table_examples(piece.file)
    else:
        examples = _text_examples(piece.file, reading or Reading())
    for example in examples:
        thread = example.thread or content_thread(example.context[:1])
        if piece.split is None or split_of(thread) == piece.split:
            yield example


def _text_examples(file: Path, reading: Reading) -> Iterator[Example]:
    read = read_csv if _kind(file) == ".csv" else read_jsonl
    empty = True
    with contextlib.closing(read(file, reading)) as examples:
        for example in examples:
            empty = False
            yield example
    if empty:
        reason = "no line in it has a message and a response to it"
        if reading.roles:
            reason = no_response(reading.roles, asdict(ChatSettings()))
        raise InputError(f"{file} holds no example: {reason}")


def _files(path: Path, split: Split | None) -> list[tuple[Path, Split | None]]:
    """Return the files to read, each with the split to take from it (None: all of it)."""
    if path.is_dir():
        return [(file, None) for file in _parts(path, split)]
    if not path.exists():
        raise InputError(
            f"{path} does not exist; name a data folder, or a .parquet, .jsonl or .csv file"
        )
    check_regular_file(path)
    if not _is_table(path):
        if _kind(path) not in (".jsonl", ".ndjson", ".csv"):
            raise InputError(
                f"{path}: examples are read from .parquet, .jsonl and .csv files "
                f"(the last two also with {', '.join(COMPRESSIONS)}); "
                f"`rejoinder data chats {shlex.quote(str(path))} -o DIR` makes examples of an "
                "export of chats"
            )
        return [(path, split)]
    named = next((name for name in SPLITS if path.name.startswith(f"{name}-")), None)
    if split and named and named != split:
        raise InputError(
            f"{path} is the {named} part of a data folder; name the folder to read its {split} part"
        )
    return [(path, None if named else split)]


def _kind(file: Path) -> str:
    return strip_compression(file).suffix.lower()


def _is_table(file: Path) -> bool:
    return file.suffix.lower() == ".parquet"


def _parts(folder: Path, split: Split | None) -> list[Path]:
    parts = {name: sorted(folder.glob(f"{name}-*.parquet")) for name in SPLITS}
    wanted = [file for name in SPLITS if split in (None, name) for file in parts[name]]
    if wanted:
        return wanted
    present = [name for name in SPLITS if parts[name]]
    if present:
        raise InputError(
            f"{folder} has no {split} part, no {split}-*.parquet; it has {', '.join(present)}"
        )
    names = sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))
    listed = ", ".join(names[:5]) or "nothing"
    if len(names) > 5:
        listed += f" and {len(names) - 5} more"
    raise InputError(
        f"{folder} is not a data folder: no train-*, valid-* or test-*.parquet; it holds {listed}"
    )
