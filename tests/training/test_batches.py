"""Batches: random pairs, every example once an epoch, whatever the lengths; exact shares of several sets."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.errors import InputError
from rejoinder.training.data.batches import (
    EpochOrder,
    MixedOrder,
    Portion,
    equal_pairs,
    make_step,
    prefetched,
    split_batch,
)
from rejoinder.training.data.histories import ChangedHistorySource
from rejoinder.training.negatives import with_negatives
from rejoinder.training.preparation.inputs import prepare
from rejoinder.training.recipe.settings import History
from rejoinder.arrays import Column
from rejoinder.training.data.tokens import Histories, TokenStore, join_stores, token_hashes
from tests.training.tiny import recipe, stage, write_data


def column(texts):
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return Column(np.array([i for text in texts for i in text], dtype=np.int32), offsets)


def histories(texts):
    """One text of each example, or none."""
    slots = column([[0] if text else [] for text in texts])
    return Histories(column([text for text in texts if text]), slots, slots.offsets[:-1])


def store(inputs, responses):
    side = column(responses)
    return TokenStore(
        column(inputs), side, token_hashes(side.ids, np.diff(side.offsets).astype(np.int32))
    )


def test_an_epoch_has_every_example_once_but_for_the_incomplete_batch():
    order = EpochOrder(103, 10, (0, 0))
    first = np.concatenate([order.rows(step) for step in range(10)])
    second = np.concatenate([order.rows(step) for step in range(10, 20)])
    assert order.batches_per_epoch == 10
    assert len(set(first.tolist())) == len(set(second.tolist())) == 100
    assert first.tolist() != second.tolist()
    assert set(first.tolist()) != set(second.tolist()), "each epoch leaves others out"


def test_portions_and_parts_have_the_further_responses_of_their_own_pairs():
    texts = [[i] for i in range(12)]
    examples, rows = store(texts, texts), np.arange(4)

    def negatives(chosen):
        return np.repeat(chosen, 2).reshape(-1, 2) + 4

    whole = make_step(examples, rows, 99, Portion(), negatives)
    halves = [make_step(examples, rows, 99, Portion(rank, 2, 1), negatives) for rank in range(2)]

    def texts_of(part):
        return part.tokens.ids[part.tokens.restore].tolist()

    assert texts_of(whole.parts[0])[8:] == [4, 4, 5, 5, 6, 6, 7, 7]
    assert [texts_of(part)[2:] for half in halves for part in half.parts] == [
        [4, 4],
        [5, 5],
        [6, 6],
        [7, 7],
    ]
    assert [half.equal.shape[1] for half in halves] == [0, 0]


@settings(max_examples=50)
@given(st.lists(st.integers(0, 6), max_size=20))
def test_equal_pairs_are_all_ordered_pairs_of_equal_hashes(values):
    found = equal_pairs(np.array(values, dtype=np.int64))
    n = len(values)
    assert found.shape[0] == 2
    assert sorted(zip(*found.tolist(), strict=True)) == [
        (i, j) for i in range(n) for j in range(n) if i != j and values[i] == values[j]
    ]


@settings(max_examples=30)
@given(st.sampled_from([1, 2, 3, 4, 6]), st.integers(0, 13), st.integers(0, 100))
def test_the_processes_share_a_batch_and_find_equal_responses_of_each_other(
    processes, micro_batch, seed
):
    generator = np.random.default_rng(seed)
    examples = store(
        [[i + 100] for i in range(30)], [[int(i)] for i in generator.integers(0, 6, 30)]
    )
    rows = generator.permutation(30)[:12]
    whole = make_step(examples, rows, 99, Portion())
    found, inputs = [], []
    for rank in range(processes):
        share = make_step(examples, rows, 99, Portion(rank, processes, micro_batch))
        assert (share.pairs, share.first) == (12, rank * 12 // processes)
        assert all(part.pairs <= (micro_batch or 12) for part in share.parts)
        found += [(i + share.first, j) for i, j in share.equal.T.tolist()]
        for part in share.parts:
            inputs += part.tokens.ids[part.tokens.restore][: part.pairs].tolist()
    assert sorted(found) == sorted(map(tuple, whole.equal.T.tolist()))
    assert inputs == [int(row) + 100 for row in rows], (
        "every pair once, in the order of the whole batch"
    )


def test_the_stream_starts_anywhere_and_asks_for_nothing_beyond_its_end():
    texts = [[i + 1] for i in range(40)]
    examples, order = store(texts, texts), EpochOrder(40, 8, (0, 0))

    def make(step):
        asked.append(step)
        return make_step(examples, order.rows(step), 99, Portion())

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


@pytest.fixture(scope="module")
def general(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("general"), train=500, topics=30, seed=5)


@settings(max_examples=100)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(5, 600))
def test_a_batch_is_split_to_whole_pairs_within_one_of_the_shares(weights, batch_size):
    shares = [weight / sum(weights) for weight in weights]
    try:
        counts = split_batch(batch_size, shares)
    except InputError:
        assert min(shares) * batch_size < 1
        return
    assert sum(counts) == batch_size
    assert min(counts) >= 1
    assert all(
        abs(count - share * batch_size) < 1 + 1e-6
        for count, share in zip(counts, shares, strict=True)
    )


@settings(max_examples=40)
@given(
    sizes=st.tuples(st.integers(20, 90), st.integers(20, 90), st.integers(20, 90)),
    shares=st.sampled_from([(0.5, 0.25, 0.25), (0.2, 0.5, 0.3), (1 / 3, 1 / 3, 1 / 3)]),
    seed=st.integers(0, 100),
)
def test_every_batch_has_the_same_shares_and_each_set_its_own_epochs(sizes, shares, seed):
    order = MixedOrder(sizes, shares, 20, (seed, 0))
    borders = np.cumsum([0, *sizes])
    seen = [[], [], []]
    for step in range(25):
        rows = order.rows(step)
        owners = np.searchsorted(borders, rows, side="right") - 1
        assert tuple(np.bincount(owners, minlength=3)) == order.counts
        for owner in range(3):
            seen[owner] += (rows[owners == owner] - borders[owner]).tolist()
    for size, count, found in zip(sizes, order.counts, seen, strict=True):
        epoch = size // count * count
        assert max(Counter(found[:epoch]).values()) == 1, (
            "no example comes again before the next epoch"
        )
        assert set(found) <= set(range(size))


def test_the_order_of_a_set_does_not_depend_on_shares_or_other_sets():
    """Another share cuts the same order into other batches; another set changes nothing."""
    orders = [
        MixedOrder((100, 300), (0.25, 0.75), 40, (3, 1)),
        MixedOrder((100, 300), (0.75, 0.25), 40, (3, 1)),
    ]
    orders.append(MixedOrder((100, 77), (0.5, 0.5), 40, (3, 1)))
    found = [
        [np.split(order.rows(step), [order.counts[0]]) for step in range(60)] for order in orders
    ]
    first, second = (
        [np.concatenate([rows[side] for rows in each]).tolist() for each in found]
        for side in (0, 1)
    )
    assert first[0][:100] == first[1][:90] + first[0][90:100] == first[2][:100]
    assert sorted(first[0][:100]) == list(range(100))
    assert second[0][:300] == second[1][:300]


def test_a_sample_has_the_shares_and_no_example_twice():
    order = MixedOrder((50, 10_000), (0.25, 0.75), 40, (0, 0))
    found = order.sample(100, np.random.default_rng(0))
    assert len(set(found.tolist())) == len(found) == 100
    assert (found < 50).sum() == 25
    assert (np.diff(found) > 0).all()
    whole = order.sample(10**6, np.random.default_rng(0))
    assert whole.tolist() == list(range(10_050))


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=5), min_size=2, max_size=4),
    st.data(),
)
def test_joined_stores_give_the_texts_of_their_parts(parts, draw):
    texts = [text for part in parts for text in part]
    joined, whole = join_stores([store(part, part[::-1]) for part in parts]), store(texts, texts)
    assert len(joined) == len(texts)
    rows = draw.draw(st.lists(st.integers(0, max(0, len(texts) - 1)), max_size=10 if texts else 0))
    places = np.array(rows, dtype=np.int64)
    ids, lengths = joined.input.gather(places)
    expected, expected_lengths = whole.input.gather(places)
    assert (ids.tolist(), lengths.tolist()) == (expected.tolist(), expected_lengths.tolist())
    reversed_texts = [text for part in parts for text in part[::-1]]
    hashes = store(reversed_texts, reversed_texts).response_hash
    assert joined.response_hash[places].tolist() == hashes[places].tolist()


@pytest.mark.parametrize(
    ("sizes", "shares", "said"),
    [
        (
            (10, 1000),
            (0.5, 0.5),
            "10 training examples of data.train do not fill its 16 places in a batch of 32; lower",
        ),
        ((1000, 10), (0.5, 0.5), "10 training examples of data.mix.0 do not fill its 16 places"),
        (
            (1000, 1000),
            (0.99, 0.01),
            "a share of 0.01 of a batch of 32 is less than one pair; raise the share in data.mix, "
            "or batch_size to 100 at least",
        ),
        ((20,), (1.0,), "20 training examples do not fill a batch of 32; set the stages' batch_size to 20 at most"),
        ((1,), (1.0,), "1 training examples do not fill a batch of 32; two at least are needed"),
    ],
)
def test_sets_that_do_not_fill_their_part_are_refused(sizes, shares, said):
    with pytest.raises(InputError) as caught:
        MixedOrder(sizes, shares, 32, (0, 0))
    assert said in str(caught.value)


def mixed(data, general):
    return recipe(data, data={"train": str(data), "mix": [{"train": str(general), "share": 0.75}]})


def test_validation_and_vocabulary_of_a_mixture(tmp_path, data, general):
    alone, both = (
        prepare(recipe(data), tmp_path / "a"),
        prepare(mixed(data, general), tmp_path / "b"),
    )
    assert (both.sizes, len(both.train)) == ((320, 500), 820)
    assert len(both.valid[data.name]) == len(alone.valid[data.name]) == 80, (
        "validation is of the target alone"
    )
    assert both.digest != alone.digest
    assert both.tokenizer.fingerprint != alone.tokenizer.fingerprint, "built from both"
    other = write_data(tmp_path / "other", train=500, topics=30, seed=6)
    assert prepare(mixed(data, other), tmp_path / "c").digest != both.digest


@settings(max_examples=30)
@given(
    st.integers(0, 99),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([0.0, 1.0]),
)
def test_histories_are_changed_alike_in_any_number_of_processes(
    seed, processes, left_out, swapped, new_subject
):
    swapped = min(swapped, 1 - left_out)
    texts = [[i] for i in range(40)]
    earlier = [[100 + i] if i % 5 else [] for i in range(40)]  # every fifth example has none
    examples = dataclasses.replace(store(texts, texts), history=histories(earlier))
    given_changes = History(left_out=left_out, swapped=swapped, new_subject=new_subject)
    changes = ChangedHistorySource(given_changes, examples.history.counts, (seed,))
    rows = np.random.default_rng(seed).permutation(40)[:24]

    def histories_of(portion):
        step = make_step(examples, rows, 99, portion, history_source=changes)
        found = []
        for part in step.parts:
            ids = part.tokens.ids[part.tokens.restore].tolist()
            own = dict(
                zip(
                    part.histories[0].tolist(), ids[part.pairs : len(ids) - part.pairs], strict=True
                )
            )
            found += [own.get(pair) for pair in range(part.pairs)]
        return found, step.present["history"]

    whole, present = histories_of(Portion())
    parts = [histories_of(Portion(rank, processes, 3)) for rank in range(processes)]
    assert [history for part, _ in parts for history in part] == whole
    own = [100 + row if row % 5 else None for row in rows.tolist()]
    given_to = changes(rows)
    for pair, row in enumerate(given_to.tolist()):
        assert whole[pair] == (None if row < 0 or row % 5 == 0 else 100 + row)
        if row not in (-1, rows[pair], rows[pair - 1]):
            assert (new_subject, own[pair]) == (1, None), "only what has none gets another's"
        if new_subject and own[pair] is None and row >= 0:
            assert row % 5
    assert (
        present.rows.tolist()
        == (np.array([here is not None for here in own]) & (given_to == rows)).tolist()
    )
    assert {float(each.count) for _, each in parts} == {float(present.count)} == {int(present.rows.sum())}
    had = np.array([here is not None for here in own])
    for share, found in (
        (left_out, given_to < 0),
        (swapped, (given_to >= 0) & (given_to != rows) & had),
    ):
        assert abs(found.mean() - share) < 0.4
        assert share not in (0.0, 1.0) or found.mean() == share


def test_the_newest_messages_are_negatives_of_all_pairs_and_equal_ones_are_known():
    inputs, responses = [[1], [2], [3], [4]], [[7], [2], [9], [1]]
    [only] = recipe("x", stage=[stage(input_negatives=True)]).stage
    examples, negatives = with_negatives(store(inputs, responses), only, (0, 0), None)
    step = make_step(examples, np.array([1, 3, 0]), 99, Portion(), negatives)
    [part] = step.parts
    assert part.tokens.ids[part.tokens.restore].tolist() == [2, 4, 1, 2, 1, 7, 2, 4, 1]
    assert sorted(step.equal.T.tolist()) == [[0, 3], [1, 5]], (
        "2 answers 2, and 1 is said by both sides"
    )
