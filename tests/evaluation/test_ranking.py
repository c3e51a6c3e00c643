"""Ranks, the evaluation of rankers whose answers are known, and the comparison of two."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import rejoinder
from rejoinder.corpora.example import Example
from rejoinder.corpora.examples import write_examples
from rejoinder.errors import InputError, RejoinderError
from rejoinder.evaluation.ranking import compare, evaluate, evaluate_task, ranks
from rejoinder.evaluation.tasks import ranking_task
from tests.evaluation.fakes import Rule, knows_even_ones, knows_it_all, knows_nothing, number, numbered_examples

NAN = float("nan")
INF = float("inf")


def ranks_of(rows, labels):
    return ranks(np.array(rows, dtype=np.float32), np.array(labels, dtype=np.int64)).tolist()


# --- ranks ---


def test_ranks_count_the_candidates_that_score_higher():
    assert ranks_of([[0.9, 0.1, 0.5], [0.9, 0.1, 0.5], [0.9, 0.1, 0.5]], [0, 1, 2]) == [1, 3, 2]


def test_mistake_9_a_tie_is_not_a_hit():
    assert ranks_of([[0.5, 0.5, 0.1], [0.0, 0.0, 0.0]], [0, 2]) == [2, 3]


@pytest.mark.parametrize(
    ("row", "label", "rank"),
    [
        ([NAN, 0.2, 0.1], 0, 3),  # the right one has no score: last
        ([0.3, NAN, 0.1], 0, 2),  # another has none: it stands before the right one
        ([NAN, NAN, NAN], 1, 3),
        ([INF, INF, 0.0], 0, 2),
        ([-INF, 0.0, -INF], 2, 3),
    ],
)
def test_scores_that_are_no_numbers_go_against_the_ranker(row, label, rank):
    assert ranks_of([row], [label]) == [rank]


def test_ranks_of_no_examples():
    assert ranks(np.zeros((0, 5), np.float32), np.zeros(0, np.int64)).shape == (0,)


@pytest.mark.parametrize("labels", [[3], [-1], [0, 1]])
def test_ranks_refuse_labels_that_do_not_fit(labels):
    with pytest.raises(InputError, match="labels"):
        ranks_of([[0.1, 0.2, 0.3]], labels)


# Few distinct values, so that ties, NaN and infinities meet often.
SCORES = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.sampled_from([-INF, -1.0, 0.0, 0.5, 2.0, INF, NAN]),
)


@settings(deadline=None, max_examples=100)
@given(SCORES, st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_does_not_matter(scores, random):
    n, m = scores.shape
    labels = np.array([random.randrange(m) for _ in range(n)])
    order = np.array(random.sample(range(m), m))
    moved = np.array([int(np.flatnonzero(order == label)[0]) for label in labels])
    assert ranks(scores[:, order], moved).tolist() == ranks(scores, labels).tolist()


@settings(deadline=None, max_examples=100)
@given(SCORES, st.randoms(use_true_random=False))
def test_only_the_order_of_the_scores_matters(scores, random):
    n, m = scores.shape
    labels = np.array([random.randrange(m) for _ in range(n)])
    stretched = np.where(np.isfinite(scores), scores**3 * 4 - 7, scores).astype(np.float32)
    assert ranks(stretched, labels).tolist() == ranks(scores, labels).tolist()


@settings(deadline=None, max_examples=100)
@given(SCORES, st.randoms(use_true_random=False))
def test_a_better_score_for_the_right_one_never_hurts(scores, random):
    n, m = scores.shape
    labels = np.array([random.randrange(m) for _ in range(n)])
    better = scores.copy()
    better[np.arange(n), labels] = np.nan_to_num(better[np.arange(n), labels], nan=-5.0) + 1
    before = ranks(scores, labels)
    assert (ranks(better, labels) <= before).all()
    assert before.min() >= 1
    assert before.max() <= m


# --- evaluate ---


def test_golden_case_by_hand():
    # Ranks by hand, in lists of four: 1, 2, 4, 1.
    scores = {"a": [9, 1, 2, 3], "b": [1, 5, 9, 2], "c": [7, 8, 9, 1], "d": [0, 0, 1, 0]}
    labels = {"a": 0, "b": 1, "c": 3, "d": 2}
    texts = ("w", "x", "y", "z")
    examples = [Example((name,), texts[labels[name]], candidates=texts, label=labels[name]) for name in scores]
    ranker = Rule(lambda message, candidate: scores[message][texts.index(candidate)])

    result = evaluate(ranker, examples)

    assert result.ranks.tolist() == [1, 2, 4, 1]
    assert {k: e.value for k, e in result.recall.items()} == {1: 0.5, 2: 0.75, 3: 0.75}
    assert result.mrr.value == pytest.approx((1 + 1 / 2 + 1 / 4 + 1) / 4)
    assert (result.examples, result.candidates, result.given_candidates, result.dropped) == (4, 4, True, 0)


def test_a_perfect_ranker_and_a_hopeless_one():
    examples = numbered_examples(20)
    best = evaluate(Rule(knows_it_all), examples, candidates=10)
    worst = evaluate(Rule(lambda message, candidate: -knows_it_all(message, candidate)), examples, candidates=10)
    assert {e.value for e in best.recall.values()} == {1.0}
    assert best.mrr.value == 1.0
    assert {e.value for e in worst.recall.values()} == {0.0}
    assert worst.mrr.value == pytest.approx(1 / 10)


def test_mistake_9_a_ranker_that_cannot_tell_hits_nothing():
    result = evaluate(Rule(knows_nothing), numbered_examples(30), candidates=10)
    assert set(result.ranks.tolist()) == {10}
    assert result.recall[5].value == 0.0


def test_mistake_9_the_last_partial_group_is_not_counted():
    examples = numbered_examples(25)
    ranker = Rule(knows_even_ones)
    result = evaluate(ranker, examples, candidates=10)
    assert (result.examples, result.dropped) == (20, 5)
    assert all(len(texts) == 10 for texts in ranker.calls[0][1])
    ranked = {number(context[-1]) for context in ranker.calls[0][0]}
    offered = {number(text) for texts in ranker.calls[0][1] for text in texts}
    assert len(ranked) == 20
    assert offered == ranked  # those left over are no candidates either
    assert result.recall[1].value == sum(i % 2 == 0 for i in ranked) / 20


def test_a_k_that_every_ranker_reaches_is_left_out():
    assert list(evaluate(Rule(knows_it_all), numbered_examples(10), candidates=5).recall) == [1, 2, 3]
    result = evaluate(Rule(knows_it_all), numbered_examples(10), candidates=10, recall_at=(4, 1, 9, 4, 10, 77))
    assert list(result.recall) == [1, 4, 9]


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 6), st.integers(0, 2**32), st.integers(12, 20))
def test_recall_grows_with_k_and_bounds_the_reciprocal_rank(n, noise, count):
    table = np.random.default_rng(noise).integers(0, 4, (count, count))
    ranker = Rule(lambda message, candidate: float(table[number(message), number(candidate)]))
    result = evaluate(ranker, numbered_examples(count), candidates=n, recall_at=range(1, n), resamples=50)
    recalls = [result.recall[k].value for k in range(1, n)]
    assert recalls == sorted(recalls)
    assert max(recalls[0], 1 / n) - 1e-9 <= result.mrr.value <= recalls[0] + (1 - recalls[0]) / 2 + 1e-9
    for estimate in [*result.recall.values(), result.mrr]:
        assert 0 <= estimate.low <= estimate.high <= 1


def test_all_groups_go_to_the_ranker_in_one_call_with_shared_lists():
    ranker = Rule(knows_it_all)
    evaluate(ranker, numbered_examples(30), candidates=10)
    (contexts, lists), *more = ranker.calls
    assert not more
    assert len(contexts) == 30
    assert len({id(texts) for texts in lists}) == 3


def test_blocks_change_the_calls_and_not_the_result():
    examples = numbered_examples(30)
    whole, pieces, steps = Rule(knows_even_ones), Rule(knows_even_ones), []
    expected = evaluate(whole, examples, candidates=10)
    found = evaluate(pieces, examples, candidates=10, block_size=7, progress=steps.append)
    assert found == expected
    assert found.ranks.tolist() == expected.ranks.tolist()
    assert [len(contexts) for contexts, _ in pieces.calls] == steps == [7, 7, 7, 7, 2]


def test_the_public_names_read_and_rank_a_folder(tmp_path):
    examples = numbered_examples(30)
    write_examples(examples, tmp_path / "test-0.parquet")
    write_examples(numbered_examples(5), tmp_path / "valid-0.parquet")
    found = rejoinder.evaluate(Rule(knows_even_ones), rejoinder.read_examples(tmp_path, split="test"), candidates=10)
    assert found == evaluate(Rule(knows_even_ones), examples, candidates=10)


def test_the_seed_decides_the_groups():
    examples = numbered_examples(40)
    rule = Rule(lambda message, candidate: -abs(number(message) - number(candidate) - 3))
    first, again, other = (evaluate(rule, examples, candidates=10, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.fingerprint != other.fingerprint
    assert first.ranks.tolist() != other.ranks.tolist()


def test_given_lists_of_different_lengths():
    examples = [
        Example(("m 0",), "r 0", candidates=("r 0", "r 1", "r 2"), label=0),
        Example(("m 1",), "r 1", candidates=("r 0", "r 1", "r 2", "r 3", "r 4"), label=1),
        Example(("m 9",), "r 2", candidates=("r 0", "r 1", "r 2"), label=2),
    ]
    ranker = Rule(knows_it_all)
    result = evaluate(ranker, examples, candidates=100)
    assert result.ranks.tolist() == [1, 1, 3]  # in the order of the data; nothing fits m 9, so all tie
    assert (result.candidates, result.fewest_candidates) == (5, 3)
    assert list(result.recall) == [1, 2]
    assert [len(contexts) for contexts, _ in ranker.calls] == [2, 1]


def test_a_copy_of_the_right_response_stands_before_it_whatever_its_score():
    examples = [Example((f"m {i}",), "same" if i < 2 else f"r {i}") for i in range(4)]
    falling = itertools.count(0, -1)  # a score of its own for every candidate, equal texts included
    result = evaluate(Rule(lambda *_: next(falling)), examples, candidates=4)
    assert result.ambiguous == 2
    task = ranking_task(examples, candidates=4)
    first, last = (place for place, text in enumerate(task.candidates[0]) if text == "same")
    # Scores fall from left to right, so label + 1 would be the rank; the copy to the right counts all the same.
    expected = [label + 1 for label in range(4)]
    expected[first] += 1
    assert last > first
    assert result.ranks.tolist() == expected


def test_nothing_is_ambiguous_when_all_responses_differ():
    assert evaluate(Rule(knows_it_all), numbered_examples(20), candidates=10).ambiguous == 0


def test_the_thread_is_the_unit_where_there_are_threads():
    with_threads = evaluate(Rule(knows_even_ones), numbered_examples(40, turns_per_thread=4), candidates=10)
    without = evaluate(Rule(knows_even_ones), numbered_examples(40), candidates=10)
    assert (with_threads.unit, with_threads.units) == ("thread", 10)
    assert (without.unit, without.units) == ("example", 40)
    assert with_threads.recall[1].value == without.recall[1].value


def test_a_task_can_be_ranked_twice():
    task = ranking_task(numbered_examples(20), candidates=10)
    assert evaluate_task(Rule(knows_it_all), task) == evaluate(Rule(knows_it_all), numbered_examples(20), candidates=10)


def test_a_ranker_that_returns_another_shape_is_named():
    class Wrong(Rule):
        def score(self, contexts, candidates):
            return super().score(contexts, candidates)[:, :3]

    with pytest.raises(RejoinderError, match=r"Wrong.score returned shape \(10, 3\), not \(10, 10\)"):
        evaluate(Wrong(knows_it_all), numbered_examples(10), candidates=10)


@pytest.mark.parametrize("setting", [{"recall_at": (0, 1)}, {"resamples": 0}, {"block_size": 0}])
def test_settings_are_checked_before_the_ranking(setting):
    ranker = Rule(knows_it_all)
    with pytest.raises(InputError, match="1 "):
        evaluate(ranker, numbered_examples(10), candidates=10, **setting)
    assert not ranker.calls


# --- results ---


def test_the_result_as_json():
    result = evaluate(Rule(knows_even_ones), numbered_examples(25, turns_per_thread=5), candidates=10, seed=7)
    found = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert found["recall"]["1"] == dataclasses.asdict(result.recall[1])
    assert found["mrr"]["value"] == result.mrr.value
    assert list(found["recall"]) == ["1", "2", "3", "5"]
    expected = {"examples": 20, "candidates": 10, "dropped": 5, "unit": "thread", "units": 5, "seed": 7}
    assert {key: found[key] for key in expected} == expected
    assert found["confidence"] == 0.95


def noisy(strength: float, seed: int) -> Rule:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(400, 400)) + strength * np.eye(400)
    return Rule(lambda message, candidate: table[number(message), number(candidate)])


def test_a_real_difference_lies_outside_zero_and_noise_does_not():
    examples = numbered_examples(400)
    strong, weak, as_weak = (
        evaluate(ranker, examples, candidates=10) for ranker in (noisy(2.5, 1), noisy(1.0, 2), noisy(1.0, 3))
    )
    better = compare(strong, weak)
    assert better.recall[1].value == pytest.approx(strong.recall[1].value - weak.recall[1].value)
    assert better.mrr.value == pytest.approx(strong.mrr.value - weak.mrr.value)
    assert better.recall[1].low > 0
    assert better.mrr.low > 0
    same = compare(weak, as_weak)
    assert same.recall[1].low < 0 < same.recall[1].high


def test_swapping_the_systems_changes_the_sign():
    examples = numbered_examples(400)
    first, second = (evaluate(ranker, examples, candidates=10) for ranker in (noisy(2.0, 1), noisy(1.5, 2)))
    there, back = compare(first, second).mrr, compare(second, first).mrr
    assert (there.value, there.low, there.high) == pytest.approx((-back.value, -back.high, -back.low))


def test_pairing_is_sharper_than_two_intervals():
    # Two systems that differ on a few examples only: their own intervals overlap, the difference is sure.
    examples = numbered_examples(400)
    base = noisy(1.0, 1)
    slightly_better = Rule(lambda m, c: base.rule(m, c) + (50 if number(m) == number(c) < 20 else 0))
    first, second = (evaluate(ranker, examples, candidates=10) for ranker in (slightly_better, base))
    assert first.recall[1].low < second.recall[1].high
    assert compare(first, second).recall[1].low > 0


def test_a_system_does_not_differ_from_itself():
    result = evaluate(Rule(knows_even_ones), numbered_examples(40), candidates=10)
    mrr = compare(result, result).mrr
    assert (mrr.value, mrr.low, mrr.high) == (0.0, 0.0, 0.0)
    assert compare(result, result).to_json()["recall"]["1"] == {"value": 0.0, "low": 0.0, "high": 0.0}


def test_results_of_different_groups_are_not_compared():
    first = evaluate(Rule(knows_it_all), numbered_examples(40), candidates=10, seed=0)
    second = evaluate(Rule(knows_it_all), numbered_examples(40), candidates=10, seed=1)
    with pytest.raises(InputError, match="different examples"):
        compare(first, second)


def test_only_a_k_of_both_results_is_compared():
    examples = numbered_examples(40)
    first = evaluate(Rule(knows_it_all), examples, candidates=10, recall_at=(1, 2))
    second = evaluate(Rule(knows_it_all), examples, candidates=10, recall_at=(2, 3))
    assert list(compare(first, second).recall) == [2]
