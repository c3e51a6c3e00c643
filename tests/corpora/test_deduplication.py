"""Copies among examples: by digest, in buckets, the first stays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora import deduplication
from rejoinder.corpora.deduplication import PairList, copies_of, find_copies, pair_digests
from rejoinder.corpora.example import SPLITS, Example
from rejoinder.corpora.tables import batch_of
from rejoinder.errors import InputError


def pair_digest(example):
    (digest,) = pair_digests(batch_of([example]))
    return digest


TEXT = st.text("ab", max_size=3)
TEXTS = st.lists(TEXT, min_size=1, max_size=3).map(tuple)
EXAMPLES = st.builds(Example, TEXTS, TEXT, id=TEXT, candidates=st.one_of(st.just(()), TEXTS))


@settings(max_examples=300, deadline=None)
@given(EXAMPLES, EXAMPLES)
def test_equal_digests_are_equal_contexts_responses_and_candidates(one, two):
    same = (one.context, one.response, one.candidates) == (two.context, two.response, two.candidates)
    assert (pair_digest(one) == pair_digest(two)) == same


def test_texts_of_many_lengths_and_letters():
    texts = ["", "a", "é", "日本", "\0", "a\0", "a" * 70_000]
    examples = [Example((one, two), three) for one in texts for two in texts for three in texts]
    assert len({pair_digest(example) for example in examples}) == len(texts) ** 3
    assert {len(pair_digest(example)) for example in examples} == {16}


def test_half_of_a_surrogate_pair_is_an_error():
    with pytest.raises(InputError, match="example x: a text holds half of a surrogate pair"):
        pair_digest(Example(("\ud800",), "b", "x"))


HALVES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40)


@settings(max_examples=300, deadline=None)
@given(HALVES)
def test_digests_are_sorted_and_equal_ones_stay_in_their_order(halves):
    pairs = np.array(halves, np.uint64).reshape(-1, 2) << np.uint64(60)
    found = deduplication._order(pairs[:, 0], pairs[:, 1])
    assert found.tolist() == sorted(range(len(halves)), key=lambda row: halves[row])


PLACED = st.tuples(st.integers(0, 15), st.sampled_from(SPLITS))


def digest(number):
    """A digest that says in which part of the range it is."""
    return (number * 2**127 // 8).to_bytes(16, "little")[8:] + number.to_bytes(8, "little")


@settings(max_examples=100, deadline=None)
@given(
    chunks=st.lists(st.lists(PLACED, min_size=1, max_size=12), min_size=1, max_size=5),
    buckets=st.integers(1, 6),
)
def test_the_first_of_equal_ones_stays(tmp_path_factory, chunks, buckets):
    """Against a set, whatever the number of buckets."""
    folder = tmp_path_factory.mktemp("copies")
    seen, expected, rows = set(), set(), {}
    for number, chunk in enumerate(chunks):
        pairs, within, added = PairList(), set(), [0] * len(SPLITS)
        for value, split in chunk:
            row = rows.get((number, split), 0)
            new = pairs.add([digest(value)], [SPLITS.index(split)], added)
            assert new.tolist() == [value not in within]
            if value not in within:
                rows[number, split] = row + 1
                if value in seen:
                    expected.add((number, split, row))
            within.add(value)
        seen |= within
        assert len(pairs) == len(within)
        pairs.save(folder / f"{number}.npy")
    lists = [folder / f"{number}.npy" for number in range(len(chunks))]
    files = [folder / f"copies-{bucket}.npy" for bucket in range(buckets)]
    found = [find_copies(lists, bucket, buckets, file) for bucket, file in enumerate(files)]
    copies = {
        (number, split, int(row))
        for number in range(len(chunks))
        for split in SPLITS
        for row in copies_of(files, number, split)
    }
    assert copies == expected
    counts = {}
    for number, split, count in (each for bucket in found for each in bucket):
        counts[number, split] = counts.get((number, split), 0) + count
    assert counts == {key: sum(each[:2] == key for each in expected) for key in {each[:2] for each in expected}}
    assert math.fsum(counts.values()) == len(expected)
