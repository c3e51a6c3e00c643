"""Names as numbers of 64 bits."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.reddit_names import Names, carried, carry, is_hash, spell

NAME = st.text(st.sampled_from("0a\0\u00e9\U0001f602") | st.characters(exclude_categories=["Cs"]), max_size=11)


@settings(deadline=None)  # the first array may import pandas, where that is installed
@given(st.lists(NAME | st.none(), max_size=9), st.integers(0, 3))
def test_every_name_is_spelt_again_and_no_two_have_one_number(texts, skip):
    names = Names(pa.array(texts, pa.string()))
    codes = names.codes(skip)
    expected = [(text or "").encode()[skip:] for text in texts]
    hashed = is_hash(codes)
    known = carried([carry(name for name, odd in zip(expected, hashed, strict=True) if odd)])
    assert len({*codes.tolist()}) == len({*expected})
    if all(name.decode(errors="replace").encode() == name for name in expected):
        assert [name.encode() for name in spell(codes, known).to_pylist()] == expected
    assert all(len(name) > 8 or b"\0" in name for name, odd in zip(expected, hashed, strict=True) if odd)


@given(st.lists(NAME, max_size=9))
def test_beginnings(texts):
    names = Names(pa.array(texts, pa.string()))
    for start in ("t3_", "0a", "00"):
        assert names.begins_with(start.encode()).tolist() == [text.startswith(start) for text in texts]


def test_the_names_of_reddit_are_no_hashes():
    names = Names(pa.array(["dqxyz12", "7nbkdg", "", "zzzzzzzz"]))
    assert not is_hash(names.codes()).any()
    assert names.codes()[2] == 0
