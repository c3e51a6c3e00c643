"""Examples as Parquet: the schema, a writer that streams, readers that check what they are given."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rejoinder.corpora.example import Example
from rejoinder.errors import InputError

BASE_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("thread", pa.string()),
        ("source", pa.string()),
        ("context", pa.list_(pa.string())),
        ("response", pa.string()),
    ]
)
CANDIDATE_SCHEMA = pa.schema([*BASE_SCHEMA, ("candidates", pa.list_(pa.string())), ("label", pa.int32())])
"""Schema of data that gives candidates."""

GROUP_ROWS = 16_384
"""Most rows in a row group."""
GROUP_CHARACTERS = 1 << 25
"""A row group is closed when its texts reach this many characters, so that long messages do not fill the memory."""
BATCH_ROWS = 4_096
"""Rows handed out at once."""

_REPEATED = ("thread", "source", "context.list.element", "candidates.list.element")
"""Columns of Parquet whose values come again, so that a dictionary saves space; in others it only costs time."""
_OPTIONAL = ("id", "thread", "source", "candidates", "label")


class ExampleWriter:
    """Writes examples to a Parquet file as they come. A context manager; the file is complete when it ends.

    Attributes:
        count: examples so far.
    """

    def __init__(self, path: str | Path) -> None:
        self.count = 0
        self._path = Path(path)
        self._candidates = False
        self._rows: list[Example] = []
        self._characters = 0  # of the rows
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()
            self._writer = self._writer or _new_file(self._path, BASE_SCHEMA)
        if self._writer is not None:
            # After an error the file is thrown away, and that it cannot be closed (a full disk) would hide the reason.
            with contextlib.nullcontext() if kind is None else contextlib.suppress(OSError):
                self._writer.close()

    def add(self, example: Example) -> None:
        """Write an example, now or a little later.

        Raises:
            InputError: it has candidates and the ones before have none, or the other way round; or a text holds
                half of a surrogate pair, which no file can hold.
        """
        if self.count == 0:
            self._candidates = bool(example.candidates)
        elif self._candidates != bool(example.candidates):
            state = ("no candidates", "some") if self._candidates else ("candidates", "none")
            raise InputError(
                f"example {example.id or self.count} has {state[0]} and the ones before it have {state[1]}; "
                "make one data set of those with candidates and one of those without"
            )
        self._rows.append(example)
        self.count += 1
        self._characters += len(example.response) + sum(map(len, (*example.context, *example.candidates)))
        if len(self._rows) == GROUP_ROWS or self._characters >= GROUP_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            rows = batch_of(self._rows)
            self._writer = self._writer or _new_file(self._path, rows.schema)
            self._writer.write_table(pa.Table.from_batches([rows]))
        self._rows, self._characters = [], 0


def write_batches(batches: Iterable[pa.RecordBatch], path: Path) -> None:
    """Write batches of examples to a Parquet file, in row groups as `ExampleWriter` makes them.

    Args:
        batches: all of one schema, `BASE_SCHEMA` if there are none.
        path: the file.
    """
    with contextlib.ExitStack() as stack:
        writer = None
        for group in _groups(batches):
            writer = writer or stack.enter_context(contextlib.closing(_new_file(path, group[0].schema)))
            writer.write_table(pa.Table.from_batches(group))
            group.clear()  # before the next rows are read
        if writer is None:
            _new_file(path, BASE_SCHEMA).close()


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Group the rows by `GROUP_ROWS`, or fewer where they are large."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        rest = batch
        while rest.num_rows:
            piece = rest.slice(0, GROUP_ROWS - rows)
            rest = rest.slice(piece.num_rows)
            group.append(piece)
            rows, size = rows + piece.num_rows, size + piece.nbytes
            if rows == GROUP_ROWS or size >= GROUP_CHARACTERS:
                yield group
                group, rows, size = [], 0, 0
    if group:
        yield group


def _new_file(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True, use_dictionary=[*_REPEATED])


def examples_of_table(path: Path) -> Iterator[Example]:
    """Read the examples of a Parquet file.

    Raises:
        InputError: the file is damaged or no Parquet, or lacks a column, or a row lacks its context or response.
    """
    columns = [*BASE_SCHEMA.names]
    if "candidates" in _schema(path).names:
        columns = [*CANDIDATE_SCHEMA.names]
    for batch in batches_of_table(path, columns):
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            row = dict(zip(columns, values, strict=True))
            row["context"] = tuple(row["context"])
            row["candidates"] = tuple(row.get("candidates") or ())
            yield Example(**row)


def batches_of_table(
    path: Path, columns: Sequence[str], groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read columns of a Parquet file of examples; `id`, `thread` and `source` that are not there are empty.

    Args:
        path: the file.
        columns: their names.
        groups: numbers of the row groups to read; all if not given.

    Raises:
        InputError: as `examples_of_table`.
    """
    schema = _schema(path)
    fields = [_field(name, schema, path) for name in columns]
    there = [field.name for field in fields if field.name in schema.names]
    with _damage_named(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        numbers = range(file.num_row_groups) if groups is None else groups
        row = sum(file.metadata.row_group(number).num_rows for number in range(min(numbers, default=0)))
        for batch in file.iter_batches(BATCH_ROWS, row_groups=numbers, columns=there, use_threads=False):
            yield _checked(batch, fields, path, row)
            row += batch.num_rows


def row_groups(path: Path) -> int:
    """Return the number of row groups of a Parquet file.

    Raises:
        InputError: the file is damaged or no Parquet.
    """
    with _damage_named(path), pq.ParquetFile(path) as file:
        return int(file.num_row_groups)


def batches_of_examples(examples: Iterable[Example], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Give columns of examples that do not come from Parquet.

    Raises:
        InputError: no such column.
    """
    unknown = [name for name in columns if name not in CANDIDATE_SCHEMA.names]
    if unknown:
        raise InputError(f"examples have no column {unknown[0]}; there are {', '.join(CANDIDATE_SCHEMA.names)}")
    schema = pa.schema([CANDIDATE_SCHEMA.field(name) for name in columns])
    rows = iter(examples)
    while block := list(itertools.islice(rows, BATCH_ROWS)):
        yield batch_of(block, schema)


def batch_of(rows: Sequence[Example], schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Turn examples into columns.

    Args:
        rows: at least one; all of them with candidates, or none.
        schema: the columns wanted; if not given all that the examples have.

    Raises:
        InputError: a text holds half of a surrogate pair, which no file can hold.
    """
    schema = schema or (CANDIDATE_SCHEMA if rows[0].candidates else BASE_SCHEMA)
    try:
        arrays = [pa.array([getattr(row, field.name) for row in rows], field.type) for field in schema]
    except UnicodeEncodeError:
        name = next((row.id for row in rows if not _is_encodable(row)), "") or "without id"
        reason = "a text holds half of a surrogate pair (\\ud800 to \\udfff), which is no character"
        raise InputError(f"example {name}: {reason}") from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _is_encodable(row: Example) -> bool:
    try:
        "".join((row.id, row.thread, row.source, *row.context, row.response, *row.candidates)).encode()
    except UnicodeEncodeError:
        return False
    return True


def _schema(path: Path) -> pa.Schema:
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; build or copy it again")
    with _damage_named(path):
        return pq.read_schema(path)


def _field(name: str, schema: pa.Schema, path: Path) -> pa.Field:
    """Return the column as it is to be given; an error if the file lacks it, or has another type."""
    if name not in CANDIDATE_SCHEMA.names:
        raise InputError(f"examples have no column {name}; there are {', '.join(CANDIDATE_SCHEMA.names)}")
    if name not in schema.names and name not in _OPTIONAL:
        raise InputError(f"{path} has no column {name}; it has {', '.join(schema.names) or 'none'}")
    field = CANDIDATE_SCHEMA.field(name)
    if name in schema.names and not _is_kind(schema.field(name).type, field.type):
        raise InputError(f"{path}: column {name} is {schema.field(name).type}; {field.type} is read")
    return field


def _is_kind(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column can be cast to the type that is wanted without a change of its values."""
    if pa.types.is_list(wanted):
        lists = pa.types.is_list(given) or pa.types.is_large_list(given)
        return lists and _is_kind(given.value_type, wanted.value_type)
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(given))
    if pa.types.is_dictionary(given):
        return _is_kind(given.value_type, wanted)
    return bool(pa.types.is_string(given) or pa.types.is_large_string(given))


def _checked(batch: pa.RecordBatch, fields: Sequence[pa.Field], path: Path, row: int) -> pa.RecordBatch:
    """Return the batch with the right types, all columns, and no null where a text must be."""
    batch.validate(full=True)
    arrays = []
    if {"candidates", "label"} <= {field.name for field in fields} & {*batch.schema.names}:
        _check_labels(batch, path, row)
    for field in fields:
        if field.name not in batch.schema.names:
            empty = "" if field.type == pa.string() else None
            arrays.append(pa.array([empty] * batch.num_rows, field.type))
            continue
        array = batch.column(field.name)
        array = array if array.type == field.type else array.cast(field.type)
        if field.name in ("id", "thread", "source"):
            array = array.fill_null("")
        if field.name in ("context", "response"):
            _refuse_nulls(array, field.name, path, row)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _check_labels(batch: pa.RecordBatch, path: Path, row: int) -> None:
    """Refuse a row with candidates whose label is none of them."""
    counts = pc.fill_null(pc.list_value_length(batch.column("candidates")), 0).to_numpy(zero_copy_only=False)
    labels = pc.fill_null(batch.column("label"), -1).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero((counts > 0) & ((labels < 0) | (labels >= counts)))
    if len(wrong):
        label, count = batch.column("label")[int(wrong[0])].as_py(), counts[wrong[0]]
        allowed = f"with {count} candidates it is 0 to {count - 1}"
        raise InputError(f"{path}: row {row + wrong[0]} has label {label}; {allowed}")


def _refuse_nulls(array: pa.Array, name: str, path: Path, row: int) -> None:
    if array.null_count:
        raise InputError(f"{path}: row {row + array.is_null().to_pylist().index(True)} has no {name}")
    if name == "context" and array.flatten().null_count:
        raise InputError(f"{path}: a message of a context after row {row} is null; messages are texts")


@contextlib.contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's; Arrow's own errors about bad bytes have no number
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path} is damaged or no Parquet ({reason}); build or copy it again") from None
