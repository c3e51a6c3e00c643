"""Intervals: do they hold the truth as often as they say?"""

import numpy as np
import pytest

from rejoinder.errors import InputError
from rejoinder.evaluation.bootstrap import Estimate, estimates


def one(values, units=None, **settings):
    values = np.asarray(values, dtype=np.float64)[:, None]
    units = np.arange(len(values)) if units is None else np.asarray(units)
    (estimate,) = estimates(values, units, **settings)
    return estimate


def coverage(*, turns, by_thread):
    """Share of 300 simulated data sets whose interval holds the true mean: 40 dialogues, turns all alike in one."""
    rng = np.random.default_rng(3)
    units = np.repeat(np.arange(40), turns)
    held = 0
    for trial in range(300):
        values = np.repeat(rng.random(40) < 0.4, turns)
        estimate = one(values, units if by_thread else None, resamples=200, seed=trial)
        held += estimate.low <= 0.4 <= estimate.high
    return held / 300


def test_the_interval_holds_the_true_mean_about_95_times_in_100():
    assert 0.91 <= coverage(turns=1, by_thread=True) <= 0.98
    assert 0.91 <= coverage(turns=5, by_thread=True) <= 0.98


def test_threads_of_different_sizes_keep_the_mean_over_examples():
    estimate = one([1, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1])
    assert estimate.value == pytest.approx(1 / 6)
    assert (estimate.low, estimate.high) == (0.0, 1.0)  # either thread may be drawn twice


def test_a_single_unit_says_nothing_and_equal_values_have_no_spread():
    assert one([1, 0, 1, 1], [0, 0, 0, 0]) == Estimate(0.75, 0.0, 1.0)
    assert one([1, -1], [0, 0], bounds=(-1.0, 1.0)) == Estimate(0.0, -1.0, 1.0)
    assert one([0.25] * 8) == Estimate(0.25, 0.25, 0.25)
    with pytest.raises(InputError, match="no examples"):
        one([])


def test_the_seed_decides_and_columns_share_the_draws():
    values = np.random.default_rng(1).random(50)
    assert one(values, seed=4) == one(values, seed=4)
    assert one(values, seed=4) != one(values, seed=5)
    first, second = estimates(np.stack([values, values + 1], axis=1), np.arange(50))
    assert second.low == pytest.approx(first.low + 1)
    assert second.high == pytest.approx(first.high + 1)
