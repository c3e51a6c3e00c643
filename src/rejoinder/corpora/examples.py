"""Examples on disk, read and written; memory holds one block of rows at a time.

An example is a row of a Parquet table (zstd), with candidates or without. A data folder holds
`train-*.parquet`, `valid-*.parquet`, `test-*.parquet` and `data.json` (`summary`).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rejoinder.corpora import SPLITS, Example, Split, content_thread, split_of
from rejoinder.corpora.formats import ChatSettings, no_response, read_csv, read_jsonl
from rejoinder.corpora.lines import COMPRESSIONS, Reading, strip_compression
from rejoinder.errors import InputError
from rejoinder.files import atomic_file, check_regular_file

_TEXT = pa.string()
_TEXTS = pa.list_(_TEXT)
BASE_SCHEMA = pa.schema(
    [("id", _TEXT), ("thread", _TEXT), ("source", _TEXT), ("context", _TEXTS), ("response", _TEXT)]
)
CANDIDATE_SCHEMA = pa.schema([*BASE_SCHEMA, ("candidates", _TEXTS), ("label", pa.int32())])
GROUP_ROWS = 16_384  # most rows in a row group
GROUP_CHARACTERS = 1 << 25  # a row group ends when its texts have this many
BATCH_ROWS = 4_096  # rows that are read at once

# Columns of Parquet whose values repeat, so that a dictionary saves space; others only cost time.
_REPEATED = ["thread", "source", "context.list.element", "candidates.list.element"]


def write_examples(examples: Iterable[Example], path: str | Path) -> int:
    """Write examples to a Parquet file, whole or not at all, and return their number.

    InputError: some examples have candidates and some have none.
    """
    with atomic_file(path) as part, ExampleWriter(part) as writer:
        for example in examples:
            writer.add(example)
    return writer.count


class ExampleWriter:
    """Writes examples to a Parquet file. A context manager, at whose end the file is complete."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._path = path
        self._rows: list[Example] = []
        self._characters = 0  # of the rows
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()
            self._writer = self._writer or _new_file(self._path, BASE_SCHEMA)
        if self._writer is None:
            return
        if kind is None:
            self._writer.close()
        else:
            # The file is discarded. A failure to close it (a full disk) would hide the reason.
            with contextlib.suppress(OSError):
                self._writer.close()

    def add(self, example: Example) -> None:
        """Write an example, now or a little later; InputError as `write_examples`."""
        if self.count == 0:
            self._candidates = bool(example.candidates)
        elif self._candidates != bool(example.candidates):
            raise InputError(
                f"example {example.id or self.count} has {'no ' if self._candidates else ''}"
                "candidates and the ones before it have "
                f"{'some' if self._candidates else 'none'}; "
                "make one data set of those with candidates and one of those without"
            )
        self._rows.append(example)
        self.count += 1
        self._characters += characters(example)
        if len(self._rows) == GROUP_ROWS or self._characters >= GROUP_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            rows = batch_of(self._rows)
            self._writer = self._writer or _new_file(self._path, rows.schema)
            self._writer.write_table(pa.Table.from_batches([rows]))
        self._rows = []
        self._characters = 0


def write_batches(batches: Iterable[pa.RecordBatch], path: Path) -> None:
    """Write batches of examples of one schema to a Parquet file."""
    with contextlib.ExitStack() as stack:
        writer = None
        for group in _row_groups(batches):
            writer = writer or stack.enter_context(
                contextlib.closing(_new_file(path, group[0].schema))
            )
            writer.write_table(pa.Table.from_batches(group))
            group.clear()  # before the next rows are read
        if writer is None:
            _new_file(path, BASE_SCHEMA).close()


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    rows = 0
    size = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, GROUP_ROWS - rows)
            start += piece.num_rows
            group.append(piece)
            rows += piece.num_rows
            size += piece.nbytes
            if rows == GROUP_ROWS or size >= GROUP_CHARACTERS:
                yield group
                group = []
                rows = 0
                size = 0
    if group:
        yield group


def _new_file(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        path, schema, compression="zstd", write_page_checksum=True, use_dictionary=_REPEATED
    )


def characters(example: Example) -> int:
    """Return the length of all texts of an example."""
    return len(example.response) + sum(map(len, (*example.context, *example.candidates)))


def batch_of(rows: Sequence[Example], schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Turn examples, at least one, into the columns of the schema; by default all they have."""
    schema = schema or (CANDIDATE_SCHEMA if rows[0].candidates else BASE_SCHEMA)
    arrays = [
        pa.array([getattr(row, column.name) for row in rows], column.type) for column in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


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
    for file, part in _files(Path(path), split):
        if not groups or part is not None or not _is_table(file):
            yield Piece(file, part, None)
            continue
        with _damage_named(file), pq.ParquetFile(file) as table:
            count = table.num_row_groups
        for start in range(0, count, groups):
            yield Piece(file, None, tuple(range(start, min(start + groups, count))))


def read_piece(piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield columns of a piece; all pieces, in order, give what `read_columns` gives."""
    known = CANDIDATE_SCHEMA.names
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise InputError(f"examples have no column {unknown[0]}; there are {', '.join(known)}")
    if _is_table(piece.file) and piece.split is None:
        yield from _table_batches(piece.file, columns, piece.groups)
        return
    schema = pa.schema([CANDIDATE_SCHEMA.field(name) for name in columns])
    rows = _examples(piece, None)
    while block := list(itertools.islice(rows, BATCH_ROWS)):
        yield batch_of(block, schema)


def _examples(piece: Piece, reading: Reading | None) -> Iterator[Example]:
    if _is_table(piece.file):
        examples = _table_examples(piece.file)
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
                f"`rejoinder data chats {path} -o DIR` makes examples of an export of chats"
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
        f"{folder} is no data folder: no train-*, valid-* or test-*.parquet; it holds {listed}"
    )


def _table_examples(path: Path) -> Iterator[Example]:
    schema = CANDIDATE_SCHEMA if "candidates" in _schema(path).names else BASE_SCHEMA
    for batch in _table_batches(path, schema.names):
        for row in batch.to_pylist():
            lists = {name: tuple(row.get(name) or ()) for name in ("context", "candidates")}
            yield Example(**row | lists)


def _table_batches(
    path: Path, columns: Sequence[str], groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield columns of all row groups or some; a missing `id`, `thread` or `source` is empty."""
    schema = _schema(path)
    fields = [_field(name, schema, path) for name in columns]
    present = [name for name in columns if name in schema.names]
    with _damage_named(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        numbers = range(file.num_row_groups) if groups is None else groups
        before = range(min(numbers, default=0))
        row = sum(file.metadata.row_group(number).num_rows for number in before)
        batches = file.iter_batches(
            BATCH_ROWS, row_groups=numbers, columns=present, use_threads=False
        )
        for batch in batches:
            yield _checked(batch, fields, path, row)
            row += batch.num_rows


def _schema(path: Path) -> pa.Schema:
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; build or copy it again")
    with _damage_named(path):
        return pq.read_schema(path)


def _field(name: str, schema: pa.Schema, path: Path) -> pa.Field:
    """Return the column of the schema; InputError: the file has none, or another type."""
    wanted = CANDIDATE_SCHEMA.field(name)
    if name not in schema.names:
        if name in ("context", "response"):
            raise InputError(
                f"{path} has no column {name}; it has {', '.join(schema.names) or 'none'}"
            )
    elif not _is_kind(schema.field(name).type, wanted.type):
        raise InputError(
            f"{path}: column {name} is {schema.field(name).type}; {wanted.type} is read"
        )
    return wanted


def _is_kind(actual: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column can be cast to the wanted type without a change of its values."""
    if pa.types.is_list(wanted):
        is_list = pa.types.is_list(actual) or pa.types.is_large_list(actual)
        return is_list and _is_kind(actual.value_type, wanted.value_type)
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(actual))
    if pa.types.is_dictionary(actual):
        return _is_kind(actual.value_type, wanted)
    return bool(pa.types.is_string(actual) or pa.types.is_large_string(actual))


def _checked(
    batch: pa.RecordBatch, fields: Sequence[pa.Field], path: Path, row: int
) -> pa.RecordBatch:
    """Return the batch with the right types, all columns, and no null where a text must be."""
    batch.validate(full=True)
    names = {column.name for column in fields} & {*batch.schema.names}
    if {"candidates", "label"} <= names:
        _check_labels(batch, path, row)
    arrays = [_checked_column(batch, column, path, row) for column in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _checked_column(batch: pa.RecordBatch, column: pa.Field, path: Path, row: int) -> pa.Array:
    name = column.name
    if name not in batch.schema.names:
        empty = pa.scalar("" if column.type == _TEXT else None, column.type)
        return pa.repeat(empty, batch.num_rows)
    array = batch.column(name)
    if array.type != column.type:
        array = array.cast(column.type)
    if name in ("id", "thread", "source"):
        array = array.fill_null("")
    if name in ("context", "response") and array.null_count:
        first = row + array.is_null().to_pylist().index(True)
        raise InputError(f"{path}: row {first} has no {name}")
    if name == "context" and array.flatten().null_count:
        raise InputError(
            f"{path}: a message of a context after row {row} is null; messages are texts"
        )
    return array


def _check_labels(batch: pa.RecordBatch, path: Path, row: int) -> None:
    """Refuse a row with candidates whose label is none of them."""
    lengths = pc.fill_null(pc.list_value_length(batch.column("candidates")), 0)
    counts = lengths.to_numpy(zero_copy_only=False)
    labels = pc.fill_null(batch.column("label"), -1).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero((counts > 0) & ((labels < 0) | (labels >= counts)))
    if len(wrong):
        first = int(wrong[0])
        raise InputError(
            f"{path}: row {row + first} has label {batch.column('label')[first].as_py()}; "
            f"with {counts[first]} candidates it is 0 to {counts[first] - 1}"
        )


@contextlib.contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's; Arrow's own errors about bad bytes have no number
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"{path} is damaged or no Parquet ({reason}); build or copy it again"
        ) from None
