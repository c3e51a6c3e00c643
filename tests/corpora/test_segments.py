"""Files of records in partitions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.segments import merge_records, read_records, record_bytes, write_records

SCHEMA = pa.schema([("a", pa.uint64()), ("b", pa.string()), ("c", pa.uint8()), ("d", pa.binary())])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
RECORD = st.tuples(st.integers(0, 2**64 - 1), TEXT, st.integers(0, 255), st.binary(max_size=5), st.integers(0, 3))
RECORDS = st.lists(RECORD, max_size=9)


def write(path, records):
    """Records whose last number says the partition."""
    batch = pa.RecordBatch.from_pylist([dict(zip("abcd", record, strict=False)) for record in records], SCHEMA)
    write_records(path, batch, np.array([record[-1] for record in records], np.int64), 4)
    return batch


def read(paths, number):
    return [tuple(row.values()) for row in read_records(paths, number, SCHEMA).to_pylist()]


@settings(max_examples=50, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=4))
def test_what_is_written_is_read_also_when_merged(tmp_path_factory, groups):
    folder = tmp_path_factory.mktemp("records")
    paths = [folder / str(number) for number in range(len(groups))]
    for path, records in zip(paths, groups, strict=True):
        batch = write(path, records)
        assert path.stat().st_size == record_bytes(batch) + 5 * 3 * 8  # and the places: five lines of three
    merge_records(paths, folder / "merged", SCHEMA)
    for number in range(4):
        expected = [record[:-1] for records in groups for record in records if record[-1] == number]
        assert read(paths, number) == expected
        assert read([folder / "merged"], number) == expected


def test_a_slice_of_records_is_written(tmp_path):
    batch = pa.RecordBatch.from_pylist([{"a": n, "b": "x" * n, "c": n, "d": b"y" * n} for n in range(9)], SCHEMA)
    write_records(tmp_path / "file", batch.slice(3, 4), np.array([1, 0, 1, 0]), 2)
    assert [row[0] for row in read([tmp_path / "file"], 0)] == [4, 6]
    assert [row[1] for row in read([tmp_path / "file"], 1)] == ["xxx", "xxxxx"]
