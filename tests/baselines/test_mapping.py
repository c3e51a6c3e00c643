"""MAP's training against autograd and torch's own Adagrad, one setting at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from rejoinder.baselines import mapping
from rejoinder.baselines.mapping import Curve, MapSettings, _Pairs, _State, learn, recall
from rejoinder.errors import InputError


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    monkeypatch.setattr(mapping, "has_fast_bfloat16", lambda: False)


def pairs(count=40, size=6, seed=0, copies=0) -> _Pairs:
    generator = torch.Generator().manual_seed(seed)
    x, y = (F.normalize(torch.randn(count, size, generator=generator), dim=1) for _ in range(2))
    number = torch.arange(count)
    number[:copies] = 0
    y[:copies] = y[0]
    return _Pairs(x, y, number)


def reference(start, batches, rate, penalty, smoothing):
    """The formula of the module, differentiated by autograd; rows of equal responses are cut out one by one."""
    w, alpha = start.clone().requires_grad_(), torch.ones(()).requires_grad_()
    optimiser = torch.optim.Adagrad([w, alpha], lr=rate, initial_accumulator_value=0.1)
    for batch in batches:
        scores = batch.x @ (batch.y @ w.T + alpha * batch.y).T
        losses = []
        for i, row in enumerate(scores):
            others = [j for j in range(len(row)) if j == i or batch.number[j] != batch.number[i]]
            losses.append(F.cross_entropy(row[others], torch.tensor(others.index(i)), label_smoothing=smoothing))
        optimiser.zero_grad()
        (torch.stack(losses).mean() + penalty / 2 * w.square().sum()).backward()
        optimiser.step()
    return (w + alpha * torch.eye(len(w))).detach()


@pytest.mark.parametrize("block", [1, 1 << 20])
@pytest.mark.parametrize("copies", [0, 5])
def test_all_settings_at_once_are_each_what_it_is_alone(block, copies, monkeypatch):
    monkeypatch.setattr(mapping, "BLOCK", block)
    grid = [Curve(rate, penalty) for rate in (3.0, 0.3) for penalty in (0.0, 0.01)]
    start = torch.nn.init.orthogonal_(torch.empty(6, 6), generator=torch.Generator().manual_seed(1))
    batches = [pairs(12, seed=seed, copies=copies) for seed in range(4)]
    state = _State(start, grid, MapSettings())
    for number, batch in enumerate(batches):
        state.step(batch)
        if number == 1:
            state.keep([True, False, True, True])
    assert state.places == [0, 2, 3]
    for column, place in enumerate(state.places):
        expected = reference(start, batches, grid[place].learning_rate, grid[place].penalty, 0.2)
        assert torch.allclose(state.matrices()[:, column], expected, atol=2e-5), place


def test_recall_counts_groups_and_ties():
    data = pairs(230, size=64)
    same = data._replace(y=data.x)
    none, identity = torch.zeros(64, 64), torch.eye(64)
    found = recall(same, torch.stack([identity, none, -identity, identity * float("nan")], dim=1), "cosine")
    assert found.tolist() == [1.0, 0.0, 0.0, 0.0]
    scores = (data.x @ data.y.T).numpy()
    hits = 0
    for start in range(0, 230, 100):
        group = scores[start : start + 100, start : start + 100]
        hits += int(np.sum(group.argmax(axis=1) == np.arange(len(group))))
    assert float(recall(data, identity[:, None], "dot")) == pytest.approx(hits / 230)


def test_cosine_and_dot_rank_by_different_lengths():
    x, y = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    data = _Pairs(x, y, torch.arange(2))
    long = torch.tensor([[1.0, 3.0], [0.0, 0.1]])[:, None]  # stretches the second response along the first input
    assert recall(data, long, "dot").tolist() == [0.5]
    assert recall(data, long, "cosine").tolist() == [1.0]


def rotated(count=600, size=16, noise=0.7):
    """Responses are a rotation of what fits their inputs: without a map nothing is found."""
    generator = torch.Generator().manual_seed(0)
    x = F.normalize(torch.randn(count, size, generator=generator), dim=1)
    turn = torch.nn.init.orthogonal_(torch.empty(size, size), generator=generator)
    y = F.normalize(x @ turn + noise * torch.randn(count, size, generator=generator) / size**0.5, dim=1)
    return x, y, torch.arange(count)


@pytest.mark.parametrize("similarity", ["better", "cosine", "dot"])
def test_a_rotation_is_learned_and_the_best_setting_kept(similarity):
    x, y, number = rotated()
    settings = MapSettings(epochs=15, patience=3, similarity=similarity)
    found = learn(x, y, number, settings)
    assert found.unmapped < 0.1
    chosen = found.curves[found.best].recall
    assert chosen[found.epoch - 1] == max(max(curve.recall) for curve in found.curves) > 0.5
    assert len(found.curves) == 20
    for curve in found.curves:  # given up after 3 epochs without a gain, never before
        best = curve.recall.index(max(curve.recall)) + 1
        assert len(curve.recall) == min(15, best + 3)
    # The matrix is that of the epoch it is said to be of: on the held examples it gives the recall told.
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))[:120]
    held = _Pairs(x[order], y[order], number[order])
    assert float(recall(held, found.matrix[:, None], found.similarity)) == pytest.approx(chosen[found.epoch - 1])
    assert similarity in ("better", found.similarity)


def test_the_better_similarity_is_the_one_that_is_better_on_what_chooses():
    x, y, number = rotated(noise=2.0)
    kinds = ("cosine", "dot", "better")
    tried = {kind: learn(x, y, number, MapSettings(epochs=6, similarity=kind)) for kind in kinds}
    highest = {name: max(max(curve.recall) for curve in found.curves) for name, found in tried.items()}
    assert highest["cosine"] != highest["dot"]
    assert highest["better"] == max(highest["cosine"], highest["dot"])
    assert tried["better"].similarity == max(("cosine", "dot"), key=highest.__getitem__)


def test_where_no_map_is_better_none_is_taken():
    """Inputs and responses are the same vectors, so that nothing can be gained."""
    x = pairs(200, size=16).x
    found = learn(x, x, torch.arange(200), MapSettings(learning_rates=(0.01,), epochs=3))
    assert found.unmapped == 1.0
    assert found.epoch == 0
    assert torch.equal(found.matrix, torch.eye(16))


def test_the_same_seed_gives_the_same_matrix_and_another_does_not():
    x, y, number = rotated(100, 8)
    one, same, other = (learn(x, y, number, MapSettings(epochs=2, seed=seed)).matrix for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_bfloat16_products_learn_the_same(monkeypatch):
    x, y, number = rotated()
    exact = learn(x, y, number, MapSettings(epochs=8))
    monkeypatch.setattr(mapping, "has_fast_bfloat16", lambda: True)
    coarse = learn(x, y, number, MapSettings(epochs=8))
    values = [found.curves[found.best].recall[found.epoch - 1] for found in (exact, coarse)]
    assert abs(values[0] - values[1]) < 0.05


def test_a_setting_that_diverges_harms_no_other():
    x, y, number = rotated(200, 8)
    found = learn(x, y, number, MapSettings(learning_rates=(1e30, 3.0), penalties=(0.0, 1e30), epochs=5))
    assert found.curves[found.best].learning_rate == 3.0
    assert found.curves[found.best].penalty == 0.0
    assert torch.isfinite(found.matrix).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"similarity": "euclid"},
        {"learning_rates": ()},
        {"learning_rates": (0.0,)},
        {"penalties": (-1.0,)},
        {"smoothing": 1.0},
        {"choosing": 0.0},
        {"batch": 1},
        {"epochs": 0},
        {"patience": 0},
    ],
)
def test_impossible_settings(changes):
    with pytest.raises(InputError):
        MapSettings(**changes)


def test_too_few_examples():
    x, y, number = rotated(4, 8)
    with pytest.raises(InputError, match="4 examples; give 10 or more"):
        learn(x, y, number, MapSettings())
