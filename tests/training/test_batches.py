"""Batches: random pairs, every example once an epoch, whatever the lengths."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.training.batches import (
    WHOLE,
    EpochOrder,
    Portion,
    equal_pairs,
    make_batch,
    make_step,
    prefetched,
)
from rejoinder.training.tokens import Column, TokenStore, token_hashes


def column(texts):
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return Column(np.array([i for text in texts for i in text], dtype=np.int32), offsets)


def store(inputs, responses):
    side = column(responses)
    return TokenStore(column(inputs), side, token_hashes(side.ids, np.diff(side.offsets).astype(np.int32)))


def test_an_epoch_has_every_example_once_but_for_the_incomplete_batch():
    order = EpochOrder(103, 10, (0, 0))
    first = np.concatenate([order.rows(step) for step in range(10)])
    second = np.concatenate([order.rows(step) for step in range(10, 20)])
    assert order.batches_per_epoch == 10
    assert len(set(first.tolist())) == len(set(second.tolist())) == 100
    assert first.tolist() != second.tolist()
    assert set(first.tolist()) != set(second.tolist()), "each epoch leaves others out"


def test_composition_does_not_depend_on_length():
    """The other pairs are the negatives: batches of like lengths would make them easier or harder."""
    generator = np.random.default_rng(0)
    texts = [[1] * int(n) for n in generator.integers(1, 40, 2000)]
    order, examples = EpochOrder(2000, 100, (0, 0)), store(texts, texts)
    batch_means = [examples.input.gather(order.rows(step))[1].mean() for step in range(20)]
    lengths = np.diff(examples.input.offsets)
    expected_spread = lengths.std() / np.sqrt(100)
    assert np.std(batch_means) < 2 * expected_spread
    short = store([[1]] * 2000, [[1]] * 2000)
    assert make_batch(short, order.rows(3), 9).pairs == 100, "the same rows, whatever the texts"


def test_further_responses_follow_those_of_the_pairs():
    examples = store([[1, 2], [3], [4, 5, 6]], [[7], [8, 9], [7]])
    batch = make_batch(examples, np.array([1, 0]), 99, further=np.array([2, 1, 2, 2]))
    ids, lengths = batch.tokens.ids, [s.length for s in batch.tokens.segments for _ in range(s.count)]
    starts = np.cumsum([0, *lengths])
    rows = [[i for i in ids[a:b].tolist() if i != 99] for a, b in itertools.pairwise(starts)]
    assert [rows[place] for place in batch.tokens.restore.tolist()] == [
        [3], [1, 2], [8, 9], [7], [7], [8, 9], [7], [7]
    ]  # fmt: skip
    assert batch.pairs == 2
    step = make_step(examples, np.array([1, 0]), 99, WHOLE, lambda _: np.array([[2], [1]]))
    assert sorted(zip(*step.equal.tolist(), strict=True)) == [(0, 3), (1, 2)]


def test_portions_and_parts_have_the_further_responses_of_their_own_pairs():
    texts = [[i] for i in range(12)]
    examples, rows = store(texts, texts), np.arange(4)

    def further(chosen):
        return np.repeat(chosen, 2).reshape(-1, 2) + 4

    whole = make_step(examples, rows, 99, WHOLE, further)
    halves = [make_step(examples, rows, 99, Portion(rank, 2, 1), further) for rank in range(2)]

    def texts_of(part):
        return part.tokens.ids[part.tokens.restore].tolist()

    assert texts_of(whole.parts[0])[8:] == [4, 4, 5, 5, 6, 6, 7, 7]
    assert [texts_of(part)[2:] for half in halves for part in half.parts] == [[4, 4], [5, 5], [6, 6], [7, 7]]
    assert [half.equal.shape[1] for half in halves] == [0, 0]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=20))
def test_equal_pairs_are_all_ordered_pairs_of_equal_hashes(values):
    found = equal_pairs(np.array(values, dtype=np.int64))
    n = len(values)
    assert found.shape[0] == 2
    assert sorted(zip(*found.tolist(), strict=True)) == [
        (i, j) for i in range(n) for j in range(n) if i != j and values[i] == values[j]
    ]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([1, 2, 3, 4, 6]), st.integers(0, 13), st.integers(0, 100))
def test_the_processes_share_a_batch_and_find_equal_responses_of_each_other(processes, micro_batch, seed):
    generator = np.random.default_rng(seed)
    examples = store([[i + 100] for i in range(30)], [[int(i)] for i in generator.integers(0, 6, 30)])
    rows = generator.permutation(30)[:12]
    whole = make_step(examples, rows, 99, WHOLE)
    found, inputs = [], []
    for rank in range(processes):
        share = make_step(examples, rows, 99, Portion(rank, processes, micro_batch))
        assert (share.pairs, share.first) == (12, rank * 12 // processes)
        assert all(part.pairs <= (micro_batch or 12) for part in share.parts)
        found += [(i + share.first, j) for i, j in share.equal.T.tolist()]
        for part in share.parts:
            inputs += part.tokens.ids[part.tokens.restore][: part.pairs].tolist()
    assert sorted(found) == sorted(map(tuple, whole.equal.T.tolist()))
    assert inputs == [int(row) + 100 for row in rows], "every pair once, in the order of the whole batch"


def test_the_stream_starts_anywhere_and_asks_for_nothing_beyond_its_end():
    texts = [[i + 1] for i in range(40)]
    examples, order = store(texts, texts), EpochOrder(40, 8, (0, 0))

    def make(step):
        asked.append(step)
        return make_step(examples, order.rows(step), 99, WHOLE)

    asked = []
    whole, late = prefetched(make, 0, None), prefetched(make, 7, None)
    everything = [next(whole) for _ in range(9)]
    for wanted in everything[7:]:
        assert next(late).parts[0].tokens.ids.tolist() == wanted.parts[0].tokens.ids.tolist()
    whole.close()
    late.close()
    asked.clear()
    assert len(list(prefetched(make, 2, 5))) == 3
    assert asked == [2, 3, 4]
