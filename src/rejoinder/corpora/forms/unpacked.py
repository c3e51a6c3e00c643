"""The size of columns of Parquet once they are Python's objects, without making them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rejoinder.corpora.limits import check_unpacked

_VALUE_BYTES = 64  # of each value and of each place in a list, as Python's objects
_BATCH_ROWS = 256
_ADVICE = "save the table as .csv, or only the rows and columns that are needed"


def limited_batches(file: Any, path: Path) -> Iterator[Any]:
    """Yield the record batches of a Parquet file. InputError: too large.

    Batches are of few rows, as one text that all rows refer to is there as often as there are rows.
    """
    packed = path.stat().st_size
    names = [field.name for field in file.schema_arrow if _is_text(field.type)]
    # A text that many rows share is read once for all of them.
    file = type(file)(path, read_dictionary=names)
    check_unpacked(_VALUE_BYTES * file.metadata.num_rows, packed, str(path), advice=_ADVICE)
    groups = range(file.metadata.num_row_groups)
    declared = sum(file.metadata.row_group(number).total_byte_size for number in groups)
    check_unpacked(declared, packed, str(path), advice=_ADVICE)
    size = 0
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
        size += sum(map(_size, batch.columns))
        check_unpacked(size, packed, str(path), advice=_ADVICE)
        yield batch


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind))


def _size(array: Any) -> int:
    """Return about how many bytes the values of an array take as Python's objects."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary)
        return _VALUE_BYTES * len(array) + int(pc.sum(lengths.take(array.indices)).as_py() or 0)
    own = _VALUE_BYTES * len(array)
    if pa.types.is_struct(kind):
        return own + sum(map(_size, array.flatten()))
    if pa.types.is_map(kind):
        return own + _size(array.keys) + _size(array.items)
    if pa.types.is_nested(kind):
        return own + _size(array.flatten())
    return own + int(array.nbytes)
