"""Files of segments, and records in them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.segments import add_record, merge_segments, read_segment, records_of, write_segments

RECORDS = st.lists(st.binary(max_size=300), max_size=5)


@settings(max_examples=50, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=5))
def test_what_is_written_is_read(tmp_path_factory, groups):
    path = tmp_path_factory.mktemp("segments") / "file"
    segments = []
    for records in groups:
        segments.append(bytearray())
        for record in records:
            add_record(segments[-1], record)
    write_segments(path, segments)
    for number, records in enumerate(groups):
        assert list(records_of(read_segment(path, number))) == records


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
