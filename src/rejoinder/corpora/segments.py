"""Files of records in partitions: one file for what belongs to many places, so that few files are open at once.

Records are columns of numbers and texts. Layout of a file of n partitions: n + 1 lines of places (8 bytes each,
little-endian, bytes from the beginning of the file): where the partition's rows begin, and its texts of each column of
texts; the last line says where all end. Then the rows, partition after partition: their numbers, and of each text its
length in bytes. Then the texts, column after column, nothing between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rejoinder.files import atomic_file

Places: TypeAlias = npt.NDArray[np.integer[Any]]
"""Of each record, the number of the partition that it belongs to."""


def write_records(path: Path, records: pa.RecordBatch, places: Places, partitions: int, durable: bool = True) -> None:
    """Write records to a file, whole or not at all; within a partition they stay in their order.

    Args:
        path: the file.
        records: columns of numbers and of texts, without nulls.
        places: of each record.
        partitions: how many there are.
        durable: see `files.atomic_file`.
    """
    # Numpy sorts numbers of 16 bits by their digits.
    order = np.argsort(places.astype(np.uint16 if partitions <= 1 << 16 else np.int64), kind="stable")
    bounds = np.append(0, np.bincount(places, minlength=partitions).cumsum())
    rows = np.empty(len(order), row_type(records.schema))
    texts = []
    for field, column in zip(records.schema, records.columns, strict=True):
        if _is_text(field):
            texts.append(column.take(pa.array(order)))
            rows[field.name] = np.diff(_ends(texts[-1]))
        else:
            rows[field.name] = column.to_numpy()[order]
    heads = np.empty((partitions + 1, 1 + len(texts)), "<i8")
    heads[:, 0] = heads.nbytes + bounds * rows.itemsize
    areas: list[memoryview] = []
    begin = int(heads[-1, 0])
    for number, column in enumerate(texts, 1):
        ends = _ends(column)
        areas.append(memoryview(column.buffers()[2] or b"")[int(ends[0]) : int(ends[-1])])
        heads[:, number] = begin + ends[bounds] - ends[0]
        begin += len(areas[-1])
    with atomic_file(path, durable=durable) as part, part.open("wb") as file:
        file.write(heads.tobytes())
        file.write(rows.tobytes())
        file.writelines(areas)


def read_records(paths: Sequence[Path], number: int, schema: pa.Schema) -> pa.RecordBatch:
    """The records of one partition, of all files one after the other; texts as large strings or bytes.

    Args:
        paths: files of the same number of partitions.
        number: of the partition.
        schema: names and types of the columns, as they were written.
    """
    areas = 1 + sum(map(_is_text, schema))
    chunks: list[list[bytes]] = [[] for _ in range(areas)]
    for path in paths:
        with path.open("rb", buffering=0) as file:
            file.seek(8 * areas * number)
            places = np.frombuffer(file.read(16 * areas), "<i8").tolist()
            for area, begin, end in zip(chunks, places[:areas], places[areas:], strict=True):
                if end > begin:
                    file.seek(begin)
                    area.append(file.read(end - begin))
                    assert len(area[-1]) == end - begin, f"{path} is cut off"
    return _records([b"".join(area) for area in chunks], schema)


def merge_records(sources: Sequence[Path], path: Path, schema: pa.Schema, durable: bool = True) -> None:
    """Write one file of several, whose records follow each other in each partition. Memory holds all of them."""
    batches, places, partitions = [], [], 0
    for source in sources:
        data = source.read_bytes()
        areas = 1 + sum(map(_is_text, schema))
        first = int.from_bytes(data[:8], "little")
        heads = np.frombuffer(data[:first], "<i8").reshape(-1, areas)
        partitions = len(heads) - 1
        ends = [*heads[0, 1:].tolist(), len(data)]
        batches.append(_records([data[a:b] for a, b in zip([first, *ends], ends, strict=False)], schema))
        places.append(np.repeat(np.arange(partitions), np.diff(heads[:, 0]) // row_type(schema).itemsize))
    write_records(path, pa.concat_batches(batches), np.concatenate(places), partitions, durable)


def record_bytes(records: pa.RecordBatch) -> int:
    """How many bytes the records take in a file."""
    texts = [column for field, column in zip(records.schema, records.columns, strict=True) if _is_text(field)]
    rows = records.num_rows * row_type(records.schema).itemsize
    return int(rows + sum(_ends(column)[-1] - _ends(column)[0] for column in texts))


def row_type(schema: pa.Schema) -> np.dtype[Any]:
    """What a row holds: the numbers, and the lengths of the texts."""
    kinds = ((field.name, "<u4" if _is_text(field) else field.type.to_pandas_dtype()) for field in schema)
    return np.dtype([(name, np.dtype(kind).newbyteorder("<")) for name, kind in kinds])


def _records(areas: Sequence[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """Rows and the texts of each column as a batch."""
    rows = np.frombuffer(areas[0], row_type(schema))
    texts = iter(areas[1:])
    columns = []
    for field in schema:
        if _is_text(field):
            ends = np.zeros(len(rows) + 1, np.int64)
            np.cumsum(rows[field.name], out=ends[1:])
            kind = pa.large_binary() if pa.types.is_binary(field.type) else pa.large_string()
            buffers = [None, pa.py_buffer(ends), pa.py_buffer(next(texts))]
            columns.append(pa.Array.from_buffers(kind, len(rows), buffers))
        else:
            columns.append(pa.array(np.ascontiguousarray(rows[field.name]), field.type))
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _is_text(field: pa.Field) -> bool:
    """Whether a column holds texts, or bytes; otherwise it holds numbers."""
    return not pa.types.is_integer(field.type)


def _ends(texts: pa.Array) -> Any:
    """Where each text begins in the column's bytes, and where the last one ends."""
    kind = np.int64 if pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type) else np.int32
    if len(texts) == 0:
        return np.zeros(1, kind)
    return np.frombuffer(texts.buffers()[1], kind)[texts.offset : texts.offset + len(texts) + 1]
