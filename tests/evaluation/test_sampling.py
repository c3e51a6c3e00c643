"""Samples: of the right size, and fair."""

from __future__ import annotations

import numpy as np
import pytest

from rejoinder.evaluation.sampling import sample
from tests.evaluation.fakes import numbered_examples


def test_a_sample_is_a_subset_drawn_by_the_seed():
    examples = numbered_examples(50)
    steps = []
    first = sample(iter(examples), 10, 1, progress=steps.append)
    assert len({example.id for example in first}) == 10
    assert first == sample(iter(examples), 10, 1)
    assert first != sample(iter(examples), 10, 2)
    assert sum(steps) == 50


def test_progress_is_told_now_and_then():
    steps = []
    sample(iter(numbered_examples(2500)), 10, progress=steps.append)
    assert steps == [1000, 1000, 500]


@pytest.mark.parametrize("limit", [None, 50, 80])
def test_a_sample_of_all_keeps_the_order(limit):
    assert sample(numbered_examples(50), limit) == numbered_examples(50)


def test_every_example_is_equally_likely_to_be_drawn():
    counts = np.zeros(20)
    for seed in range(2000):
        for example in sample(numbered_examples(20), 5, seed):
            counts[int(example.id)] += 1
    # Each is drawn 500 times of 2000, with a standard deviation of 19.
    assert counts.min() > 500 - 5 * 19
    assert counts.max() < 500 + 5 * 19
