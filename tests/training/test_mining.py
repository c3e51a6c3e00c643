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
from rejoinder.training.negatives import KnownAnswers, Miner, hardest, highest
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
    """For each pair the words of its hard negatives, one candidate after the other."""
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
        wrong = sorted((w for w in pool if (word, w) not in known), key=lambda w: -score[w])
        below, above = [w for w in wrong if score[w] <= limit], [w for w in wrong if score[w] > limit]
        found.append([*below, *reversed(above)][: config.per_pair])
    return found


@settings(max_examples=150, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, WORDS - 1)), min_size=8, max_size=40),
    kind=st.sampled_from([{}, {"margin": 0.1}, {"margin": -0.2}, {"share": 0.95}, {"share": 1.0}]),
    k=st.integers(1, 4),
    seed=st.integers(0, 100),
    draw=st.data(),
)
def test_it_finds_what_a_loop_over_the_pool_finds(
    pairs: list[tuple[int, int]], kind: dict[str, Any], k: int, seed: int, draw: st.DataObject
) -> None:
    inputs, responses = map(list, zip(*pairs, strict=True))
    drawn = sorted(draw.draw(st.sets(st.integers(0, len(pairs) - 1), min_size=4)))
    config, model = HardNegatives(per_pair=k, **kind), Model(seed)
    miner = Miner(examples(inputs, responses), config, model.encode, model.encode_responses, WORDS)
    expected = by_loop(model, inputs, responses, drawn, config)
    if min(map(len, expected)) < k:
        with pytest.raises(InputError, match=r"too few for hard_negatives\.per_pair"):
            miner(np.arange(len(pairs)), np.array(drawn), int)
        return
    negatives, _ = miner(np.arange(len(pairs)), np.array(drawn), int)
    assert negatives.shape == (len(pairs), k)
    for word, wanted, found in zip(inputs, expected, negatives, strict=True):
        words = [responses[row] for row in found]
        assert words == wanted
        assert all((word, w) not in set(pairs) for w in words), "a known answer is no negative"
        assert set(found.tolist()) <= set(drawn), "all come from the pool"


def test_equal_texts_and_known_answers_are_never_negatives() -> None:
    """Input 1 is answered by 5 and 6; 5 stands there twice. Only 7 is left, however far away it is."""
    inputs, responses = [1, 1, 2, 3], [5, 6, 5, 7]
    model = Model(0)
    miner = Miner(examples(inputs, responses), HardNegatives(), model.encode, model.encode_responses, WORDS)
    assert miner(np.arange(2), np.arange(4), int)[0].tolist() == [[3], [3]]


def test_many_blocks_give_the_same_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    inputs, responses = generator.integers(0, 10, 200).tolist(), generator.integers(0, WORDS, 200).tolist()
    model, rows = Model(3), np.arange(200)
    config = HardNegatives(per_pair=3, margin=0.1)
    miner = Miner(examples(inputs, responses), config, model.encode, model.encode_responses, WORDS)
    done: list[int] = []
    whole = miner(rows, rows, done.append)
    assert sum(done) == 400
    for name, value in (("PAIRS_AT_ONCE", 7), ("HASHED_AT_ONCE", 9), ("SCORES_AT_ONCE", 100)):
        monkeypatch.setattr(f"rejoinder.training.negatives.{name}", value)
        again = miner(rows, rows, int)
        assert (again[0].tolist(), again[1]) == (whole[0].tolist(), whole[1])


def test_the_limit_by_margin_and_by_share() -> None:
    own = torch.tensor([0.8, 0.0, -0.4])
    assert highest(own, HardNegatives(margin=0.1)).tolist() == pytest.approx([0.9, 0.1, -0.3])
    assert highest(own, HardNegatives(margin=-0.1)).tolist() == pytest.approx([0.7, -0.1, -0.5])
    assert highest(own, HardNegatives(share=0.5)).tolist() == pytest.approx([0.4, 0.0, -0.6])
    assert highest(own, HardNegatives(share=1.0)).tolist() == own.tolist()
    assert highest(own, HardNegatives()).isinf().all()


SCORES = torch.tensor([[0.9, 0.1, 0.5, -0.8, 0.7]])


@pytest.mark.parametrize(("limit", "right", "expected", "above"), [
    (1.0, [], [0, 4, 2], 0),
    (0.8, [], [4, 2, 1], 0),
    (0.8, [4, 1], [2, 3, 0], 1),
    (0.0, [], [3, 1, 2], 2),
    (-1.0, [3], [1, 2, 4], 3),
])  # fmt: skip
def test_the_hardest_up_to_the_limit_and_then_the_nearest_above_it(
    limit: float, right: list[int], expected: list[int], above: int
) -> None:
    known = np.array([[0] * len(right), right], dtype=np.int64)
    places, count = hardest(SCORES, torch.tensor([limit]), known, 3)
    assert (places.tolist(), count) == ([expected], above)


@pytest.mark.parametrize(("right", "k"), [([0, 1, 2], 3), ([], 6)])
def test_a_pool_without_enough_wrong_answers_is_refused(right: list[int], k: int) -> None:
    known = np.array([[0] * len(right), right], dtype=np.int64)
    with pytest.raises(InputError, match=rf"5 different responses in the pool are too few for .*per_pair = {k};"):
        hardest(SCORES, torch.tensor([1.0]), known, k)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=20),
    st.lists(st.integers(-7, 7), min_size=1, unique=True),
    st.lists(st.integers(-6, 6), max_size=8),
)
def test_known_answers_are_those_of_the_pairs(
    pairs: list[tuple[int, int]], pool: list[int], asked: list[int]
) -> None:
    inputs, responses = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    found = KnownAnswers(inputs, responses, np.array(pool, np.int64)).places(np.array(asked, np.int64))
    expected = {(i, pool.index(r)) for i, word in enumerate(asked) for w, r in pairs if w == word and r in pool}
    assert set(zip(*found.tolist(), strict=True)) == expected
