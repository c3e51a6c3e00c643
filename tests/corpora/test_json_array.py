"""Big JSON arrays, one object at a time."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora import json_array, lines
from rejoinder.corpora.json_array import array_objects
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=4), max_size=6)


def write(tmp_path, text):
    path = tmp_path / "data.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def objects(path):
    return [value for _, value in array_objects(path)]


@settings(max_examples=150, deadline=None)
@given(values=OBJECTS, indent=st.sampled_from([None, 0, 2]), ascii_only=st.booleans(), piece=st.integers(1, 40))
def test_whatever_json_writes_is_read(tmp_path_factory, values, indent, ascii_only, piece):
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
    path = write(tmp_path_factory.mktemp("json"), text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_PIECE_BYTES", piece)
        assert objects(path) == values


def test_each_object_has_its_line(tmp_path):
    path = write(tmp_path, '\n[\n\n{"a": 1},\n {"b":\n2}, {"c": 3}\n]\n')
    assert list(array_objects(path)) == [(4, {"a": 1}), (5, {"b": 2}), (6, {"c": 3})]


def test_compressed_and_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "data.json.gz"
    path.write_bytes(gzip.compress(b'\xef\xbb\xbf[{"a": "\xc3\xa9"}]'))
    assert objects(path) == [{"a": "é"}]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("  \n ", r'2: no JSON array; "\[", objects and "\]" are read'),
        ('{"a": 1}', "1: no JSON array"),
        ("[1, 2]", "1: a JSON int in the array; objects are read"),
        ('[{"a": 1}\n{"b": 1}]', '2: "," or "]" is missing'),
        ('[{"a": 1},\n]', "2: not JSON, or cut off"),
        ('[{"a": 1}', 'data.json:1: "," or "]" is missing'),
        ('[{"a": 1},\n{"b":\n"x', "3: not JSON, or cut off"),
        ('[{"a": 1},\n{"b"\n 1}]', "3: not JSON, or cut off"),
        ("[{}]\n\n[", "3: something follows after the array"),
        (b'[{"a":\n"\xff"}]', "1: at or after this line not UTF-8"),
        ("[" + "[" * 100_000, "1: JSON nested too deep"),
        ('[{"a": ' + "1" * 5000 + "}]", "1: not JSON, or cut off"),
    ],
)
def test_faults_have_their_line(tmp_path, text, reason):
    with pytest.raises(InputError, match=reason):
        objects(write(tmp_path, text))


def test_objects_before_a_fault_are_given(tmp_path):
    found = []
    with pytest.raises(InputError, match=r"data\.json:3"):
        found.extend(value for _, value in array_objects(write(tmp_path, '[{"a": 1},\n{"a": 2},\n{"a"]')))
    assert found == [{"a": 1}, {"a": 2}]


def test_an_object_above_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(json_array, "MAX_LINE_BYTES", 1 << 20)
    path = write(tmp_path, '[{"a": "' + "x" * (3 << 20) + '"}]')
    with pytest.raises(InputError, match=r"data\.json:1: not JSON, or an object above 1 MiB"):
        objects(path)


def test_memory_does_not_grow_with_the_array(tmp_path):
    one = json.dumps({"text": "x" * 20_000})
    path = write(tmp_path, "[" + ",\n".join([one] * 1_000) + "]")  # 20 MB
    tracemalloc.start()
    count = sum(1 for _ in array_objects(path, Reading()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1_000
    assert peak < 3_000_000
