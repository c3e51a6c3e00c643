"""Calibration error and the risk-coverage curve, on probabilities that are worked out by hand."""

import numpy as np
import pytest

from rejoinder.evaluation import plots
from rejoinder.evaluation.coverage import (
    at_threshold,
    calibration_error,
    coverage_curve,
    for_precision,
)
from rejoinder.evaluation.plots import draw_calibration

P = np.array([0.9, 0.9, 0.62, 0.1, 1.0])
RIGHT = np.array([True, False, True, False, True])


def test_calibration_error_is_the_mean_distance_of_shares_from_probabilities():
    assert calibration_error(P, RIGHT) == pytest.approx((2 * 0.4 + 0.38 + 0.1 + 0) / 5)


def test_honest_probabilities_have_little_error_and_others_much():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    right = rng.random(20_000) < p
    assert calibration_error(p, right) < 0.02
    assert calibration_error(p**3, right) > 0.2


def test_coverage_takes_equal_probabilities_together():
    assert coverage_curve(P, RIGHT) == [
        (1.0, 0.2, 1),
        (0.9, 0.6, 2 / 3),
        (0.62, 0.8, 0.75),
        (0.1, 1, 0.6),
    ]
    assert at_threshold(P, RIGHT, 0.9) == (0.9, 0.6, 2 / 3)
    assert at_threshold(P[:4], RIGHT[:4], 0.95)[:2] == (0.95, 0)
    # the highest threshold of two digits that answers as many
    assert for_precision(P, RIGHT, 0.7) == (0.62, 0.8, 0.75)
    assert for_precision(P, RIGHT, 0.6) == (0.1, 1, 0.6)
    for highest, threshold in ((0.5, 0.5), (0.29, 0.29), (0.9178, 0.91), (0.0042, 0)):
        assert for_precision(np.array([0.95, highest]), np.array([True, True]), 0.9) == (threshold, 1, 1)
    gap = np.array([0.97, 0.93, 0.88, 0.05])
    assert for_precision(gap, gap > 0.5, 0.9) == (0.88, 0.75, 1)
    close = np.array([0.6203, 0.6201])
    assert for_precision(close, np.array([True, False]), 0.9) == (0.6203, 0.5, 1)
    assert for_precision(P[3:4], RIGHT[3:4], 0.9) is None


@pytest.mark.parametrize("kind", plots.KINDS)
def test_it_is_drawn(tmp_path, kind):
    pytest.importorskip("matplotlib")
    figure = draw_calibration(P, RIGHT, "title")
    _, risk = figure.axes
    np.testing.assert_allclose(
        risk.lines[0].get_xydata(), [[0.2, 0], [0.6, 1 / 3], [0.8, 0.25], [1, 0.4]]
    )
    for name in ("a", "b"):
        plots.save_figure(draw_calibration(P, RIGHT, "title"), tmp_path / name, kind)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_title_of_a_picture_is_no_formula(tmp_path):
    pytest.importorskip("matplotlib")
    title = r"$index_$ on C:\$data\$"
    plots.save_figure(draw_calibration(P, RIGHT, title), tmp_path / "a.svg", "svg")
    assert title in (tmp_path / "a.svg").read_text()
