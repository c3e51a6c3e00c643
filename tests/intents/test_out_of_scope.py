"""Out-of-scope scores, thresholds and figures, against sums written out and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.errors import InputError
from rejoinder.intents.encoders import unit_rows
from rejoinder.intents.fitting import Encoded
from rejoinder.intents.out_of_scope import (
    Centroids,
    Rejection,
    auroc,
    best_threshold,
    choose_rejection,
    judge,
    scores,
)

NUMBERS = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)


@given(NUMBERS, NUMBERS)
def test_auroc_is_the_share_of_pairs_in_the_right_order(inside: list[float], outside: list[float]) -> None:
    pairs = [(out > inn) + 0.5 * (out == inn) for inn in inside for out in outside]
    assert auroc(np.array(inside), np.array(outside)) == pytest.approx(np.mean(pairs))


def test_auroc_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(0)
    inside, outside = generator.normal(size=50), generator.normal(1.0, size=30)
    wanted = metrics.roc_auc_score([0] * 50 + [1] * 30, np.concatenate([inside, outside]))
    assert auroc(inside, outside) == pytest.approx(wanted)
    with pytest.raises(InputError):
        auroc(inside, np.empty(0))


@given(st.lists(st.tuples(st.integers(-4, 4).map(float), st.booleans()), min_size=1, max_size=15), NUMBERS)
def test_no_threshold_is_better_than_the_best(rows: list[tuple[float, bool]], outside: list[float]) -> None:
    inside, right, out = np.array([s for s, _ in rows]), np.array([r for _, r in rows]), np.array(outside)

    def worth(threshold: float) -> float:
        return float((right & (inside <= threshold)).mean() + (out > threshold).mean()) / 2

    threshold, value = best_threshold(inside, right, out)
    assert value == pytest.approx(worth(threshold))
    assert value >= max(worth(t) for t in np.arange(-5.5, 6, 0.5)) - 1e-12


def test_scores_by_hand() -> None:
    logits = np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [800.0, 0.0, -800.0]], dtype=np.float32)
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], dtype=np.float32)
    train = Encoded(np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], np.float32), np.eye(4, dtype=np.float32))
    centroids = Centroids.of(train)
    top = np.exp(2) / (np.exp(2) + 2)
    np.testing.assert_allclose(scores("probability", logits, vectors, centroids), [1 - top, 2 / 3, 0], atol=1e-9)
    np.testing.assert_allclose(scores("energy", logits, vectors, centroids), [-np.log(np.exp(2) + 2), -np.log(3), -800])
    np.testing.assert_allclose(scores("distance", logits, vectors, centroids), [0, 0, 0.2], atol=1e-6)


def test_centroids_do_not_depend_on_how_often_an_intent_occurs() -> None:
    generator = np.random.default_rng(0)
    vectors = unit_rows(generator.standard_normal((6, 4)).astype(np.float32))
    targets = np.eye(2, dtype=np.float32)[[0, 0, 0, 0, 1, 1]]
    found = Centroids.of(Encoded(vectors, targets))
    for k, rows in ((0, slice(0, 4)), (1, slice(4, 6))):
        direction = vectors[rows].mean(axis=0) - vectors.mean(axis=0)
        np.testing.assert_allclose(found.directions[k], direction / np.linalg.norm(direction), atol=1e-5)


def test_the_better_score_is_chosen_and_judged() -> None:
    right = np.array([True, True, False])
    inside = {"probability": np.array([0.1, 0.2, 0.3]), "energy": np.array([1.0, 5.0, 2.0])}
    outside = {"probability": np.array([0.6, 0.25]), "energy": np.array([0.0, 3.0])}
    rejection = choose_rejection(inside, right, outside)  # type: ignore[arg-type]
    assert rejection == Rejection("probability", pytest.approx(0.225))  # type: ignore[arg-type]
    found = judge(rejection, inside["probability"], right, outside["probability"])
    assert found.in_scope_accuracy == found.in_scope_accuracy_unrefused == pytest.approx(2 / 3)
    assert (found.recall, found.precision, found.auroc) == (1.0, pytest.approx(2 / 3), pytest.approx(5 / 6))
    nothing = judge(Rejection("probability", 9.0), inside["probability"], right, outside["probability"])
    assert (nothing.recall, nothing.precision) == (0.0, None)
