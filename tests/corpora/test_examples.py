"""Examples in Parquet, in folders and in single files."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora import parquet as tables
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import SPLITS, content_thread, split_of
from rejoinder.corpora.forms.examples import read_columns, read_examples, write_examples
from rejoinder.errors import InputError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PLAIN = st.builds(Example, st.lists(TEXT, min_size=1, max_size=4).map(tuple), TEXT, TEXT, TEXT, TEXT)
WITH_CANDIDATES = st.lists(TEXT, min_size=1, max_size=3).flatmap(
    lambda texts: st.builds(Example, st.lists(TEXT, min_size=1, max_size=4).map(tuple), TEXT,
                            candidates=st.just(tuple(texts)), label=st.integers(0, len(texts) - 1))
)  # fmt: skip
SOME = [Example(("Hi!", f"message {number}"), f"response {number}", str(number), f"t{number}") for number in range(10)]


@pytest.fixture
def folder(tmp_path):
    """A data folder without a validation part, and with two files of the training part."""
    write_examples(SOME[:4], tmp_path / "data" / "train-00000.parquet")
    write_examples(SOME[4:7], tmp_path / "data" / "train-00001.parquet")
    write_examples(SOME[7:], tmp_path / "data" / "test-00000.parquet")
    return tmp_path / "data"


@settings(max_examples=60)
@given(examples=st.one_of(st.lists(PLAIN, max_size=9), st.lists(WITH_CANDIDATES, min_size=1, max_size=9)))
def test_what_is_written_is_read(tmp_path_factory, examples):
    path = tmp_path_factory.mktemp("round") / "examples.parquet"
    assert write_examples(examples, path) == len(examples)
    assert list(read_examples(path)) == examples


def test_the_schema_on_disk(tmp_path):
    write_examples(SOME, tmp_path / "plain.parquet")
    write_examples([Example(("a",), "b", candidates=("b", "c"), label=0)], tmp_path / "choice.parquet")
    plain = pq.ParquetFile(tmp_path / "plain.parquet")
    assert plain.schema_arrow.names == ["id", "thread", "source", "context", "response"]
    assert plain.schema_arrow.field("context").type.value_type == pa.string()
    assert plain.metadata.row_group(0).column(0).compression == "ZSTD"
    assert pq.read_schema(tmp_path / "choice.parquet").names[-2:] == ["candidates", "label"]


def test_row_groups_end_with_many_rows_or_characters(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "GROUP_ROWS", 100)
    monkeypatch.setattr(tables, "GROUP_CHARACTERS", 10_000)
    for examples in (SOME * 100, [Example(("x" * 6_000,), "y" * 5_000)] * 10):
        write_examples(examples, tmp_path / "groups.parquet")
        assert pq.ParquetFile(tmp_path / "groups.parquet").num_row_groups == 10


@pytest.mark.parametrize("order", [(True, False), (False, True)], ids=str)
def test_candidates_are_for_all_or_for_none(tmp_path, order):
    pair = {True: Example(("a",), "b", candidates=("b",), label=0), False: Example(("a",), "b")}
    with pytest.raises(InputError, match=r"example 1 has (no )?candidates and the ones before it have (some|none)"):
        write_examples([pair[each] for each in order], tmp_path / "mixed.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_part_is_named_with_those_that_are_there(folder, tmp_path):
    with pytest.raises(InputError, match=r"has no valid part, no valid-\*\.parquet; it has train, test"):
        list(read_examples(folder, "valid"))
    with pytest.raises(InputError, match=r"is not a data folder: .*; it holds data"):
        list(read_examples(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="it holds nothing"):
        list(read_columns(tmp_path / "empty", "train"))


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_single_file_is_split_as_a_folder_would_be(tmp_path, kind):
    lines = "".join(f'{{"context": ["m {number}"], "response": "r"}}\n' for number in range(300))
    (tmp_path / "pairs.jsonl").write_text(lines)
    write_examples(read_examples(tmp_path / "pairs.jsonl"), tmp_path / "pairs.parquet")
    parts = {split: list(read_examples(tmp_path / f"pairs.{kind}", split)) for split in SPLITS}
    assert all(split_of(example.thread) == split for split, part in parts.items() for example in part)
    assert sum(map(len, parts.values())) == 300
    assert parts["test"]
    rows = [batch.num_rows for batch in read_columns(tmp_path / f"pairs.{kind}", "test")]
    assert sum(rows) == len(parts["test"])


def test_a_folder_by_parts_whatever_the_threads(folder):
    assert list(read_examples(folder)) == SOME
    assert list(read_examples(folder, "train")) == SOME[:7]
    for part in (folder, folder / "test-00000.parquet"):
        assert list(read_examples(part, "test")) == SOME[7:]
    with pytest.raises(InputError, match="is the test part of a data folder; name the folder"):
        list(read_examples(folder / "test-00000.parquet", "train"))


def test_tables_of_others_may_leave_out_names(tmp_path):
    table = pa.table({"response": ["b"], "context": pa.array([["a"]], pa.large_list(pa.large_string())), "extra": [1]})
    pq.write_table(table, tmp_path / "foreign.parquet")
    assert list(read_examples(tmp_path / "foreign.parquet")) == [Example(("a",), "b")]
    batch = next(read_columns(tmp_path / "foreign.parquet", None, ("thread", "context")))
    assert batch.to_pylist() == [{"thread": "", "context": ["a"]}]
    (only,) = (split for split in SPLITS if list(read_examples(tmp_path / "foreign.parquet", split)))
    assert only == split_of(content_thread(["a"]))


@pytest.mark.parametrize(("table", "reason"), [
    ({"context": [["a"]]}, "has no column response; it has context"),
    ({"context": ["a"], "response": ["b"]}, "column context is string; list<item: string> is read"),
    ({"context": [["a"]], "response": [1]}, "column response is int64; string is read"),
    ({"context": [["a"], ["a"]], "response": ["b", None]}, "row 1 has no response"),
    ({"context": [["a"], None], "response": ["b", "c"]}, "row 1 has no context"),
    ({"context": [["a", None]], "response": ["b"]}, "a message of a context after row 0 is null"),
])  # fmt: skip
def test_tables_that_do_not_fit(tmp_path, table, reason):
    pq.write_table(pa.table(table), tmp_path / "bad.parquet")
    with pytest.raises(InputError, match=reason):
        list(read_examples(tmp_path / "bad.parquet"))
    with pytest.raises(InputError, match=reason):
        list(read_columns(tmp_path / "bad.parquet"))


@pytest.mark.parametrize("keep", [0, 3, 100, -1, -30])
def test_cut_off_and_foreign_parquet_is_refused(tmp_path, keep):
    path = tmp_path / "cut.parquet"
    write_examples(SOME, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"cut\.parquet is (empty|damaged or no Parquet)"):
        list(read_examples(path))


@pytest.mark.parametrize("column", ["context", "response"])
@pytest.mark.parametrize("length", [1, 300])
def test_altered_bytes_within_a_parquet_file_are_noticed(tmp_path, column, length):
    path = tmp_path / "altered.parquet"
    write_examples((Example((f"message {number}",), f"response {number}") for number in range(3_000)), path)
    group = pq.ParquetFile(path).metadata.row_group(0)
    chunk = next(group.column(each) for each in range(5) if group.column(each).path_in_schema.startswith(column))
    data = bytearray(path.read_bytes())
    for place in range(chunk.data_page_offset + 1_000, chunk.data_page_offset + 1_000 + length):
        data[place] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InputError, match="is damaged"):
        list(read_examples(path))


def test_unknown_columns_and_kinds(folder, tmp_path):
    with pytest.raises(InputError, match="examples have no column author; there are id, thread"):
        list(read_columns(folder, "train", ("author",)))
    (tmp_path / "pairs.txt").write_text("text")
    with pytest.raises(InputError, match=r"are read from \.parquet, \.jsonl and \.csv files"):
        list(read_examples(tmp_path / "pairs.txt"))
    with pytest.raises(InputError, match="does not exist"):
        list(read_examples(tmp_path / "nothing"))


@pytest.mark.parametrize("path", [None, 3, ["a.jsonl"]])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(InputError, match=r"name a data folder, or a \.parquet, .* file; given: " + re.escape(repr(path))):
        list(read_examples(path))


def test_a_text_file_without_an_example_is_refused(tmp_path):
    (tmp_path / "alone.jsonl").write_text('{"turns": ["only one"]}\n\n')
    with pytest.raises(InputError, match="holds no example"):
        list(read_examples(tmp_path / "alone.jsonl"))
