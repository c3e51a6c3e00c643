"""Ranks, recall and MRR against a loop that follows the definition word by word."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.evaluation.ranking import ranks


def naive_rank(scores, label):
    """Walk over the others; whoever cannot be shown to be worse stands before the right one."""
    before = 0
    for place, score in enumerate(scores):
        if place == label:
            continue
        worse = not math.isnan(score) and not math.isnan(scores[label]) and score < scores[label]
        before += not worse
    return before + 1


VALUES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.25, math.inf, -math.inf, math.nan])


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 7).flatmap(lambda m: st.lists(st.lists(VALUES, min_size=m, max_size=m), min_size=1)), st.data())
def test_ranks(rows, data):
    labels = [data.draw(st.integers(0, len(row) - 1)) for row in rows]
    found = ranks(np.array(rows, dtype=np.float32), np.array(labels))
    assert found.tolist() == [naive_rank(row, label) for row, label in zip(rows, labels, strict=True)]
