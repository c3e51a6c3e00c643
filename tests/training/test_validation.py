"""Validation: 1-of-N, all examples used, ties against the model, copies of the right response right."""

import math

import pytest
import torch

from rejoinder.networks.packing import TokenBatch
from rejoinder.training.metrics import Validator
from rejoinder.training.recipe.settings import Validation
from tests.training.test_batches import store as store_of

D = 64


def store(responses):
    """Examples of one token each: input i, response as given."""
    return store_of([[i] for i in range(len(responses))], [[i] for i in responses])


def tokens(batch):
    ids = batch.tokens.ids[batch.tokens.restore]
    return ids[: batch.pairs], ids[batch.pairs :]


def perfect(batch):
    table = torch.eye(D)
    x, y = tokens(batch)
    return table[x], table[y]


def test_a_perfect_model_has_1_and_a_collapsed_one_has_0():
    validator = Validator(store(list(range(60))), Validation(candidates=20, examples=60), 99)
    loss = math.log(1 + 19 * math.exp(-1))
    assert validator(perfect) == {"recall@1": 1.0, "mrr": 1.0, "loss": pytest.approx(loss)}
    assert validator(perfect, 3.0)["loss"] == pytest.approx(math.log(1 + 19 * math.exp(-3)))
    collapsed = validator(lambda batch: (torch.ones(batch.pairs, D), torch.ones(batch.pairs, D)))
    assert collapsed == {
        "recall@1": 0.0,
        "mrr": pytest.approx(1 / 20),
        "loss": pytest.approx(math.log(20)),
    }


def test_equal_responses_of_a_group_are_right_however_they_round():
    validator = Validator(store([0, 1, 1, 3]), Validation(candidates=4, examples=4), 99)

    def lucky(batch):
        y = perfect(batch)[1]
        return y, y * (1 - 1e-4 * torch.arange(len(y))[:, None])  # copies a little apart

    assert validator(lucky)["recall@1"] == 1.0
    flat = validator(lambda batch: (torch.ones(batch.pairs, D), torch.ones(batch.pairs, D)))
    assert flat["loss"] == pytest.approx((2 * math.log(4) + 2 * math.log(3)) / 4), (
        "they are not in the loss"
    )


def test_each_example_counts_once_and_the_last_group_is_filled_with_candidates_of_the_first():
    seen = []

    def watching(batch):
        seen.extend(tokens(batch)[0].tolist())
        return perfect(batch)

    validator = Validator(store(list(range(50))), Validation(candidates=20, examples=1000), 99)
    assert validator(watching)["recall@1"] == 1.0
    assert (validator.examples, len(seen), len(set(seen))) == (50, 60, 50)
    assert seen[50:] == seen[:10]
    wrong = set(seen[40:50])  # the last group's own examples: ten of fifty

    def bad_at_the_end(batch):
        x, y = perfect(batch)
        return torch.where(
            torch.tensor([i in wrong for i in tokens(batch)[0].tolist()])[:, None], -x, x
        ), y

    assert validator(bad_at_the_end)["recall@1"] == pytest.approx(0.8)


def test_joined_texts_are_scored_each_with_its_context():
    """A score that is higher the nearer response and context are, and one joined text for each pair."""
    texts = [[99, i] for i in range(60)]
    validator = Validator(
        store_of(texts, texts), Validation(candidates=20, examples=60), 99, packing="joined"
    )
    seen = 0

    def score(batch):
        nonlocal seen
        assert isinstance(batch.tokens, TokenBatch)
        starts, lengths = batch.tokens.places()
        seen += len(starts)
        assert set(lengths.tolist()) == {3}
        context, response = (batch.tokens.ids[starts + place] for place in (1, 2))
        assert batch.tokens.types[starts + 2].all()
        scores = -(context - response).abs().float().view(batch.pairs, -1)
        return scores, scores

    figures = validator(score)
    assert figures["recall@1"] == 1.0
    assert seen == 60 * 20
