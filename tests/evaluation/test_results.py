"""Results as JSON, and the comparison of two systems."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rejoinder.errors import InputError
from rejoinder.evaluation.ranking import evaluate
from rejoinder.evaluation.results import compare
from tests.evaluation.fakes import Rule, knows_even_ones, knows_it_all, number, numbered_examples


def test_the_result_as_json():
    result = evaluate(Rule(knows_even_ones), numbered_examples(25, turns_per_thread=5), candidates=10, seed=7)
    found = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert found["recall"]["1"] == result.recall[1].to_json()
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
