"""Ranks, the evaluation of rankers whose answers are known, and the comparison of two."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rejoinder.corpora.schema import Example
from rejoinder.errors import InputError, RejoinderError
from rejoinder.evaluation.ranking import SEARCHED_FOR, evaluate, evaluate_search, evaluate_task, ranks
from rejoinder.evaluation.result import RankingResult, compare
from rejoinder.evaluation.tasks import ranking_task
from tests.evaluation.fakes import Rule, knows_even_ones, knows_it_all, number, numbered_examples

NAN, INF = float("nan"), float("inf")


def test_ties_and_scores_that_are_no_numbers_go_against_the_ranker():
    for row, label, rank in (
        ([0.9, 0.1, 0.5], 0, 1),
        ([0.9, 0.1, 0.5], 1, 3),
        ([0.5, 0.5, 0.1], 0, 2),  # mistake 9: a tie is not a hit
        ([0.0, 0.0, 0.0], 2, 3),
        ([NAN, 0.2, 0.1], 0, 3),  # the right one has no score: last
        ([0.3, NAN, 0.1], 0, 2),  # another has none: it stands before the right one
        ([NAN, NAN, NAN], 1, 3),
        ([INF, INF, 0.0], 0, 2),
        ([-INF, 0.0, -INF], 2, 3),
    ):
        assert ranks(np.array([row], dtype=np.float32), np.array([label])).tolist() == [rank]


@st.composite
def scored(draw):
    """Scores (n, m) of few distinct values, so that ties, NaN and infinities meet often, and labels."""
    shape = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6)
    scores = draw(
        hnp.arrays(
            np.float32, shape, elements=st.sampled_from([-INF, -1.0, 0.0, 0.5, 2.0, INF, NAN])
        )
    )
    n, m = scores.shape
    return scores, np.array(draw(st.lists(st.integers(0, m - 1), min_size=n, max_size=n)))


@settings(max_examples=100)
@given(scored(), st.randoms(use_true_random=False))
def test_laws_of_ranks(case, random):
    scores, labels = case
    n, m = scores.shape
    before = ranks(scores, labels)
    order = np.array(random.sample(range(m), m))
    moved = np.array([int(np.flatnonzero(order == label)[0]) for label in labels])
    assert ranks(scores[:, order], moved).tolist() == before.tolist(), (
        "the order of the candidates does not matter"
    )
    stretched = np.where(np.isfinite(scores), scores**3 * 4 - 7, scores).astype(np.float32)
    assert ranks(stretched, labels).tolist() == before.tolist(), (
        "only the order of the scores matters"
    )
    better = scores.copy()
    better[np.arange(n), labels] = np.nan_to_num(better[np.arange(n), labels], nan=-5.0) + 1
    assert (ranks(better, labels) <= before).all(), "a better score for the right one never hurts"
    assert 1 <= before.min() <= before.max() <= m


def test_golden_case_by_hand():
    # Ranks by hand, in lists of four: 1, 2, 4, 1.
    scores = {"a": [9, 1, 2, 3], "b": [1, 5, 9, 2], "c": [7, 8, 9, 1], "d": [0, 0, 1, 0]}
    labels = {"a": 0, "b": 1, "c": 3, "d": 2}
    texts = ("w", "x", "y", "z")
    examples = [
        Example((name,), texts[labels[name]], candidates=texts, label=labels[name])
        for name in scores
    ]
    result = evaluate(
        Rule(lambda message, candidate: scores[message][texts.index(candidate)]), examples
    )
    assert result.ranks.tolist() == [1, 2, 4, 1]
    assert {k: e.value for k, e in result.recall.items()} == {1: 0.5, 2: 0.75, 3: 0.75}
    assert result.mrr.value == pytest.approx((1 + 1 / 2 + 1 / 4 + 1) / 4)
    assert (result.examples, result.candidates, result.given_candidates, result.dropped) == (
        4,
        4,
        True,
        0,
    )


def test_mistake_9_the_last_partial_group_is_not_counted():
    ranker = Rule(knows_even_ones)
    result = evaluate(ranker, numbered_examples(25), candidates=10)
    assert (result.examples, result.dropped) == (20, 5)
    ((contexts, lists),) = ranker.calls
    assert all(len(texts) == 10 for texts in lists)
    ranked = {number(context[-1]) for context in contexts}
    assert len(ranked) == 20
    # those left over are not candidates either
    assert {number(text) for texts in lists for text in texts} == ranked
    assert result.recall[1].value == sum(i % 2 == 0 for i in ranked) / 20


@settings(max_examples=25)
@given(st.integers(2, 6), st.integers(0, 2**32), st.integers(12, 20))
def test_recall_grows_with_k_and_bounds_the_reciprocal_rank(n, noise, count):
    table = np.random.default_rng(noise).integers(0, 4, (count, count))
    ranker = Rule(lambda message, candidate: float(table[number(message), number(candidate)]))
    result = evaluate(ranker, numbered_examples(count), candidates=n)
    recalls = [estimate.value for estimate in result.recall.values()]
    assert recalls == sorted(recalls)
    assert (
        max(recalls[0], 1 / n) - 1e-9
        <= result.mrr.value
        <= recalls[0] + (1 - recalls[0]) / 2 + 1e-9
    )
    for estimate in [*result.recall.values(), result.mrr]:
        assert 0 <= estimate.low <= estimate.high <= 1


def test_blocks_change_the_calls_and_not_the_result():
    examples = numbered_examples(30)
    whole, pieces, steps = Rule(knows_even_ones), Rule(knows_even_ones), []
    expected = evaluate(whole, examples, candidates=10)
    found = evaluate(pieces, examples, candidates=10, block_size=7, progress=steps.append)
    assert (
        found
        == expected
        == evaluate_task(whole, ranking_task(examples, candidates=10, copies="right"))
    )
    assert found.ranks.tolist() == expected.ranks.tolist()
    assert [len(contexts) for contexts, _ in pieces.calls] == steps == [7, 7, 7, 7, 2]
    contexts, lists = whole.calls[0]
    assert (len(contexts), len({id(texts) for texts in lists})) == (30, 3), (
        "one call, a list for each group"
    )


def test_given_lists_of_different_lengths():
    examples = [
        Example(("m 0",), "r 0", candidates=("r 0", "r 1", "r 2"), label=0),
        Example(("m 1",), "r 1", candidates=("r 0", "r 1", "r 2", "r 3", "r 4"), label=1),
        Example(("m 9",), "r 2", candidates=("r 0", "r 1", "r 2"), label=2),
    ]
    ranker = Rule(knows_it_all)
    result = evaluate(ranker, examples, candidates=100)
    # in the order of the data; nothing fits m 9, so all tie
    assert result.ranks.tolist() == [1, 1, 3]
    assert (result.candidates, result.fewest_candidates) == (5, 3)
    assert list(result.recall) == [1, 2]
    assert [len(contexts) for contexts, _ in ranker.calls] == [2, 1]


def test_a_copy_of_the_right_response_stands_before_it_whatever_its_score():
    examples = [Example((f"m {i}",), "same" if i < 2 else f"r {i}") for i in range(4)]
    falling = itertools.count(0, -1)  # a score of its own for every candidate, equal texts included
    result = evaluate(Rule(lambda *_: next(falling)), examples, candidates=4, copies="wrong")
    assert (result.ambiguous, result.copies) == (2, "wrong")
    first, last = (
        place
        for place, text in enumerate(ranking_task(examples, candidates=4).candidates[0])
        if text == "same"
    )
    # Scores fall from left to right, so label + 1 would be the rank; the copy to the right counts
    # all the same.
    expected = [label + 1 for label in range(4)]
    expected[first] += 1
    assert last > first
    assert result.ranks.tolist() == expected


def test_a_copy_of_the_right_response_is_right_on_own_data():
    """Ten questions of three answers each, in groups of ten: whoever knows the answer is always right."""
    examples = [Example((f"m {i}",), f"r {i % 3}") for i in range(30)]
    ranker = Rule(lambda message, candidate: float(number(message) % 3 == number(candidate)))
    result = evaluate(ranker, examples, candidates=10)
    assert (result.recall[1].value, result.mrr.value, result.ambiguous, result.copies) == (
        1.0,
        1.0,
        30,
        "right",
    )
    protocol = evaluate(ranker, examples, candidates=10, copies="wrong")
    assert protocol.recall[1].value == 0.0
    assert evaluate(Rule(lambda *_: 0.0), examples, candidates=10).recall[1].value == 0.0, (
        "other texts that tie"
    )
    with pytest.raises(InputError, match="same settings"):
        compare(result, protocol)
    with pytest.raises(InputError, match="seed is -1"):
        compare(result, result, seed=-1)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"ranker": "convert-small"}, "needs a model, .*given: 'convert-small'"),
        ({"examples": "data/chats"}, "give examples, .*given: 'data/chats'"),
        ({"examples": None}, "give examples, .*given: None"),
        ({"examples": [("a", "b")]}, r"give examples, .*given: \('a', 'b'\)"),
        ({"candidates": "3"}, "candidates is '3'"),
        ({"block_size": -1}, "block_size is -1; give a whole number, 1 or more"),
        ({"seed": -1}, "seed is -1; give a whole number, 0 or more"),
        ({"seed": "a"}, "seed is 'a'; give a whole number, 0 or more"),
        ({"copies": "some"}, "copies 'some' are unknown; allowed are right, wrong"),
        ({"replies": "Reply 1!"}, "a list of texts, .*given: 'Reply 1!'"),
        ({"replies": [1, 2]}, "a list of texts, .*given: 1"),
    ],
)
def test_a_wrong_call_is_explained(given, reason):
    call = {
        "ranker": Rule(lambda *_: 0.0),
        "examples": numbered_examples(12),
        "candidates": 4,
        **given,
    }
    with pytest.raises(InputError, match=reason):
        evaluate(**call)


def test_somebodys_replies_are_ranked_in_python_too():
    replies = (f"Reply {i}!" for i in range(10))
    ranker = Rule(lambda message, reply: float(f" {number(message)}!" in reply))
    result = evaluate(ranker, numbered_examples(12), replies=replies)
    assert (result.examples, result.candidates, result.dropped, result.recall[1].value) == (
        10,
        10,
        2,
        1.0,
    )


def test_a_ranker_that_returns_another_shape_is_named():
    class Wrong(Rule):
        def score(self, contexts, candidates):
            return super().score(contexts, candidates)[:, :3]

    with pytest.raises(
        RejoinderError, match=r"Wrong.score returned shape \(10, 3\), not \(10, 10\)"
    ):
        evaluate(Wrong(knows_it_all), numbered_examples(10), candidates=10)


def test_scores_may_be_nested_lists_and_what_is_no_score_is_named():
    class Returns(Rule):
        def __init__(self, form):
            super().__init__(knows_even_ones)
            self.form = form

        def score(self, contexts, candidates):
            return self.form(super().score(contexts, candidates).tolist())

    examples = numbered_examples(6)
    listed = evaluate(Returns(list), examples, candidates=3)
    assert listed.recall == evaluate(Rule(knows_even_ones), examples, candidates=3).recall
    for form, reason in (
        (lambda rows: [*rows[:-1], rows[-1][:1]], r"Returns.score returned \[\[.*, not an array of numbers of shape \(6, 3\)"),
        (lambda _: None, r"Returns.score returned shape \(\), not \(6, 3\)"),
        (lambda rows: [list("abc") for _ in rows], r"Returns.score returned \[\['a', .*; return an array of numbers"),
    ):
        with pytest.raises(RejoinderError, match=reason):
            evaluate(Returns(form), examples, candidates=3)


def test_the_result_as_json_and_back():
    result = evaluate(
        Rule(knows_even_ones), numbered_examples(25, turns_per_thread=5), candidates=10, seed=7
    )
    found = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert found["recall"]["1"] == dataclasses.asdict(result.recall[1])
    assert found["mrr"]["value"] == result.mrr.value
    assert list(found["recall"]) == ["1", "2", "3", "5"]
    sizes = {"examples": 20, "candidates": 10, "dropped": 5, "unit": "thread", "units": 5}
    assert found | sizes | {"seed": 7, "confidence": 0.95} == found
    assert not {"ranks", "unit_of"} & set(found)
    again = RankingResult.from_json(json.loads(json.dumps(result.to_json(ranks=True))))
    assert (again, again.seconds) == (result, result.seconds)
    assert (again.ranks == result.ranks).all()
    assert (again.unit_of == result.unit_of).all()


def noisy(strength, seed):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(400, 400)) + strength * np.eye(400)
    return Rule(lambda message, candidate: table[number(message), number(candidate)])


@pytest.fixture(scope="module")
def systems():
    rankers = {"strong": noisy(2.5, 1), "weak": noisy(1.0, 2), "as weak": noisy(1.0, 3)}
    return {
        name: evaluate(ranker, numbered_examples(400), candidates=10)
        for name, ranker in rankers.items()
    }


def test_a_real_difference_lies_outside_zero_and_noise_does_not(systems):
    strong, weak = systems["strong"], systems["weak"]
    better = compare(strong, weak)
    assert better.recall[1].value == pytest.approx(strong.recall[1].value - weak.recall[1].value)
    assert better.mrr.value == pytest.approx(strong.mrr.value - weak.mrr.value)
    assert min(better.recall[1].low, better.mrr.low) > 0
    same = compare(systems["weak"], systems["as weak"])
    assert same.recall[1].low < 0 < same.recall[1].high


def test_swapping_the_systems_changes_the_sign_and_a_system_does_not_differ_from_itself(systems):
    first, second = systems["strong"], systems["weak"]
    there, back = compare(first, second).mrr, compare(second, first).mrr
    assert (there.value, there.low, there.high) == pytest.approx(
        (-back.value, -back.high, -back.low)
    )
    assert compare(first, first).to_json()["recall"]["1"] == {"value": 0.0, "low": 0.0, "high": 0.0}


def test_a_search_is_measured_by_where_the_right_reply_comes():
    """Copies of the right one count as it, ties against it; what is not found comes last; the rest is left out."""
    best = {
        "message 0": [("reply 0", 0.9), ("reply 1", 0.8)],
        "message 1": [("reply 0", 0.9), ("Reply 1!", 0.8), ("reply 2", 0.8), ("reply 1", 0.7)],
        "message 2": [("reply 0", 0.9)],
    }
    replies = [*(f"reply {i}" for i in range(3)), "Reply 1!", *map(str, range(196))]
    asked, seen = [], []

    def search(contexts):
        asked.extend(contexts)
        return [best[context[-1]] for context in contexts]

    examples = [
        *numbered_examples(4),
        Example(("message 0",), "reply 0", candidates=("reply 0", "x"), label=0),
    ]
    result = evaluate_search(search, iter(replies), examples, progress=seen.append)
    assert result.ranks.tolist() == [1, 3, 200, 1]
    assert (result.examples, result.dropped, result.ambiguous, result.candidates) == (4, 1, 1, 200)
    assert (result.copies, result.same_candidates, sum(seen), len(asked)) == ("right", True, 4, 4)
    assert {k: each.value for k, each in result.recall.items()} == {
        1: 0.5,
        3: 0.75,
        10: 0.75,
        30: 0.75,
        100: 0.75,
    }
    assert result.mrr.value == pytest.approx((1 + 1 / 3 + 1 / 200 + 1) / 4)
    other = evaluate_search(search, [*replies, "one more"], examples)
    assert (
        other.fingerprint
        != result.fingerprint
        == evaluate_search(search, replies, examples).fingerprint
    )
    with pytest.raises(
        InputError, match="none of the responses of 5 examples is among the index's 1 replies"
    ):
        evaluate_search(search, ["x"], examples)


def test_the_reply_that_was_sent_is_recognised_within_an_agents_words():
    replies = ["You can pay by card or PayPal.", "We open at nine, {{name}}, on every day."]
    sent = ["Hi Tom, you can pay by card or PayPal. Kim", "We open at nine, Anna Maria, on every day.", "Neither."]
    examples = [Example((f"message {i}",), text) for i, text in enumerate(sent)]
    result = evaluate_search(lambda asked: [[(text, 0.5 - i) for i, text in enumerate(replies)]] * len(asked), replies, examples)
    assert (result.ranks.tolist(), result.dropped) == ([1, 2], 1)
    task = ranking_task(examples, pool=iter(replies), are_sent=True)
    assert (task.labels.tolist(), task.dropped) == ([0, 1], 1)


def test_a_search_is_measured_where_all_examples_have_the_same_right_reply():
    examples = [Example((f"message {i}",), "right") for i in range(3)]
    result = evaluate_search(lambda asked: [[("other", 0.9), ("right", 0.8)]] * len(asked), ["other", "right"], examples)
    assert (result.ranks.tolist(), result.candidates, result.mrr.value) == ([2, 2, 2], 2, 0.5)
    with pytest.raises(InputError, match="the index holds one reply"):
        evaluate_search(lambda asked: [[("right", 0.8)]] * len(asked), ["right"], examples)


@pytest.mark.parametrize(
    ("place", "tied", "rank"),
    [(0, 200, 200), (0, 101, 200), (0, 100, 100), (50, 200, 200), (99, 100, 100), (99, 101, 200), (99, 0, 100), (100, 0, 200)],
)
def test_ties_that_go_on_after_the_last_place_count_against_a_search(place, tied, rank):
    """The right reply is found at `place`; the first `tied` replies have one score."""
    replies = [f"reply {i}" for i in range(200)]
    found = [(text, 0.5 if i < tied else 0.4 - i / 1000) for i, text in enumerate(replies)]
    examples = [Example(("message",), replies[place])]
    result = evaluate_search(lambda asked: [found[:SEARCHED_FOR]] * len(asked), replies, examples)
    assert result.ranks.tolist() == [rank]


def test_searches_are_comparable_among_the_same_replies_in_any_order():
    def search(asked):
        return [[("reply 1", 0.9), ("reply 0", 0.8)]] * len(asked)

    replies = ["reply 0", "reply 1", "x", "y"]
    first, turned, other = (
        evaluate_search(search, texts, numbered_examples(2)) for texts in (replies, replies[::-1], [*replies[:3], "z"])
    )
    assert compare(first, turned).mrr.value == 0
    with pytest.raises(InputError, match="different examples or groups"):
        compare(first, other)
