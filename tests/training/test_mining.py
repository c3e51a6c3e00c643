"""Mining: what is found is what a loop over all responses finds, and nothing that is known to be right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rejoinder.errors import InputError
from rejoinder.models.packing import TokenBatch
from rejoinder.training.batches import PairBatch
from rejoinder.training.mining import KnownAnswers, Miner, ceiling, fill, hardest
from rejoinder.training.recipe import HardNegatives
from rejoinder.training.tokens import TokenStore
from tests.training.test_batches import store

D, WORDS = 6, 40


class Model:
    """A text of one token has a fixed random vector, another one on each side."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.tables = torch.nn.functional.normalize(torch.randn(2, WORDS, D, generator=generator), dim=2)

    def encode(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        ids = batch.tokens.ids[batch.tokens.restore]
        return self.tables[0][ids[: batch.pairs]], self.tables[1][ids[batch.pairs :]]

    def encode_responses(self, batch: TokenBatch) -> Tensor:
        return self.tables[1][batch.ids[batch.restore]]


def examples(inputs: list[int], responses: list[int]) -> TokenStore:
    return store([[word] for word in inputs], [[word] for word in responses])


def by_loop(
    model: Model, inputs: list[int], responses: list[int], drawn: list[int], config: HardNegatives
) -> list[list[int]]:
    """For each pair the words of its hard negatives, one candidate after the other; fewer than k where it runs out."""
    known = set(zip(inputs, responses, strict=True))
    pool = list(dict.fromkeys(responses[i] for i in drawn))
    found = []
    for word, right in zip(inputs, responses, strict=True):
        score = {w: float(model.tables[0][word].double() @ model.tables[1][w].double()) for w in {*pool, right}}
        limit = np.inf
        if config.margin is not None:
            limit = score[right] + config.margin
        if config.share is not None:
            limit = score[right] - (1 - config.share) * abs(score[right])
        best = sorted(pool, key=lambda w: (-score[w], pool.index(w)))[: config.among]
        found.append([w for w in best if (word, w) not in known and score[w] <= limit][: config.per_pair])
    return found


@settings(max_examples=150, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, WORDS - 1)), min_size=8, max_size=40),
    kind=st.sampled_from([{}, {"margin": 0.1}, {"margin": -0.2}, {"share": 0.95}, {"share": 1.0}]),
    among=st.integers(2, 12),
    seed=st.integers(0, 100),
    draw=st.data(),
)
def test_it_finds_what_a_loop_over_the_pool_finds(
    pairs: list[tuple[int, int]], kind: dict[str, Any], among: int, seed: int, draw: st.DataObject
) -> None:
    inputs, responses = map(list, zip(*pairs, strict=True))
    drawn = sorted(draw.draw(st.sets(st.integers(0, len(pairs) - 1), min_size=4)))
    config = HardNegatives(per_pair=2, among=among, **kind)
    model = Model(seed)
    miner = Miner(examples(inputs, responses), config, model.encode, model.encode_responses, WORDS)
    rows = np.arange(len(pairs))
    expected = by_loop(model, inputs, responses, drawn, config)
    try:
        mined = miner(rows, np.array(drawn), np.random.default_rng(0), int)
    except InputError:
        pool, known = {responses[i] for i in drawn}, set(pairs)
        assert min(sum((word, w) not in known for w in pool) for word in inputs) < 2, "there really are too few"
        return
    assert mined.negatives.shape == (len(pairs), 2)
    assert mined.random == sum(2 - len(words) for words in expected)
    for word, wanted, found in zip(inputs, expected, mined.negatives, strict=True):
        words = [responses[row] for row in found]
        assert words[: len(wanted)] == wanted
        assert len(set(words)) == 2
        assert all((word, w) not in set(pairs) for w in words), "a known answer is no negative"
        assert set(found.tolist()) <= set(drawn), "all come from the pool"


def test_equal_texts_and_known_answers_are_never_negatives() -> None:
    """Input 1 is answered by 5 and 6; 5 stands there twice. Only 7 is left, however far away it is."""
    inputs, responses = [1, 1, 2, 3], [5, 6, 5, 7]
    model = Model(0)
    miner = Miner(examples(inputs, responses), HardNegatives(among=1), model.encode, model.encode_responses, WORDS)
    mined = miner(np.arange(2), np.arange(4), np.random.default_rng(0), int)
    assert mined.negatives.tolist() == [[3], [3]]


def test_many_blocks_give_the_same_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    inputs, responses = generator.integers(0, 10, 200).tolist(), generator.integers(0, WORDS, 200).tolist()
    model, rows = Model(3), np.arange(200)
    miner = Miner(examples(inputs, responses), HardNegatives(per_pair=3), model.encode, model.encode_responses, WORDS)
    done: list[int] = []
    whole = miner(rows, rows, np.random.default_rng(0), done.append)
    assert sum(done) == 400
    monkeypatch.setattr("rejoinder.training.mining.PAIRS_AT_ONCE", 7)
    monkeypatch.setattr("rejoinder.training.mining.HASHED_AT_ONCE", 9)
    assert miner(rows, rows, np.random.default_rng(0), int).negatives.tolist() == whole.negatives.tolist()


def test_the_limit_by_margin_and_by_share() -> None:
    own = np.array([0.8, 0.0, -0.4])
    assert ceiling(own, HardNegatives(margin=0.1)).tolist() == pytest.approx([0.9, 0.1, -0.3])
    assert ceiling(own, HardNegatives(margin=-0.1)).tolist() == pytest.approx([0.7, -0.1, -0.5])
    assert ceiling(own, HardNegatives(share=0.5)).tolist() == pytest.approx([0.4, 0.0, -0.6])
    assert ceiling(own, HardNegatives(share=1.0)).tolist() == own.tolist()
    assert np.isinf(ceiling(own, HardNegatives())).all()


def test_a_candidate_above_the_limit_is_left_out_and_one_below_taken() -> None:
    model = Model(0)
    model.tables = torch.eye(D).repeat(2, 7, 1)[:, :WORDS].clone()
    near = torch.tensor([0.9, np.sqrt(1 - 0.81), 0, 0, 0, 0])
    nearer = torch.tensor([0.97, np.sqrt(1 - 0.97**2), 0, 0, 0, 0])
    model.tables[1][10], model.tables[1][11] = near.float(), nearer.float()
    data = examples([0, 1, 2, 3], [6, 10, 11, 9])  # word 6 is the same unit vector as word 0: the own score is 1
    for kind, expected in (({}, 2), ({"share": 0.95}, 1), ({"margin": -0.05}, 1), ({"share": 0.5}, 3)):
        miner = Miner(data, HardNegatives(**kind), model.encode, model.encode_responses, WORDS)
        found = miner(np.array([0]), np.arange(4), np.random.default_rng(0), int).negatives
        assert found.tolist() == [[expected]], kind


def test_the_first_allowed_ones_are_taken_in_their_order() -> None:
    places = np.array([[5, 3, 8, 1], [4, 2, 6, 7]])
    allowed = np.array([[False, True, False, True], [False, False, False, True]])
    assert hardest(places, allowed, 2).tolist() == [[3, 1], [7, -1]]
    assert hardest(places, allowed, 5).tolist() == [[3, 1, -1, -1, -1], [7, -1, -1, -1, -1]]


def test_what_is_missing_is_filled_from_the_pool_without_repeats() -> None:
    known = KnownAnswers(np.array([1, 1]), np.array([10, 12]))
    responses = np.array([10, 11, 12, 13])
    filled = fill(np.array([[3, -1], [-1, -1]]), np.array([1, 2]), responses, known, np.array([2, 2]))
    assert filled.tolist() == [[3, 1], [2, 3]]


def test_a_pool_without_enough_wrong_answers_is_refused() -> None:
    known = KnownAnswers(np.array([1]), np.array([10]))
    with pytest.raises(InputError, match=r"2 different responses in the pool are too few for hard_negatives.per_pair"):
        fill(np.array([[-1, -1]]), np.array([1]), np.array([10, 11]), known, np.array([0]))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=20))
def test_known_answers_are_those_of_the_pairs(pairs: list[tuple[int, int]]) -> None:
    inputs, responses = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    grid = np.arange(-6, 7)
    found = KnownAnswers(inputs, responses).hold(grid[:, None], grid)
    assert found.tolist() == [[(int(i), int(r)) in pairs for r in grid] for i in grid]
