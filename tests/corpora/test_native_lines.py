"""The library in C gives what Python gives, and gives up where it cannot."""

from __future__ import annotations

import json
import shutil
import sys

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rejoinder.corpora import lines, native_lines, reddit
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.native_lines import ABSENT, NULL, TEXT, is_built, line_ends, text_columns
from rejoinder.corpora.reddit import CORPUS
from rejoinder.corpora.reddit_rules import RedditSettings
from rejoinder.errors import InputError

from .mangled import mangled
from .reddit_lines import blocks, comment, dump, submission

needs_library = pytest.mark.skipif(not is_built(), reason="the library was not compiled")
ALL = sys.maxsize


class Wanted(msgspec.Struct):
    """The same fields by msgspec."""

    a: str | msgspec.UnsetType | None = msgspec.UNSET
    body: str | msgspec.UnsetType | None = msgspec.UNSET


def by_msgspec(data: bytes) -> list[list[tuple[int, str]]]:
    """Kinds and texts of the fields `a` and `body`."""
    kinds = {msgspec.UNSET: (ABSENT, ""), None: (NULL, "")}
    rows = [msgspec.json.decode(line, type=Wanted) for line in data.splitlines()]
    columns = [row.a for row in rows], [row.body for row in rows]
    return [[kinds.get(value, (TEXT, value)) for value in column] for column in columns]


def by_library(data: bytes, most: int = ALL) -> list[list[tuple[int, str]]] | None:
    columns = text_columns(data, len(data.splitlines()), {"a": most, "body": most})
    if columns is None:
        return None
    for column in columns:
        column.texts.validate(full=True)
    return [list(zip(column.kinds.tolist(), column.texts.to_pylist(), strict=True)) for column in columns]


TEXTS = st.one_of(st.text(max_size=40), st.text('ab"\\/\n\té€😂\x7f', max_size=40))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda value: st.one_of(st.lists(value, max_size=3), st.dictionaries(TEXTS, value, max_size=3)),
    max_leaves=6,
)
OBJECTS = st.builds(
    lambda others, wanted: others | wanted,
    st.dictionaries(TEXTS.filter(lambda key: key not in ("a", "body") and '"' not in key), VALUES, max_size=6),
    st.dictionaries(st.sampled_from(["a", "body"]), st.one_of(st.none(), TEXTS)),
)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), ("\t, ", " :\t")])


def written(objects, separators, ascii_only) -> bytes:
    lines = [json.dumps(each, separators=separators, ensure_ascii=ascii_only) + "\n" for each in objects]
    return "".join(lines).encode()


def test_it_is_there_if_it_could_be_made():
    assert is_built() == bool(shutil.which("cc") or shutil.which("gcc"))


@needs_library
@settings(max_examples=300, deadline=None)
@given(st.lists(OBJECTS, min_size=1, max_size=5), SEPARATORS, st.booleans(), st.booleans())
def test_columns_are_those_of_msgspec(objects, separators, ascii_only, ends):
    data = written(objects, separators, ascii_only)
    data = data if ends else data[:-1]
    expected = by_msgspec(data)
    found = by_library(data)
    if found is None:  # the only sound lines that it leaves to others: an escape in a key
        assert any(json.dumps(key, ensure_ascii=ascii_only) != f'"{key}"' for each in objects for key in each)
    else:
        assert found == expected


SOUND = [{"a": "say “hi”", "x": [1, -2.5e3, {"b": True}], "body": 'b"c\n\U0001f602'}, {"body": None, "n": 0}]
LINES = written(SOUND, (",", ":"), ascii_only=True)
PIECES = [b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u", b"\\ud800", b",", b":", b"\n", b"\0", b"\x1f", b"\xff", b" ",
          b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"00", b"1.", b"-", b"1e", b"nul", b'"a":"z",',
          b'"\\u0061":"z",']  # fmt: skip


@needs_library
@settings(max_examples=1500, deadline=None)
@given(st.one_of(mangled(LINES, PIECES), mangled(LINES * 3, PIECES), st.binary(max_size=60)))
def test_it_takes_nothing_that_msgspec_refuses(data):
    found = by_library(data)
    if found is not None:
        assert found == by_msgspec(data)


@needs_library
@pytest.mark.parametrize("line", [
    b"", b" ", b"[]", b'"a"', b"{} {}", b"{}x", b"{", b'{"a"}', b'{"a":}', b'{"a":"b",}', b'{"a":"b" "body":"c"}',
    b'{"a":"b","a":"c"}', b'{"a":1}', b'{"a":["b"]}', b'{"a":"\\x"}', b'{"a":"\\u12g4"}', b'{"a":"\\ud800"}',
    b'{"a":"\\ud800\\u0041"}', b'{"a":"\\udc00\\ud800"}', b'{"a":"\xc3"}', b'{"a":"\xe0\x80\x80"}', b'{"a":"b\n"}',
    b'{"x":01}', b'{"x":.5}', b'{"x":1.}', b'{"x":1e}', b'{"x":+1}', b'{"x":NaN}', b'{"x":truth}', b'{"x":[1,]}',
    b'{"x":{"y":1,}}', b'{"x":{1:2}}', b'{"\\u0061":"b"}', b'{"x":' + b"[" * 70 + b"]" * 70 + b"}", b"{}\r",
])  # fmt: skip
def test_a_line_that_is_not_plainly_sound_is_refused(line):
    assert text_columns(b'{"a":"b"}\n' + line + b"\n", 2, {"a": ALL}) is None
    assert text_columns(line, 1, {"a": ALL}) is None


@needs_library
def test_the_number_of_lines_must_be_right():
    data = b'{"a":"b"}\n' * 3
    assert [text_columns(data, lines, {"a": 1}) is None for lines in (2, 3, 4)] == [True, False, True]
    (column,) = text_columns(b"", 0, {"a": 1}) or pytest.fail("an empty block has no lines")
    assert len(column.texts) == 0


@needs_library
@settings(max_examples=200, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(0, 12), st.booleans())
def test_texts_are_cut_to_characters(texts, most, ascii_only):
    data = written([{"a": text} for text in texts], (",", ":"), ascii_only)
    (column, _) = by_library(data, most) or pytest.fail("the lines are sound")
    assert [text for _, text in column] == [text[:most] for text in texts]


@needs_library
def test_other_keys_in_every_line_and_more_than_are_remembered():
    keys = [[f"{n}-{row}" if n % 3 else f"key {n}" for n in range(300)] for row in range(4)]
    objects = [dict.fromkeys(each, 1.5) | {"a": f"text {row}"} for row, each in enumerate(keys)]
    data = written([*objects, {"a": "x"}, *objects[::-1]], (",", ":"), ascii_only=True)
    assert by_library(data) == by_msgspec(data)


@needs_library
def test_room_for_the_texts_is_kept_and_grows(monkeypatch):
    monkeypatch.setattr(native_lines, "_KEPT_BYTES", 100)
    for size in (1, 30, 300, 30_000, 10):
        data = written([{"a": "é" * size, "body": "b" * size}] * 2, (",", ":"), ascii_only=False)
        assert by_library(data) == by_msgspec(data)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([b"\n", b"a", b"\n" * 9, b"b" * 63, b"c" * 200]), max_size=30).map(b"".join))
@example(b"\n" * 1000)
def test_line_ends_are_numpys(data):
    letters = np.frombuffer(data, np.uint8)
    expected = np.flatnonzero(letters == ord("\n"))
    if is_built():
        assert line_ends(letters).tolist() == expected.tolist()
    assert lines._numpy_ends(letters).tolist() == expected.tolist()


def scattered(data: bytes, settings: RedditSettings):
    """What a block gives: its records, the counts, or the error."""
    reading = Reading(skip_bad=settings.depth > 1)
    try:
        records = [CORPUS.scatter(block, reading, settings).to_pylist() for block in blocks(data)]
    except InputError as error:
        return str(error)
    return records, reading.counts()


DUMP = dump([comment("a"), comment("b", "a", "“é” 😂 " * 40), comment("cdefghijk", "b", " "),
             comment("d", "a", "[deleted]")])  # fmt: skip
SETTINGS = [RedditSettings(), RedditSettings(unit="words", min_length=1), RedditSettings(drop_bots=True),
            RedditSettings(max_length=300, cut=20, depth=1),
            RedditSettings(subreddits=("pics",), titles=True)]  # fmt: skip
ODD = [b'{"id":"x"}', b"{}", b"null", b"\n", b"\xef\xbb\xbf", b'"title":"x",', b'"body":null,', b'"id":7,', b't3_',
       dump([submission()]), b" ", b"\\", b'"']  # fmt: skip


@needs_library
@settings(max_examples=400, deadline=None)
@given(st.one_of(st.just(DUMP), mangled(DUMP, ODD)), st.sampled_from(SETTINGS))
def test_reddit_is_the_same_without_it(data, rules):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reddit, "text_columns", lambda *_: None)
        expected = scattered(data, rules)
    assert scattered(data, rules) == expected


@needs_library
def test_reddit_uses_it(monkeypatch):
    monkeypatch.setattr(reddit, "_DECODER", None)
    records, counts = scattered(DUMP, RedditSettings())
    assert [len(each) for each in records] == [4]
    assert counts["lines"] == 4


@needs_library
def test_memory_is_only_taken_for_lines_that_can_be_comments(monkeypatch):
    asked = []
    monkeypatch.setattr(reddit, "text_columns", lambda *given: asked.append(given[1]))
    assert scattered(b"\n" * 5_000, RedditSettings())[0] == [[]]
    assert scattered(b'{"id":"a","link_id":"t3_a","body":""}\n' * 9, RedditSettings())[1]["lines"] == 9
    assert asked == [9]


def test_without_it_there_is_another_way(monkeypatch, tmp_path):
    native_lines._library.cache_clear()
    monkeypatch.setattr(native_lines, "LIBRARY", tmp_path / "none.so")
    try:
        assert not is_built()
        assert text_columns(b"{}", 1, {"a": 1}) is None
        assert line_ends(np.zeros(1, np.uint8)) is None
        records, _ = scattered(DUMP, RedditSettings())
        assert [len(each) for each in records] == [4]
    finally:
        native_lines._library.cache_clear()


@needs_library
def test_a_library_of_another_source_is_not_used(monkeypatch, tmp_path):
    native_lines._library.cache_clear()
    other = tmp_path / "native_lines.c"
    other.write_bytes(native_lines._SOURCE.read_bytes() + b"\n")
    monkeypatch.setattr(native_lines, "_SOURCE", other)
    try:
        assert not is_built()
    finally:
        native_lines._library.cache_clear()
