"""A search with a filter is a search of everything, and the filter afterwards."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import SearchOptions
from rejoinder.retrieval.cascade import Cascade
from tests.retrieval.conftest import HashEncoder
from tests.retrieval.test_cascade import ByLength

VALUES = st.sampled_from(["billing", "sales", "3", 3, True, None, 0.5, ["billing", 3]])
PAYLOADS = st.dictionaries(st.sampled_from(["team", "é", "url"]), VALUES)
CHATS = [["one"], ["two", "Hi"], ["7"], ["3", "one"]]


@pytest.fixture
def index(tmp_path, encoder):
    payloads = [{"team": "billing", "id": 7}, {"team": "sales", "tags": ["new", "urgent"]}, {}, {"team": "billing"}]
    return Index.build(encoder, [Candidate(f"{i}", payload) for i, payload in enumerate(payloads)], tmp_path / "index")


def positions(found):
    return [[reply.position for reply in replies] for replies in found]


def texts(value):
    return {
        each if isinstance(each, str) else json.dumps(each) for each in (value if isinstance(value, list) else [value])
    }


@settings(max_examples=30)
@given(
    st.lists(st.lists(PAYLOADS, min_size=1, max_size=8), min_size=1, max_size=3), st.sets(st.integers(0, 23)),
    st.dictionaries(st.sampled_from(["team", "é"]), VALUES), st.integers(1, 9),
)  # fmt: skip
def test_a_filtered_search_is_a_search_filtered_afterwards(tmp_path_factory, parts, gone, where, k):
    index = Index.build(HashEncoder(), [], tmp_path_factory.mktemp("where") / "index")
    for part in parts:
        index.add([Candidate(f"{len(index) + i}", payload) for i, payload in enumerate(part)])
    index.delete(position for position in gone if position < index.manifest.end)

    def passes(candidate):
        there = candidate.payload
        return all(name in there and texts(there[name]) & texts(value) for name, value in where.items())

    wanted = [[reply for reply in replies if passes(reply)][:k] for replies in index.search(CHATS, k=24)]
    assert index.search(CHATS, k, where=passes) == wanted
    if all(any(name in candidate.payload for _, candidate in index) for name in where):
        assert index.search(CHATS, k, where=where) == wanted == [index.search([c], k, where=where)[0] for c in CHATS]
        assert index.count(where) == sum(passes(candidate) for _, candidate in index)


@pytest.mark.parametrize(
    ("where", "passing"),
    [
        ({}, {0, 1, 2, 3}), ({"team": "billing"}, {0, 3}), ({"team": ("sales", "billing")}, {0, 1, 3}),
        ({"team": "billing", "id": "7"}, {0}), ({"id": {7, 8}}, {0}), ({"tags": "urgent"}, {1}), ({"team": []}, set()),
        ({"team": "Billing"}, set()), (lambda reply: reply.text > "1", {2, 3}),
    ],
)  # fmt: skip
def test_fields_that_must_hold(index, where, passing):
    [found] = positions(index.search([["x"]], where=where))
    assert set(found) == passing
    vectors = index.encoder.encode_contexts([["x"]])
    assert positions(index.search_vectors(vectors, SearchOptions(where=where))) == [found]
    assert index.count(where) == len(passing)
    assert {*positions(Cascade(index, ByLength()).search([["x"]], where=where))[0]} == passing


NUMBERS = [3, 3.0, True, 1, 0, -0.0, 0.5, [3.0, "x"], 10**16, 1e16, None]


@pytest.mark.parametrize(
    ("value", "passing"),
    [
        (3, {0, 1, 7}), (3.0, {0, 1, 7}), (True, {2}), (1, {3}), (1.0, {3}), (0, {4, 5}), (-0.0, {4, 5}), (0.5, {6}),
        (10**16, {8, 9}), (1e16, {8, 9}), (None, {10}), ([3, 1], {0, 1, 3, 7}), ([[3]], {0, 1, 7}),
        (np.int64(3), {0, 1, 7}), (np.float32(0.5), {6}), (np.bool_(True), {2}), (np.array([3, 1]), {0, 1, 3, 7}),
        (10**400, set()), (float("inf"), set()),
    ],
)  # fmt: skip
def test_equal_numbers_are_equal_however_they_are_written(tmp_path, value, passing):
    replies = [Candidate(f"{i}", {"price": price}) for i, price in enumerate(NUMBERS)]
    index = Index.build(HashEncoder(), replies, tmp_path / "index")
    assert set(positions(index.search([["x"]], 20, where={"price": value}))[0]) == passing


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ({"topic": "x"}, "no reply has a field 'topic'; the fields are id, tags, team"),
        ({"team": object()}, "where 'team': .* not JSON serializable; values are of JSON types"),
        ("team=x", "where is 'team=x'; it is a mapping"),
    ],
)
def test_filters_that_cannot_be_used_say_what_there_is(index, where, told):
    with pytest.raises(InputError, match=told):
        index.search([["x"]], where=where)


def test_payloads_are_read_once_for_each_field(index, monkeypatch):
    [segment] = index._segments
    read = []
    lines = segment.lines
    monkeypatch.setattr(segment, "lines", lambda: read.append(1) or lines())
    for team in ("billing", "sales", "none"):
        index.search([["x"]], where={"team": team})
    assert len(read) == 1


def test_fields_that_no_reply_has_are_looked_up_once_and_not_kept(index, monkeypatch):
    [segment] = index._segments
    read = []
    lines, line = segment.lines, segment.line
    monkeypatch.setattr(segment, "lines", lambda: read.append(1) or lines())
    monkeypatch.setattr(segment, "line", lambda row: read.append(1) or line(row))
    for number in range(20):
        with pytest.raises(InputError, match=rf"no reply has a field 'x{number}'; the fields are id, tags, team"):
            index.search([["x"]], where={f"x{number}": "a"})
    assert len(read) == 1
    assert not [name for name in segment._columns if name.startswith("x")]
    assert index.count({"team": "billing"}) == 2


def test_an_altered_payload_is_named(index):
    path = index.folder / "segment-000000000000" / "replies.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"sales"', b'"sal"s"'))
    with pytest.raises(InputError, match="line 2 was altered"):
        Index.open(index.store, index.encoder, verify=False).search([["x"]], where={"team": "sales"})
