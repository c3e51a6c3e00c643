"""Files of segments, and records in them."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.segments import merge_segments, pack_rows, read_segment, unpack_rows, write_segments

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
ROWS = st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=5)


def packed(rows):
    columns = [pa.array([row[place] for row in rows], pa.string()) for place in range(3)]
    return b"".join(pack_rows(columns).to_pylist())


@settings(max_examples=50, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=5))
def test_what_is_written_is_read(tmp_path_factory, groups):
    path = tmp_path_factory.mktemp("segments") / "file"
    write_segments(path, list(map(packed, groups)))
    for number, rows in enumerate(groups):
        read = unpack_rows(read_segment(path, number), ("a", "b", "c"))
        assert [tuple(row.values()) for row in read.to_pylist()] == rows
        assert read.schema.names == ["a", "b", "c"]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.randoms())
def test_merged_files_hold_everything_in_order(tmp_path_factory, count, files, source):
    folder = tmp_path_factory.mktemp("segments")
    contents = [[source.randbytes(source.randrange(20)) for _ in range(count)] for _ in range(files)]
    for name, segments in enumerate(contents):
        write_segments(folder / str(name), segments)
    merge_segments([folder / str(name) for name in range(files)], folder / "merged")
    for number in range(count):
        assert read_segment(folder / "merged", number) == b"".join(segments[number] for segments in contents)
