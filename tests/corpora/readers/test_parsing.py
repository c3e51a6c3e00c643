"""JSON arrays and XML within limits: one item at a time, faults named, no bomb."""

import itertools
import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.json_values import json_values
from rejoinder.corpora.forms.source import Source
from rejoinder.corpora.forms.xml import xml_elements
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab\u00e9", max_size=3), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.lists(st.dictionaries(st.text('ab\u00e9"', max_size=4), VALUES, max_size=4), max_size=6)


def write(tmp_path, text, name="data"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def items(path, reading=None):
    return (value for _, value in json_values(Source(path), {"item"}, reading=reading))


def texts(path, *tags, root=""):
    return [(each.sourceline, "".join(each.itertext())) for each in xml_elements(path, Reading(), tags, root)]


@settings(max_examples=80)
@given(values=OBJECTS, indent=st.sampled_from([None, 2]), ascii_only=st.booleans())
def test_whatever_json_writes_is_read(tmp_path_factory, values, indent, ascii_only):
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
    assert list(items(write(tmp_path_factory.mktemp("json"), text))) == values


@pytest.mark.parametrize(("text", "reason"), [
    ("", ": not JSON, or cut off, after 0 objects"),
    ('[{"a": 1}\n{"b": 1}]', r": not JSON, or cut off, after 1 objects \(parse error: after array element"),
    ('[{"a": 1}', r": not JSON, or cut off, after 1 objects \(parse error: premature EOF"),
    ('[\n{"a": 1},\n{"a": B"}\n]', r": not JSON, or cut off, after 1 objects \(lexical error: invalid char in json text, line 3, column 7\); mend"),
    (b'[{"a":\n"\xff"}]', r": not JSON, or cut off, after 0 objects \(lexical error: invalid bytes in UTF8"),
    ('[{"a":' * 100_000, ": JSON nested more than 64 deep"),
    ("[" * 2**20, ": JSON nested more than 64 deep"),
    ('[{"a": ' + "1" * 5000 + "}]", r": not JSON, or cut off, after 0 objects \(parse error: integer overflow"),
])  # fmt: skip
def test_faults_of_json_have_their_object(tmp_path, text, reason):
    with pytest.raises(InputError, match=rf"data{reason}"):
        list(items(write(tmp_path, text)))


@pytest.mark.parametrize("bomb", [
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">\n<!ENTITY b "&a;&a;&a;&a;">]><x>&b;</x>',
    '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>',
    '<!DOCTYPE x SYSTEM "http://example.org/x.dtd"><x>&undeclared;</x>',
])  # fmt: skip
def test_entities_are_refused(tmp_path, bomb):
    with pytest.raises(InputError, match=r"data:[12]: an entity; files that need entities are not read"):
        texts(write(tmp_path, bomb), "x", "a")


@pytest.mark.parametrize(("text", "reason"), [
    ("", " is empty"),
    ("no xml", ":1: not XML, or cut off"),
    ("<x>\n<a></x>", ":2: not XML, or cut off"),
    ("<x>&u;</x>", ":1: not XML"),
    (f'<!DOCTYPE x [<!ATTLIST a b CDATA "{"x" * 500_000}">]><x>{"<a/>" * 20_000}</x>', ":1: not XML"),
    ("<x>" * 100_000, ":1: not XML, or cut off"),
    ('<?xml version="1.0" encoding="nonsense"?><x/>', r":1: not XML"),
])  # fmt: skip
def test_faults_of_xml_have_their_line(tmp_path, text, reason):
    with pytest.raises(InputError, match=rf"data{reason}"):
        texts(write(tmp_path, text), "a", "x")


def test_elements_have_their_line_and_the_root_can_be_asked_for(tmp_path):
    path = write(tmp_path, '<r xmlns="urn:x">\n<a>1<!-- no --></a>\n<b><a>2</a></b></r>')
    assert texts(path, "a", root="r") == [(2, "1"), (3, "2")]
    with pytest.raises(InputError, match=r"data:1: <r> instead of <mediawiki>"):
        texts(path, "a", root="mediawiki")


@pytest.mark.parametrize("kind", ["json", "xml"])
def test_memory_does_not_grow_with_the_file_and_items_come_before_a_fault(tmp_path, kind):
    one = json.dumps({"text": "x" * 20_000}) + "," if kind == "json" else f"<a>{'x' * 20_000}</a>"
    path = write(tmp_path, ("[" if kind == "json" else "<x>") + one * 1_000)  # 20 MB, and cut off
    peaks = []
    for _ in range(2):  # a thread that another test has left may allocate meanwhile
        reading = Reading()
        found = (
            items(path, reading) if kind == "json" else xml_elements(path, reading, ("a",))
        )
        tracemalloc.start()
        count = sum(1 for _ in itertools.islice(found, 1_000))
        with pytest.raises(InputError, match=r"after 1,000 objects|:1: not XML"):
            next(found)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert count == 1_000
    assert min(peaks) < 3_000_000
