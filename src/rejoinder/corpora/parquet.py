"""Examples in files of Parquet (zstd): columns, row groups, checks. It alone needs pyarrow.

An example is a row, with candidates or without.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from rejoinder.corpora.schema import Example
from rejoinder.errors import InputError, MissingExtraError

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError as error:
    raise MissingExtraError("Parquet", "parquet") from error

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


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Return the types of some columns; InputError: examples have no such column."""
    known = CANDIDATE_SCHEMA.names
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise InputError(f"examples have no column {unknown[0]}; there are {', '.join(known)}")
    return pa.schema([CANDIDATE_SCHEMA.field(name) for name in columns])


def batch_of(rows: Sequence[Example], schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Turn examples, at least one, into the columns of the schema; by default all they have."""
    schema = schema or (CANDIDATE_SCHEMA if rows[0].candidates else BASE_SCHEMA)
    arrays = [
        pa.array([getattr(row, column.name) for row in rows], column.type) for column in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def count_row_groups(path: Path) -> int:
    """Return the number of row groups of a file."""
    with _damage_named(path), pq.ParquetFile(path) as table:
        return int(table.num_row_groups)


def table_examples(path: Path) -> Iterator[Example]:
    """Yield the examples of a file."""
    schema = CANDIDATE_SCHEMA if "candidates" in _schema(path).names else BASE_SCHEMA
    for batch in table_batches(path, schema.names):
        for row in batch.to_pylist():
            lists = {name: tuple(row.get(name) or ()) for name in ("context", "candidates")}
            yield Example(**row | lists)


def table_batches(
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
