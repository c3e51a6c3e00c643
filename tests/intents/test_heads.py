"""Heads on vectors: at the minimum of the loss that is written down, and by what they promise."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.corpora.keys import text_key
from rejoinder.errors import InputError, RejoinderError
from rejoinder.intents.sampling import shuffled_ranks
from rejoinder.intents.fitting import fit, split_validation
from rejoinder.intents.heads import Encoded, FeedForward, Logistic, accuracy, parse_settings


def clouds(count=200, classes=4, size=10, spread=0.6, seed=0):
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((classes, size))
    which = np.arange(count) % classes
    vectors = centres[which] + spread * generator.standard_normal((count, size))
    return Encoded(distinct(count), vectors.astype(np.float32), np.eye(classes, dtype=np.float32)[which])


def distinct(count):
    """That many texts, none of which occurs twice."""
    return tuple(f"text {n}" for n in range(count))


@pytest.mark.parametrize(("labels", "multi_label"), [(2, False), (4, False), (3, True)])
def test_logistic_regression_is_at_the_minimum_of_its_loss(labels, multi_label):
    data, strength = clouds(classes=labels, spread=1.5), 2.0
    if multi_label:
        generator = np.random.default_rng(0)
        targets = (
            data.vectors @ generator.standard_normal((10, labels))
            + generator.standard_normal((200, labels))
            > 0
        )
        data = Encoded(data.texts, data.vectors, targets.astype(np.float32), multi_label=True)
    head = fit(Logistic(strength=strength, iterations=500), data).head
    first, second = (torch.from_numpy(values[0]).double() for values in (head.weights, head.biases))
    x = torch.from_numpy(data.vectors).double()
    mean, spread = x.mean(dim=0), x.std(dim=0, correction=0) * 10**0.5
    # Back to the standardised vectors, whose weights the penalty is of.
    weight = (first * spread).requires_grad_()
    bias = (second + first @ mean).requires_grad_()
    logits, wanted = (
        ((x - mean) / spread) @ weight.T + bias,
        torch.from_numpy(data.targets).double(),
    )
    if multi_label:
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="sum")
    else:
        loss = torch.nn.functional.cross_entropy(logits, wanted, reduction="sum")
    (loss / len(x) + weight.square().sum() / (2 * strength * len(x))).backward()
    assert weight.grad.abs().max() < 5e-4
    assert bias.grad.abs().max() < 5e-4


def test_an_intent_without_texts_is_never_found_and_one_of_all_texts_always():
    data = clouds(classes=4)
    for known in ([0, 1, 3], [1, 2], [2]):  # as in the folds of cross-validation
        part = data.rows(np.flatnonzero(np.isin(data.classes, known)))
        logits = fit(Logistic(), part).head.logits(data.vectors)
        assert np.isfinite(logits).all()
        assert set(logits.argmax(axis=1)) <= set(known)
    targets = data.targets.copy()
    targets[:, 2], targets[:, 3] = 0, 1
    found = (
        fit(Logistic(), Encoded(data.texts, data.vectors, targets, multi_label=True)).head.logits(data.vectors)
        > 0
    )
    assert not found[:, 2].any()
    assert found[:, 3].all()


def test_a_number_that_never_changes_says_nothing():
    data = clouds()
    vectors = np.hstack([data.vectors, np.full((len(data), 1), 0.1, dtype=np.float32)])
    plain = fit(Logistic(), data).head
    wider = fit(Logistic(), Encoded(data.texts, vectors, data.targets)).head
    changed = np.hstack([data.vectors, np.full((len(data), 1), 9.0, dtype=np.float32)])
    assert np.abs(wider.weights[0][:, -1]).max() == 0
    assert (wider.logits(changed).argmax(1) == plain.logits(data.vectors).argmax(1)).mean() > 0.95


@pytest.mark.parametrize("preset", ["logistic", "paper", "original"])
def test_every_preset_learns(preset):
    settings = parse_settings(
        preset, [] if preset == "logistic" else ["epochs=30", "hidden_size=32"]
    )
    assert accuracy(fit(settings, clouds()).head, clouds(seed=1)) > 0.9


@pytest.mark.parametrize(
    "settings", [FeedForward(epochs=3), FeedForward(epochs=3, optimizer="adam", decay="linear")]
)
def test_equal_seeds_give_equal_nets_and_leave_torch_alone(settings):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second, other = (fit(settings, clouds(), seed=seed).head for seed in (1, 1, 2))
    assert torch.rand(1) == expected
    pairs = first.tensors(), second.tensors(), other.tensors()
    assert all(np.array_equal(pairs[0][name], pairs[1][name]) for name in pairs[0])
    assert not all(np.array_equal(pairs[0][name], pairs[2][name]) for name in pairs[0])


def test_early_stopping_keeps_the_best_epoch_and_ends_after_patience():
    data = clouds(spread=2.0)
    fitted = fit(
        FeedForward(epochs=100, patience=3, learning_rate=2.0),
        data,
        valid=clouds(60, spread=2.0, seed=1),
    )
    assert fitted.epochs < 100
    assert fitted.validation == accuracy(fitted.head, clouds(60, spread=2.0, seed=1))
    assert fit(FeedForward(epochs=7, patience=0), data).epochs == 7


@given(
    st.lists(st.integers(0, 5), min_size=2, max_size=60).filter(lambda c: max(map(c.count, c)) > 1)
)
def test_a_validation_split_leaves_every_intent_a_text(classes):
    rows = np.arange(len(classes), dtype=np.float32)[:, None]
    data = Encoded(distinct(len(rows)), rows, np.eye(6, dtype=np.float32)[classes])
    train, valid = split_validation(data, 0.4, seed=0)
    assert sorted([*train.vectors.ravel(), *valid.vectors.ravel()]) == list(range(len(classes)))
    assert set(train.classes) == set(classes)
    assert set(valid.classes) == {c for c in classes if classes.count(c) > 1}
    counts = np.bincount(classes, minlength=6)
    wanted = np.minimum(np.maximum(np.round(0.4 * counts), 1), counts - 1)
    is_valid = shuffled_ranks(np.array(classes), 0) < wanted[classes]
    assert valid.vectors.ravel().tolist() == np.flatnonzero(is_valid).tolist()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=2, max_size=60))
def test_a_validation_split_keeps_equal_texts_together(rows):
    rows = [*rows, (0, 10), (0, 11), (0, 12)]
    classes = [c for c, _ in rows]
    texts = tuple(f"Text {n}{mark}" for (_, n), mark in zip(rows, "!?." * 21, strict=False))
    vectors = np.arange(len(rows), dtype=np.float32)[:, None]
    data = Encoded(texts, vectors, np.eye(4, dtype=np.float32)[classes])
    train, valid = split_validation(data, 0.4, seed=0)
    assert sorted([*train.texts, *valid.texts]) == sorted(texts)
    assert not {*map(text_key, train.texts)} & {*map(text_key, valid.texts)}
    assert set(train.classes) == set(classes)
    assert len(valid)


def test_wrong_settings_are_named():
    for preset, change, said in (
        ("logistic", "dropout=1", "strength, iterations"),
        ("logistic", "strength", "NAME=VALUE"),
        ("logistic", "strength=-1", "strength = -1 is not allowed: it should be greater than 0"),
        ("paper", "kind=logistic", "kind = 'logistic' is not allowed: it should be 'feed-forward'"),
        (
            "paper",
            "optimizer=rmsprop",
            "optimizer = 'rmsprop' is not allowed: it should be 'sgd' or 'adam'",
        ),
        ("paper", "input_dropout=1.0", "input_dropout = 1.0 is not allowed"),
    ):
        with pytest.raises(InputError, match=said):
            parse_settings(preset, [change])
    with pytest.raises(InputError, match="patience=0"):  # too little to hold any out
        fit(FeedForward(), Encoded(distinct(3), np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32)))


@pytest.mark.parametrize("settings", [FeedForward(learning_rate=1e30), FeedForward(learning_rate=1e30, patience=0, epochs=3)])
def test_a_training_that_diverges_is_an_error(settings):
    with pytest.raises(RejoinderError, match=r"not all weights are finite numbers after \d+ epochs; lower learning_rate"):
        fit(settings, clouds())
