"""Classifiers on vectors: against scikit-learn, and by what they promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.errors import InputError
from rejoinder.intents.fitting import Encoded, accuracy, fit, hold_out
from rejoinder.intents.heads import Head, head_from
from rejoinder.intents.settings import FeedForward, Logistic, paper_grid, parse_settings, settings_from


def clouds(count: int = 200, classes: int = 4, size: int = 10, spread: float = 0.6, seed: int = 0) -> Encoded:
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((classes, size))
    which = np.arange(count) % classes
    vectors = centres[which] + spread * generator.standard_normal((count, size))
    return Encoded(vectors.astype(np.float32), np.eye(classes, dtype=np.float32)[which])


def test_logistic_regression_is_that_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    data, new = clouds(spread=1.5), clouds(spread=1.5, seed=1)
    head = fit(Logistic(strength=2.0, iterations=500), data).head
    mean, spread = data.vectors.mean(axis=0), data.vectors.std(axis=0) * np.sqrt(data.vectors.shape[1])
    peer = linear_model.LogisticRegression(C=2.0, tol=1e-8, max_iter=2000)
    peer.fit((data.vectors - mean) / spread, data.classes)
    wanted = peer.predict_log_proba((new.vectors - mean) / spread)
    found = torch.from_numpy(head.logits(new.vectors)).log_softmax(dim=1).numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-2)


def test_binary_regressions_of_several_labels_are_those_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((150, 6)).astype(np.float32)
    targets = (vectors @ generator.standard_normal((6, 3)) + generator.standard_normal((150, 3)) > 0).astype(np.float32)
    head = fit(Logistic(strength=2.0, iterations=500), Encoded(vectors, targets, several=True)).head
    scaled = (vectors - vectors.mean(axis=0)) / (vectors.std(axis=0) * np.sqrt(6))
    for k in range(3):
        peer = linear_model.LogisticRegression(C=2.0, tol=1e-8, max_iter=2000).fit(scaled, targets[:, k])
        np.testing.assert_allclose(head.logits(vectors)[:, k], peer.decision_function(scaled), atol=5e-3)


def test_a_number_that_never_changes_says_nothing() -> None:
    data = clouds()
    vectors = np.hstack([data.vectors, np.full((len(data), 1), 0.1, dtype=np.float32)])
    plain, wider = fit(Logistic(), data).head, fit(Logistic(), Encoded(vectors, data.targets)).head
    changed = np.hstack([data.vectors, np.full((len(data), 1), 9.0, dtype=np.float32)])
    assert wider.layers[0].weight[:, -1].abs().max() == 0
    assert (wider.logits(changed).argmax(1) == plain.logits(data.vectors).argmax(1)).mean() > 0.95


@pytest.mark.parametrize("preset", ["logistic", "paper", "original"])
def test_every_preset_learns(preset: str) -> None:
    settings = parse_settings(preset, [] if preset == "logistic" else ["epochs=30", "hidden_size=32"])
    assert accuracy(fit(settings, clouds()).head, clouds(seed=1)) > 0.9


@pytest.mark.parametrize("settings", [FeedForward(epochs=3), FeedForward(epochs=3, optimizer="adam", decay="linear")])
def test_equal_seeds_give_equal_nets_and_leave_torch_alone(settings: FeedForward) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second, other = (fit(settings, clouds(), seed=seed).head for seed in (1, 1, 2))
    assert torch.rand(1) == expected
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


def test_early_stopping_keeps_the_best_epoch_and_ends_after_patience() -> None:
    data = clouds(spread=2.0)
    fitted = fit(FeedForward(epochs=100, patience=3, learning_rate=2.0), data, valid=clouds(60, spread=2.0, seed=1))
    assert fitted.epochs < 100
    assert fitted.validation == accuracy(fitted.head, clouds(60, spread=2.0, seed=1))
    assert fit(FeedForward(epochs=7, patience=0), data).epochs == 7


@given(st.lists(st.integers(0, 5), min_size=2, max_size=60).filter(lambda c: max(map(c.count, c)) > 1))
def test_what_is_held_out_leaves_every_intent_a_text(classes: list[int]) -> None:
    data = Encoded(np.zeros((len(classes), 2), np.float32), np.eye(6, dtype=np.float32)[classes])
    kept, held = hold_out(data, 0.4, seed=0)
    assert sorted([*kept, *held]) == list(range(len(classes)))
    assert {classes[i] for i in kept} == set(classes)
    assert {classes[i] for i in held} == {c for c in classes if classes.count(c) > 1}


def test_too_little_is_refused() -> None:
    one = Encoded(np.zeros((3, 2), np.float32), np.ones((3, 1), np.float32))
    with pytest.raises(InputError, match="two intents at least"):
        fit(Logistic(), one)
    singles = Encoded(np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32))
    with pytest.raises(InputError, match="patience=0"):
        fit(FeedForward(), singles)


def test_heads_come_back_from_their_tensors() -> None:
    head = Head([5, 7, 3], 0.5, 0.5)
    x = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
    np.testing.assert_array_equal(head_from(head.tensors()).logits(x), head.logits(x))
    assert head.training  # asking for logits changes nothing
    broken = head.tensors() | {"layers.1.weight": torch.zeros(3, 6)}
    for wrong in ({}, {"x": torch.zeros(1)}, broken, {**head.tensors(), "layers.1.bias": torch.zeros(9)}):
        with pytest.raises(InputError):
            head_from(wrong)


def test_the_grid_is_the_papers() -> None:
    grid = list(paper_grid())
    assert len(grid) == len(set(grid)) == 3 * 2 * (1 + 2 * 4)
    assert {each.hidden_size for each in grid if each.hidden_layers} == {128, 256, 512, 1024}
    assert {(each.optimizer, each.learning_rate) for each in grid} == {("sgd", 0.75), ("adam", 4e-4)}
    assert {each.input_dropout for each in grid} == {0.25, 0.5, 0.75}


@pytest.mark.parametrize(
    ("preset", "change", "said"),
    [
        ("best", "", "no preset 'best'; allowed are logistic, paper, original"),
        ("logistic", "dropout=1", "strength, iterations"),
        ("logistic", "strength", "NAME=VALUE"),
        ("logistic", "strength=-1", "setting strength: .* given -1"),
        ("paper", "kind=logistic", "NAMEs"),
        ("paper", "optimizer=rmsprop", "setting optimizer: .* given 'rmsprop'"),
        ("paper", "input_dropout=1.0", "setting input_dropout"),
    ],
)
def test_wrong_settings_are_told(preset: str, change: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_settings(preset, [change] if change else [])


def test_settings_come_back_from_json() -> None:
    import dataclasses

    for each in (Logistic(strength=3.0), parse_settings("original", ["optimizer=adam"])):
        assert settings_from(dataclasses.asdict(each)) == each
    with pytest.raises(InputError, match="kind"):
        settings_from({"kind": "forest"})
